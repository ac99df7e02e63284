#!/usr/bin/env bash
# The level tests/kubernetes: installs etcd and CNI plugins, builds Kubernetes, containerd and helm (once, then cached),
# runs the tests and prints how long they took. Every test cluster fails the run if its pods leave anything on the machine.
# Usage: scripts/test-kubernetes.sh [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v etcd >/dev/null || missing+=(etcd-server)
command -v runc >/dev/null || missing+=(runc)
command -v busybox >/dev/null || missing+=(busybox-static)
[ -x /usr/lib/cni/bridge ] || missing+=(containernetworking-plugins)
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing ${missing[*]} by apt"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
scripts/go-programs.sh v2.3.4
scripts/kubernetes-programs.sh
scripts/deploy-programs.sh

begin=$SECONDS
status=0
.venv/bin/pytest tests/kubernetes "$@" || status=$?
echo "tests/kubernetes took $(((SECONDS - begin) / 60)) min $(((SECONDS - begin) % 60)) s"
exit "$status"
