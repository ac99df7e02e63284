#!/usr/bin/env bash
# Builds an OpenTelemetry Collector from its Go modules, once, into a cache outside the checkout, and prints its path.
# The tests of traces use it (tests/support/otelcol/main.go has its components).
set -euo pipefail
version=v0.120.0
stable=v1.26.0 # of the same release: modules that are past 1.0
root=$(cd "$(dirname "$0")/.." && pwd)
cache=${RUNHCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/containerd-shim-runhcs}
target=$cache/otelcol-$version
mkdir -p "$cache"
[ -x "$target" ] || (
    flock 9
    [ ! -x "$target" ] || exit 0
    echo "building the OpenTelemetry Collector $version (once; kept in $cache)" >&2
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cp "$root/tests/support/otelcol/main.go" "$work"
    cd "$work"
    go mod init otelcol >/dev/null 2>&1
    core=go.opentelemetry.io/collector
    go get "$core/otelcol@$version" "$core/component@$version" "$core/exporter@$version" "$core/receiver@$version" \
        "$core/receiver/otlpreceiver@$version" "$core/confmap@$stable" "$core/confmap/provider/fileprovider@$stable" \
        "github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter@$version" 1>&2
    CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags "-s -w" -o "$target.partial" . 1>&2
    mv "$target.partial" "$target"
) 9>"$cache/.lock.otelcol"
echo "$target"
