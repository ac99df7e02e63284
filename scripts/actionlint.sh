#!/usr/bin/env bash
# Checks .github/workflows with actionlint, which is built once from its Go module, into a cache outside the checkout.
# Without Go the check is skipped; with CI=true that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v1.7.12
cache=${RUNHCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/containerd-shim-runhcs}/actionlint-$version
if [ ! -x "$cache/actionlint" ]; then
    if ! command -v go >/dev/null; then
        echo "actionlint is skipped: Go is needed to build it" >&2
        [ "${CI:-}" != true ] && exit 0 || exit 1
    fi
    echo "building actionlint $version (once; kept in $cache)" >&2
    mkdir -p "$cache"
    GOBIN=$cache go install "github.com/rhysd/actionlint/cmd/actionlint@$version"
fi
exec "$cache/actionlint" -color=false "$@"
