#!/usr/bin/env bash
# Builds the Go programs that tests and benchmarks use, once, into a cache outside the checkout:
#   <cache>/containerd-<version>/{containerd,ctr,containerd-shim-runc-v2}
# With GOOS=windows it builds Windows programs, in <cache>/containerd-<version>-windows, without the runc shim. The
# version "hcsshim" is Microsoft's shim, in <cache>/hcsshim-<its version>-windows/containerd-shim-runhcs-v1.exe, and
# "critest" is the CRI validation suite, in <cache>/critest-<its version>[-windows]/{critest,ginkgo}.
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

cri_tools=v1.36.0

build() {
    local version=$1 target=$2 module=$3 work
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    # A temporary module that requires containerd: `go install path@version` refuses a go.mod with replace lines.
    # There is no `go mod tidy`: it downloads what the tests of every dependency need, minutes instead of seconds.
    cd "$work"
    go mod init programs >/dev/null 2>&1
    go mod edit -require "$module@$version"
    mkdir -p "$target.partial"
    local programs=("$module/cmd/containerd" "$module/cmd/ctr")
    [ "${GOOS:-linux}" = windows ] || programs+=("$module/cmd/containerd-shim-runc-v2")
    CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags "-s -w -X ${module}/version.Version=${version}" \
        -o "$target.partial/" "${programs[@]}" 1>&2
    mv "$target.partial" "$target"
}

build_hcsshim() {
    local target=$1 module=github.com/Microsoft/hcsshim work replacement
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    cd "$work"
    go mod init programs >/dev/null 2>&1
    go mod edit -require "$module@$hcsshim"
    for replacement in "${hcsshim_replacements[@]}"; do go mod edit -replace "$replacement"; done
    mkdir -p "$target.partial"
    GOOS=windows CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags "-s -w" -o "$target.partial/" \
        "$module/cmd/containerd-shim-runhcs-v1" 1>&2
    mv "$target.partial" "$target"
}

# critest is a test binary of the module's own; ginkgo starts its parallel processes.
build_critest() {
    local target=$1 suffix=$2 work source
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    cd "$work"
    go mod init programs >/dev/null 2>&1
    go mod download "sigs.k8s.io/cri-tools@$cri_tools"
    source=$(go mod download -json "sigs.k8s.io/cri-tools@$cri_tools" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    mkdir -p "$target.partial"
    # With the versions of the module's own go.mod and go.sum.
    export GOFLAGS=-mod=readonly CGO_ENABLED=0
    go -C "$source" test -c -trimpath -ldflags "-s -w -X sigs.k8s.io/cri-tools/pkg/version.Version=$cri_tools" \
        -o "$target.partial/critest$suffix" ./cmd/critest 1>&2
    go -C "$source" build -trimpath -ldflags "-s -w" -o "$target.partial/ginkgo$suffix" \
        github.com/onsi/ginkgo/v2/ginkgo 1>&2
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
    if [ "$version" = critest ]; then
        target=$cache/critest-$cri_tools suffix=
        if [ "${GOOS:-linux}" = windows ]; then target=$target-windows suffix=.exe; fi
        [ -x "$target/critest$suffix" ] || (
            flock 9
            if [ ! -x "$target/critest$suffix" ]; then
                rm -rf "$target.partial"
                echo "building critest $cri_tools (once; kept in $cache)" >&2
                build_critest "$target" "$suffix"
            fi
        ) 9>"$cache/.lock.critest"
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
