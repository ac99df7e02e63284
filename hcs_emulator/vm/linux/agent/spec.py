"""The OCI spec of a container, from what the host sends to what runc gets."""

from __future__ import annotations

import os
import socket
from typing import Any

from hcs_emulator.vm.linux.agent import devices, gpu, mounts, network_files, syscalls, users
from hcs_emulator.vm.linux.agent.errors import GuestError, failed, reason
from hcs_emulator.vm.linux.agent.network import Namespace

TYPE = "io.kubernetes.cri.container-type"
SANDBOX_ID = "io.kubernetes.cri.sandbox-id"
SKIP_NETWORKING = "io.microsoft.cri.skip-pod-networking"
PRIVILEGED = "io.microsoft.virtualmachine.lcow.privileged"
HOST_NETWORK = "io.microsoft.virtualmachine.lcow.hostnetwork"
SHM_SIZE = "io.microsoft.lcow.shm.size-kb"
RLIMIT_CORE = "io.microsoft.lcow.rlimitcore"
TEE_PATH = "io.microsoft.container.lcow.tee-log-path"
TEE_MOUNT = "io.microsoft.container.lcow.tee-log-dir-mount"

SANDBOX_MOUNTS, SANDBOX_TMPFS, HUGEPAGES, LOGS = "sandboxMounts", "sandboxTmpfsMounts", "hugepages", "logs"
_TRUE = ("1", "t", "T", "true", "TRUE", "True")

Spec = dict[str, Any]


def annotations_of(spec: Spec) -> dict[str, str]:
    return spec.get("annotations") or {}


def namespace_id(spec: Spec) -> str:
    network = (spec.get("windows") or {}).get("network") or {}
    return str(network.get("networkNamespace") or "").lower()


def skips_networking(spec: Spec) -> bool:
    return annotations_of(spec).get(SKIP_NETWORKING, "").lower() == "true"


def uses_host_network(spec: Spec) -> bool:
    return annotations_of(spec).get(HOST_NETWORK, "") in _TRUE


def stay_in_host_network(spec: Spec) -> None:
    """Keep a container in the VM's own network namespace."""
    entries = spec["linux"].get("namespaces") or ()
    spec["linux"]["namespaces"] = [entry for entry in entries if entry.get("type") != "network"]


def hostname(spec: Spec) -> str:
    return spec.get("hostname") or socket.gethostname()


# sandbox


def prepare_sandbox(identifier: str, root: str, spec: Spec, namespace: Namespace | None) -> None:
    """Write the pod's files, and complete the spec. Without a namespace there is no resolv.conf."""
    mounts.make_directory(root, 0o755)
    name = hostname(spec)
    network_files.write(root, "/etc/hostname", name + "\n")
    network_files.write(root, "/etc/hosts", network_files.hosts(name))
    if namespace is not None:
        try:
            content = network_files.resolv_conf(*namespace.dns())
        except GuestError as error:
            raise error.within("failed to generate sandbox resolv.conf content") from error
        network_files.write(root, "/etc/resolv.conf", content)
    _resolve_user(spec)
    _set_core_limit(spec)
    spec["linux"]["cgroupsPath"] = f"/pods/{identifier}/{identifier}"
    spec.pop("windows", None)


def make_sandbox_directories(root: str) -> None:
    """Directories that the containers of a pod share."""
    shared, memory = os.path.join(root, SANDBOX_MOUNTS), os.path.join(root, SANDBOX_TMPFS)
    mounts.make_directory(shared, 0o755)
    mounts.share(shared)
    mounts.make_directory(memory, 0o755)
    try:
        syscalls.mount("tmpfs", memory, "tmpfs")
    except OSError as error:
        raise failed(f"failed to mount tmpfs at {memory}", error) from error
    mounts.share(memory)
    pages = os.path.join(root, HUGEPAGES)
    mounts.make_directory(pages, 0o755)
    mounts.share(pages)
    mounts.make_directory(os.path.join(root, LOGS), 0o777)


# workload


def prepare_workload(sandbox: str, identifier: str, root: str, bundle: str, spec: Spec) -> None:
    """`root` is the directory of the sandbox."""
    if spec.get("hostname"):
        raise GuestError(f"workload container must not change hostname: {spec['hostname']}")
    place = f"for container {identifier} in sandbox {sandbox}"
    for update, name in (
        (_sandbox_mounts, "sandbox mounts"),
        (_hugepage_mounts, "hugepages mounts"),
        (_block_device_mounts, "block device mounts"),
        (_vm_mounts, "uVM mounts"),
    ):
        try:
            update(root, spec)
        except GuestError as error:
            raise error.within(f"failed to update {name} {place}") from error
    for path in network_files.PATHS:
        if not network_files.is_mounted(spec, path):
            network_files.mount(spec, path, os.path.join(root, os.path.basename(path)))
    _set_shm_size(spec)
    _add_devices(spec)
    _set_core_limit(spec)
    _resolve_user(spec)
    spec["linux"]["cgroupsPath"] = f"/pods/{sandbox}/{identifier}"
    gpu.add(spec, bundle)
    devices.add_assigned(spec)
    spec.pop("windows", None)


def _each_mount(spec: Spec, member: str, prefix: str) -> list[tuple[Spec, str]]:
    """Mounts whose member has a prefix, with the rest of it."""
    entries = spec.get("mounts") or ()
    return [(entry, entry[member][len(prefix) :]) for entry in entries if entry.get(member, "").startswith(prefix)]


def _inside(directory: str, rest: str, source: str, name: str) -> str:
    path = os.path.normpath(directory + "/" + rest)
    if not path.startswith(directory):
        raise GuestError(f"mount path {path} for mount {source} is not within {name} mounts dir")
    return path


def _sandbox_mounts(root: str, spec: Spec) -> None:
    for prefix, directory, name in (
        ("sandbox://", SANDBOX_MOUNTS, "sandbox's"),
        ("sandbox-tmp://", SANDBOX_TMPFS, "sandbox's tmpfs"),
    ):
        for mount, rest in _each_mount(spec, "source", prefix):
            mount["source"] = _inside(os.path.join(root, directory), rest, mount["source"], name)
            if not os.path.exists(mount["source"]):
                mounts.make_directory(mount["source"], 0o777)


def _hugepage_mounts(root: str, spec: Spec) -> None:
    for mount, rest in _each_mount(spec, "source", "hugepages://"):
        size = rest.split("/")[0]
        path = _inside(os.path.join(root, HUGEPAGES), rest, mount["source"], "hugepages's")
        mount["source"] = path
        if not os.path.exists(path):
            mounts.make_directory(path, 0o777)
            try:
                syscalls.mount("none", path, "hugetlbfs", 0, f"pagesize={size}")
            except OSError as error:
                raise GuestError(f"mount operation failed for {path} failed with error {reason(error)}") from error


def _block_device_mounts(root: str, spec: Spec) -> None:
    for mount, rest in _each_mount(spec, "destination", "blockdev://"):
        try:
            target = os.readlink(mount["source"])
        except OSError as error:
            raise failed(f"failed to readlink {mount['source']}", error) from error
        try:
            device = devices.from_path(target)
        except GuestError as error:
            raise error.within("failed to get device from path") from error
        access = "r" if "ro" in (mount.get("options") or ()) else "rwm"
        devices.cgroup_rules(spec).append(devices.allow(device, access))
        mount["destination"] = rest


def _vm_mounts(root: str, spec: Spec) -> None:
    for mount, rest in _each_mount(spec, "source", "uvm://"):
        mount["source"] = rest
        try:
            os.stat(rest)
        except OSError as error:
            raise failed(f"could not open uVM mount target: stat {rest}", error) from error


def _set_shm_size(spec: Spec) -> None:
    text = annotations_of(spec).get(SHM_SIZE)
    if text is None:
        return
    if not (text.isascii() and text.isdecimal()):
        raise GuestError(f'/dev/shm size must be a valid integer: strconv.ParseUint: parsing "{text}": invalid syntax')
    if int(text) == 0:
        raise GuestError("/dev/shm size must be non-zero")
    spec["mounts"] = [mount for mount in spec.get("mounts") or () if mount.get("destination") != "/dev/shm"]
    options = ["nosuid", "noexec", "nodev", "mode=1777", f"size={text}k"]
    spec["mounts"].append({"source": "shm", "destination": "/dev/shm", "type": "tmpfs", "options": options})


def _add_devices(spec: Spec) -> None:
    if annotations_of(spec).get(PRIVILEGED, "") in _TRUE:
        for device in devices.all_of_vm():
            devices.add(spec, device, allowed=False)
        devices.cgroup_rules(spec)[:] = [{"allow": True, "access": "rwm"}]
        return
    wanted = spec["linux"].get("devices") or ()
    spec["linux"]["devices"] = []
    for device in wanted:
        devices.add(spec, devices.from_path(device.get("path", "")), allowed=True)


# standalone


def prepare_standalone(identifier: str, root: str, spec: Spec, namespace: Namespace) -> None:
    mounts.make_directory(root, 0o755)
    name = hostname(spec)
    try:
        resolv_conf = network_files.resolv_conf(*namespace.dns())
    except GuestError as error:
        raise error.within("failed to generate standalone resolv.conf content") from error
    contents = {
        "/etc/hostname": name + "\n",
        "/etc/hosts": network_files.hosts(name),
        "/etc/resolv.conf": resolv_conf,
    }
    for path, content in contents.items():
        if not network_files.is_mounted(spec, path):
            network_files.mount(spec, path, network_files.write(root, path, content))
    spec["linux"]["cgroupsPath"] = f"/pods/{identifier}"
    spec.pop("windows", None)


# all


def _resolve_user(spec: Spec) -> None:
    user = spec["process"].setdefault("user", {})
    if user.get("username"):
        user["uid"], user["gid"] = users.resolve(spec["root"]["path"], user["username"])


def _set_core_limit(spec: Spec) -> None:
    text = annotations_of(spec).get(RLIMIT_CORE, "")
    if not text:
        return
    values = text.split(";")
    if len(values) != 2:
        raise GuestError("wrong number of values supplied for rlimit core")
    for name, value in zip(("soft", "hard"), values, strict=True):
        if not (value.isascii() and value.isdecimal()):
            raise GuestError(
                f'failed to parse {name} core rlimit: strconv.ParseUint: parsing "{value}": invalid syntax'
            )
    limit = {"type": "RLIMIT_CORE", "soft": int(values[0]), "hard": int(values[1])}
    rlimits = spec["process"].get("rlimits") or []
    spec["process"]["rlimits"] = [*rlimits, limit]


def prepare_logs(root: str, spec: Spec) -> str:
    """Add the mount of the log directory; returns the file that init's output is copied to."""
    directory = os.path.join(root, LOGS)
    if target := annotations_of(spec).get(TEE_MOUNT):
        spec.setdefault("mounts", []).append(
            {"destination": target, "type": "bind", "source": directory, "options": ["bind"]}
        )
    name = annotations_of(spec).get(TEE_PATH)
    if not name:
        return ""
    path = os.path.normpath(os.path.join(directory, name.lstrip("/")))
    if not path.startswith(directory + "/"):
        raise GuestError(f"log path {path} is not within sandbox's log dir")
    mounts.make_directory(os.path.dirname(path), 0o777)
    return path
