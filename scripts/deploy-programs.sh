#!/usr/bin/env bash
# Builds the programs that render and check deploy/, once, into a cache outside the checkout:
#   <cache>/deploy-<versions>/{helm,kustomize}, and swagger.json, the OpenAPI of Kubernetes
# Usage: scripts/deploy-programs.sh     prints the directory
set -euo pipefail
cache=${RUNHCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/containerd-shim-runhcs}
helm=v3.21.4
kustomize=v5.8.1
kubernetes=v1.36.1 # for its OpenAPI, from the module that has the whole source
target=$cache/deploy-$helm-$kustomize-$kubernetes

build() {
    local work
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    mkdir -p "$target.partial" "$work/bin"
    # `go install` refuses a module with replace lines; neither of these has any.
    GOBIN=$work/bin CGO_ENABLED=0 GOFLAGS=-trimpath go install -ldflags "-s -w" "helm.sh/helm/v3/cmd/helm@$helm" 1>&2
    GOBIN=$work/bin CGO_ENABLED=0 GOFLAGS=-trimpath go install -ldflags "-s -w" \
        "sigs.k8s.io/kustomize/kustomize/v5@$kustomize" 1>&2
    module=$(cd "$work" && go mod download -json "k8s.io/kubernetes@$kubernetes" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
    cp "$module/api/openapi-spec/swagger.json" "$work/bin/"
    cp "$work/bin/"* "$target.partial/"
    mv "$target.partial" "$target"
}

mkdir -p "$cache"
[ -x "$target/helm" ] || (
    flock 9
    if [ ! -x "$target/helm" ]; then
        rm -rf "$target.partial"
        echo "building helm $helm and kustomize $kustomize (once; kept in $cache)" >&2
        build
    fi
) 9>"$cache/.lock.deploy"
echo "$target"
