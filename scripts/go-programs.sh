#!/usr/bin/env bash
# Builds the Go programs that tests and benchmarks use, once, into a cache outside the checkout:
#   <cache>/containerd-<version>/{containerd,ctr,containerd-shim-runc-v2}
# With GOOS=windows it builds Windows programs, in <cache>/containerd-<version>-windows, without the runc shim. The
# version "hcsshim" is Microsoft's shim, in <cache>/hcsshim-<its version>-windows/containerd-shim-runhcs-v1.exe.
# Usage: scripts/go-programs.sh [VERSION …]     prints one line "VERSION DIRECTORY" for each
set -euo pipefail
cache=${RUNHCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/containerd-shim-runhcs}
versions=("$@")
if [ ${#versions[@]} -eq 0 ]; then
    versions=(v1.7.34 v2.3.4)
    [ "${GOOS:-linux}" != windows ] || versions+=(hcsshim)
fi

# The newest release of Microsoft's shim that can be built. Newer ones need versions of cosesign1go that the module
# proxy refuses to serve (1.5.0 and up). This one builds with 1.4.0 in place of 1.5.0, which only confidential containers
# use. The source of the shim itself is unchanged.
hcsshim=v0.15.0-rc.3
hcsshim_replacements=(
    github.com/Microsoft/cosesign1go=github.com/Microsoft/cosesign1go@v1.4.0
    google.golang.org/genproto=google.golang.org/genproto@v0.0.0-20250428153025-10db94c68c34 # a line of its go.mod
)

build() {
    local version=$1 target=$2 module=$3 work
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    # A temporary module that requires containerd: `go install path@version` refuses a go.mod with replace lines.
    cd "$work"
    go mod init programs >/dev/null 2>&1
    cat > tools.go <<EOF
//go:build tools

package programs

import (
	_ "$module/cmd/containerd"
	_ "$module/cmd/containerd-shim-runc-v2"
	_ "$module/cmd/ctr"
)
EOF
    go get "$module@$version" >/dev/null 2>&1
    go mod tidy >/dev/null 2>&1
    mkdir -p "$target.partial"
    local programs=("$module/cmd/containerd" "$module/cmd/ctr")
    [ "${GOOS:-linux}" = windows ] || programs+=("$module/cmd/containerd-shim-runc-v2")
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X ${module}/version.Version=${version}" -o "$target.partial/" \
        "${programs[@]}" 1>&2
    mv "$target.partial" "$target"
}

build_hcsshim() {
    local target=$1 module=github.com/Microsoft/hcsshim work replacement
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    cd "$work"
    go mod init programs >/dev/null 2>&1
    printf '//go:build tools\n\npackage programs\n\nimport _ "%s/cmd/containerd-shim-runhcs-v1"\n' "$module" > tools.go
    go mod edit -require "$module@$hcsshim"
    for replacement in "${hcsshim_replacements[@]}"; do go mod edit -replace "$replacement"; done
    GOOS=windows go mod tidy >/dev/null 2>&1
    mkdir -p "$target.partial"
    GOOS=windows CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$target.partial/" \
        "$module/cmd/containerd-shim-runhcs-v1" 1>&2
    mv "$target.partial" "$target"
}

mkdir -p "$cache"
for version in "${versions[@]}"; do
    if [ "$version" = hcsshim ]; then
        target=$cache/hcsshim-$hcsshim-windows
        [ -x "$target/containerd-shim-runhcs-v1.exe" ] || (
            flock 9
            if [ ! -x "$target/containerd-shim-runhcs-v1.exe" ]; then
                rm -rf "$target.partial"
                echo "building Microsoft's shim $hcsshim (once; kept in $cache)" >&2
                build_hcsshim "$target"
            fi
        ) 9>"$cache/.lock.hcsshim"
        echo "$version $target"
        continue
    fi
    target=$cache/containerd-$version
    suffix=
    if [ "${GOOS:-linux}" = windows ]; then target=$target-windows suffix=.exe; fi
    case $version in
        v1.*) module=github.com/containerd/containerd ;;
        *) module=github.com/containerd/containerd/v2 ;;
    esac
    # Take the lock only to build: a caller that finds the version built does not wait for the build of another one.
    [ -x "$target/containerd$suffix" ] || (
        flock 9
        if [ ! -x "$target/containerd$suffix" ]; then
            rm -rf "$target.partial"
            echo "building containerd $version (once; kept in $cache)" >&2
            build "$version" "$target" "$module"
        fi
    ) 9>"$cache/.lock$suffix"
    echo "$version $target"
done
