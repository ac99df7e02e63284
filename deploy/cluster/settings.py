"""Where a cluster has its files, and its addresses."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from attrs import field, frozen

DEFAULT_DIRECTORY = Path("/var/lib/runhcs-k8s")
DEFAULT_RUNTIME = "runhcs-lcow"
# The emulator's Unix sockets are <directory>/hcs/hvsock/<id>/<id>; the kernel allows 107 characters.
LONGEST_DIRECTORY = 107 - len("/hcs/hvsock/") - 36 - len("/") - 36

NODE = "node"
NODE_ADDRESS = "10.240.0.10"
POD_SUBNET = "10.244.0.0/24"
SERVICE_SUBNET = "10.96.0.0/16"
# The address of the Service `kubernetes`. Without a kube-proxy the API server itself has it, at the Service's port.
API_ADDRESS = "10.96.0.1"
API_PORT = 443
KUBELET_PORT = 10250
MAX_PODS = 110


class ClusterError(Exception):
    """A cluster cannot be started or used; the message says what to do."""


def _short(_instance: object, _attribute: object, value: Path) -> None:
    if len(str(value)) > LONGEST_DIRECTORY:
        raise ClusterError(f"{value} is too long for Unix sockets below it: use at most {LONGEST_DIRECTORY} characters")


@frozen(kw_only=True)
class Settings:
    """`up` stores them in the directory, and the other commands read them there."""

    directory: Path = field(default=DEFAULT_DIRECTORY, validator=_short)
    # The runtime of pods without a RuntimeClass: `runc`, or a name of `runhcs config`.
    runtime: str = DEFAULT_RUNTIME
    # Without it containerd has the runtime runc only, and the shim is not in its PATH.
    with_shim: bool = True
    # Without it the kubelet runs alone, with the pods of `manifests`.
    with_control_plane: bool = True
    # The guest agent of Linux VMs: `emulated` or `gcs`.
    guest: str = "emulated"

    @property
    def name(self) -> str:
        """The name of the network namespace and of the control group, one for each directory."""
        return "runhcs-" + hashlib.sha256(os.path.realpath(self.directory).encode()).hexdigest()[:8]

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def certificates(self) -> Path:
        return self.directory / "pki"

    @property
    def emulator(self) -> Path:
        return self.directory / "hcs"

    @property
    def containerd_socket(self) -> Path:
        return self.directory / "c.sock"

    @property
    def containerd_state(self) -> Path:
        return self.directory / "state"

    @property
    def containerd_imports(self) -> Path:
        """Files here (*.toml) are part of containerd's configuration."""
        return self.directory / "containerd.d"

    @property
    def shim_sockets(self) -> Path:
        return self.directory / "s"

    @property
    def bin(self) -> Path:
        """Programs here are first in the PATH of containerd."""
        return self.directory / "bin"

    @property
    def manifests(self) -> Path:
        """Manifests of static pods."""
        return self.directory / "manifests"

    @property
    def pod_logs(self) -> Path:
        return self.directory / "pod-logs"

    @property
    def kubeconfig(self) -> Path:
        """Of the administrator."""
        return self.directory / "admin.kubeconfig"
