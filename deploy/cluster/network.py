"""The network of a cluster: a network namespace in which all its programs run.

The node's address and that of the API server are on its loopback interface. Pods have addresses of a bridge, which CNI
creates there. Nothing of it is reachable from the machine's own network.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from deploy.cluster import programs
from deploy.cluster.settings import API_ADDRESS, NODE_ADDRESS, POD_SUBNET, Settings

TIMEOUT = 30.0


def create(settings: Settings) -> None:
    ip("netns", "add", settings.name)
    for address in (NODE_ADDRESS, API_ADDRESS):
        ip("-n", settings.name, "address", "add", f"{address}/32", "dev", "lo")
    ip("-n", settings.name, "link", "set", "lo", "up")
    _write_cni(settings)


def delete(settings: Settings) -> None:
    if path(settings).exists():
        ip("netns", "delete", settings.name)


def path(settings: Settings) -> Path:
    return Path("/run/netns", settings.name)


def inside(settings: Settings) -> list[str]:
    """The begin of a command line that runs in the network. (`ip netns exec` also makes a mount namespace, in which
    the mounts of kubelet and containerd would not meet.)"""
    return [programs.system("nsenter"), f"--net={path(settings)}", "--"]


def leases(settings: Settings) -> list[str]:
    """Addresses of pods that CNI has not released."""
    return sorted(found.name for found in (settings.directory / "leases").glob("*/10.*"))


def _write_cni(settings: Settings) -> None:
    directory = settings.directory / "cni"
    directory.mkdir(exist_ok=True)
    addresses = {
        "type": "host-local",
        "dataDir": str(settings.directory / "leases"),
        "ranges": [[{"subnet": POD_SUBNET}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "pods0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}
    (directory / "10-pods.conflist").write_text(json.dumps(network, indent=2))


def ip(*arguments: str) -> None:
    subprocess.run([programs.system("ip"), *arguments], check=True, timeout=TIMEOUT)
