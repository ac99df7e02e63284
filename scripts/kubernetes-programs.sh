#!/usr/bin/env bash
# Builds the programs of Kubernetes that deploy/cluster and tests/kubernetes use, once, into a cache outside the checkout:
#   <cache>/kubernetes-<version>/{kube-apiserver,kube-controller-manager,kube-scheduler,kubectl,kubelet}
# The source is the module k8s.io/kubernetes. Its go.mod takes the modules below k8s.io/ (api, client-go, …) from its own
# repository; here they are the published modules of the same release.
# Usage: scripts/kubernetes-programs.sh     prints the directory
set -euo pipefail
cache=${RUNHCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/containerd-shim-runhcs}
release=36.1
module=k8s.io/kubernetes
target=$cache/kubernetes-v1.$release
packages=(cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubectl,kubelet})

build() {
    local work file name flags
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    cd "$work"
    go mod init programs >/dev/null 2>&1
    file=$(go mod download -json "$module@v1.$release" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
    go mod edit -require "$module@v1.$release"
    sed -n 's|^\t\(k8s.io/[a-z0-9-]*\) => \./staging/.*|\1|p' "$file" | while read -r name; do
        go mod edit -replace "$name=$name@v0.$release"
    done
    flags="-s -w"
    # The API server and the clients derive what they offer from their version.
    for name in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        flags+=" -X $name.gitVersion=v1.$release -X $name.gitMajor=1 -X $name.gitMinor=${release%.*}"
    done
    mkdir -p "$target.partial"
    CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags "$flags" -o "$target.partial/" \
        "${packages[@]/#/$module/}" 1>&2
    rm -rf "$target"
    mv "$target.partial" "$target"
}

mkdir -p "$cache"
[ -x "$target/kubelet" ] || (
    flock 9
    if [ ! -x "$target/kubelet" ]; then
        rm -rf "$target.partial"
        echo "building Kubernetes v1.$release (once; kept in $cache)" >&2
        build
    fi
) 9>"$cache/.lock.kubernetes"
echo "$target"
