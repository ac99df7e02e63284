"""The spec of a Linux container as its guest gets it: the OCI spec without what only concerns the host.

| part | change |
| --- | --- |
| `windows` | only the network namespace and the devices |
| `hooks` | removed: they are programs of the host |
| `linux.cgroupsPath` | removed: the guest has its own cgroups |
| `linux.resources`: `devices`, `pids`, `blockIO`, `hugepageLimits`, `network` | removed, as Microsoft's shim does |
| `linux.resources.cpu` | a period or quota of 0 becomes the default of the kernel |
| `linux.seccomp` | removed from a privileged container |
| `root.path`, `mounts` | paths of the guest |
| empty members | removed, as Go's encoder does |

The counterpart is https://github.com/microsoft/hcsshim/blob/main/internal/hcsoci/hcsdoc_lcow.go.
"""

from __future__ import annotations

from shim.lean_json import dumps, loads
from shim.oci.annotations.linux import PRIVILEGED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from shim.oci.spec import Spec

    Document = dict[str, Any]

CPU_PERIOD = 100_000
NO_QUOTA = -1
_NOT_FOR_GUESTS = ("devices", "pids", "blockIO", "hugepageLimits", "network")
# Members that Go's encoder leaves out if they are empty, besides lists and null.
_OBJECTS = frozenset(("annotations", "sysctl", "unified"))
_FLAGS = frozenset(("terminal", "noNewPrivileges", "readonly"))
_TEXTS = frozenset(
    (
        "apparmorProfile", "commandLine", "domainname", "hostname", "mountLabel", "rootfsPropagation", "selinuxLabel",
        "source", "username",
    )
)  # fmt: skip


def ineffective(spec: Spec) -> list[str]:
    """Settings of the spec that limit or extend the container and that its guest does not get, in sentences."""
    found = []
    if any((spec.document.section("hooks").values or {}).values()):
        found.append("hooks of the spec have no effect: they are programs of the host, and the container is in a VM")
    resources = spec.linux.section("resources").values
    # `devices` is in every spec: the guest makes its own list.
    for name in ("pids", "blockIO", "hugepageLimits", "network"):
        if resources.get(name):
            found.append(f"linux.resources.{name} has no effect on a Linux container in a VM")
    return found


def guest_spec(
    spec: Spec, root: str, mounts: Sequence[Document], *, namespace: str = "", devices: Sequence[Document] = ()
) -> Document:
    """`root` and `mounts` are as the guest sees them. `namespace` is the network namespace, `devices` those that were
    assigned to the VM for the container."""
    copy = loads(dumps(spec.document.values).encode())
    assert isinstance(copy, dict)
    document = without_empty(copy)
    document.pop("windows", None)
    windows: Document = {}
    if namespace:
        windows["network"] = {"networkNamespace": namespace}
    if devices:
        windows["devices"] = list(devices)
    if windows:
        document["windows"] = {"layerFolders": None, **windows}
    document.pop("hooks", None)
    document["annotations"] = {name: spec.annotations.text(name) for name in spec.annotations}
    if not document["annotations"]:
        del document["annotations"]
    document["root"] = {**(document.get("root") or {}), "path": root}
    if mounts:
        document["mounts"] = [without_empty(mount) for mount in mounts]
    if isinstance(document.get("process"), dict):
        document["process"] = guest_process(document["process"])
    document["linux"] = _linux(document["linux"], privileged=spec.annotations.flag(PRIVILEGED))
    return document


def guest_process(process: Document) -> Document:
    """A process as Go encodes it: without empty members, and with those that are never left out."""
    found = {"cwd": "", **without_empty(process)}
    found["user"] = {"uid": 0, "gid": 0, **(found.get("user") or {})}
    return found


def without_empty(document: Document) -> Document:
    """An object of a spec as Go encodes it: without members that say nothing."""
    return {name: _item(value, name) for name, value in document.items() if not _is_left_out(name, value)}


def _item(value: Any, name: str = "") -> Any:
    if isinstance(value, dict) and name not in _OBJECTS:  # whose members are the client's
        return without_empty(value)
    return [_item(item) for item in value] if isinstance(value, list) else value


def _is_left_out(name: str, value: Any) -> bool:
    if value is None or value == []:
        return True
    return (name in _OBJECTS and value == {}) or (name in _FLAGS and value is False) or (name in _TEXTS and value == "")


def _linux(linux: Document, *, privileged: bool) -> Document:
    linux.pop("cgroupsPath", None)
    if devices := linux.get("devices"):
        linux["devices"] = [{"major": 0, "minor": 0, **device} for device in devices]
    if isinstance(resources := linux.get("resources"), dict):
        for name in _NOT_FOR_GUESTS:
            resources.pop(name, None)
        if isinstance(cpu := resources.get("cpu"), dict):
            if cpu.get("period") == 0:
                cpu["period"] = CPU_PERIOD
            if cpu.get("quota") == 0:
                cpu["quota"] = NO_QUOTA
    if privileged:
        linux.pop("seccomp", None)
    return linux
