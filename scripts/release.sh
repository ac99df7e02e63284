#!/usr/bin/env bash
# Builds everything that a release consists of, into dist/release, and checks it (docs/how-to/releasing.md):
# the zips for Windows nodes, their SBOMs, the wheels, and SHA256SUMS.
#   scripts/release.sh [TAG]     TAG, such as v0.1.0, must be the version of the project
# With a certificate (SIGN_PFX, or its content in base64 in SIGN_PFX_BASE64, and SIGN_PASSWORD) the zip is signed.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
grep -qx "VERSION = \"$version\"" shim/version.py || { echo "pyproject.toml and shim/version.py differ" >&2; exit 1; }
if [ $# -gt 0 ] && [ "$1" != "v$version" ]; then
    echo "the tag $1 is not v$version, the version of pyproject.toml" >&2
    exit 1
fi

echo "== generated files are current"
make --no-print-directory proto native docs
git diff --exit-code

if [ -n "${SIGN_PFX_BASE64:-}" ]; then
    SIGN_PFX=$(mktemp)
    trap 'rm -f "$SIGN_PFX"' EXIT
    base64 -d <<<"$SIGN_PFX_BASE64" >"$SIGN_PFX"
    export SIGN_PFX
fi
unset SIGN_PFX_BASE64

echo "== the zips for Windows, twice: the builds must be identical"
rm -f dist/*.zip dist/*.whl
env -u SIGN_PFX make --no-print-directory dist-windows
zips=(dist/containerd-shim-runhcs-"$version"-windows-*.zip)
first=$(sha256sum "${zips[@]}")
env -u SIGN_PFX make --no-print-directory dist-windows
[ "$(sha256sum "${zips[@]}")" = "$first" ] || { echo "two builds of ${zips[*]} differ" >&2; exit 1; }
if [ -n "${SIGN_PFX:-}" ]; then
    echo "== the zips for Windows, signed; timestamps make each signature unique"
    make --no-print-directory dist-windows
fi

echo "== the wheels"
make --no-print-directory wheels

release=dist/release
rm -rf "$release"
mkdir -p "$release"
cp "${zips[@]}" dist/*.whl "$release"
for zip in "${zips[@]}"; do
    unzip -qjo "$zip" '*.cdx.json' -d "$release" || { echo "$zip contains no SBOM" >&2; exit 1; }
done
(cd "$release" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
