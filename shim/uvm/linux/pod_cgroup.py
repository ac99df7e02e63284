"""The control group of a pod on a Linux host, where HCS is emulated.

The kubelet creates a group for each pod, with its limits, and reads the pod's usage there. The VM of the pod belongs
into it: what it uses is the pod's, with its overhead. A document of HCS names a CPU group for that, which is a GUID on
Windows and a path here.
"""

from __future__ import annotations

from shim.oci.spec import SANDBOX
from shim.platform import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.oci.spec import Spec


# Where version 2 has a group, and the hierarchy of version 1 that every kubelet uses.
_HIERARCHIES = ("/sys/fs/cgroup", "/sys/fs/cgroup/memory")


def pod_cgroup(spec: Spec) -> str:
    """The group that contains the sandbox's own, if it exists; "" if not, and for a path in systemd's notation."""
    path = spec.linux.text("cgroupsPath")
    if not host.IS_EMULATED or spec.pod_role != SANDBOX or not path.startswith("/"):
        return ""
    group = path.rstrip("/").rpartition("/")[0]
    return group if group and any(host.exists(hierarchy + group) for hierarchy in _HIERARCHIES) else ""
