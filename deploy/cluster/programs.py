"""The programs that a cluster consists of: from packages of the distribution, and built from their Go modules."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from deploy.cluster.settings import ClusterError

KUBERNETES = "v1.36.1"
CONTAINERD = "v2.3.4"
CACHE = Path(
    os.environ.get("RUNHCS_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "containerd-shim-runhcs"
)
CNI_PLUGINS = Path("/usr/lib/cni")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Program -> package of Debian.
PACKAGES = {
    "etcd": "etcd-server",
    "runc": "runc",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "mkfs.ext4": "e2fsprogs",
    "busybox": "busybox-static",
}


def kubernetes(name: str) -> str:
    return _built(CACHE / f"kubernetes-{KUBERNETES}" / name, "scripts/kubernetes-programs.sh")


def containerd_directory() -> Path:
    directory = CACHE / f"containerd-{CONTAINERD}"
    _built(directory / "containerd", f"scripts/go-programs.sh {CONTAINERD}")
    return directory


def system(name: str) -> str:
    found = shutil.which(name, path=PATH)
    if found is None:
        raise ClusterError(f"{name} is missing: apt-get install {PACKAGES[name]}")
    return found


def check(*, control_plane: bool) -> None:
    """Find every program before anything is started."""
    for name in PACKAGES:
        if control_plane or name != "etcd":
            system(name)
    if not (CNI_PLUGINS / "bridge").exists():
        raise ClusterError(f"CNI's bridge plugin is not in {CNI_PLUGINS}: apt-get install containernetworking-plugins")
    containerd_directory()
    kubernetes("kubelet")


def _built(path: Path, how: str) -> str:
    if not path.exists():
        raise ClusterError(f"{path} is missing: run {how}")
    return str(path)
