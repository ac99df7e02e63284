#!/usr/bin/env bash
# Builds Prometheus' promtool from its Go module, once, into a cache outside the checkout, and prints its path. The tests
# of deploy/observability use it.
set -euo pipefail
version=v0.305.0 # Prometheus 3.5, the long-term release
cache=${RUNHCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/containerd-shim-runhcs}
target=$cache/promtool-$version
mkdir -p "$cache"
[ -x "$target" ] || (
    flock 9
    [ ! -x "$target" ] || exit 0
    echo "building promtool $version (once; kept in $cache)" >&2
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    # A temporary module that requires it: `go install path@version` refuses a go.mod with replace lines.
    go mod init programs >/dev/null 2>&1
    go get "github.com/prometheus/prometheus/cmd/promtool@$version" >/dev/null 2>&1
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$target.partial" github.com/prometheus/prometheus/cmd/promtool 1>&2
    mv "$target.partial" "$target"
) 9>"$cache/.lock.promtool"
echo "$target"
