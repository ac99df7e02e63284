"""The sandbox of a Linux pod of the Sandbox service: a container of the shim's own.

containerd gives such a sandbox no image and no process, but a guest knows a pod only by its sandbox container, whose
namespaces the pod's containers join. So the shim adds what is missing: a program that waits (`shim.uvm.linux.pause`),
namespaces, and the pod's network. CRI leaves the pod's DNS settings to the sandbox too.
"""

from __future__ import annotations

from shim.api.cri_pod import NamespaceMode
from shim.container.layers import join
from shim.oci.annotations.linux import SKIP_POD_NETWORKING
from shim.platform import files
from shim.uvm.linux import pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.api.cri_pod import DNSConfig, PodSandboxConfig
    from shim.api.sandbox import CreateSandboxRequest
    from shim.oci.spec import Spec

    Values = dict[str, Any]

ROOT = "pause"
RESOLV_CONF = "resolv.conf"
_NOTHING = ("bounding", "effective", "permitted")
_MOUNTS = (
    {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755"]},
)
_NAMESPACES = ("pid", "ipc", "uts", "mount", "network")


def complete(spec: Spec, request: CreateSandboxRequest, pod: PodSandboxConfig) -> None:
    """Add to the spec what its client left out."""
    values = spec.document.values
    linux: Values = values.setdefault("linux", {})
    linux.setdefault("resources", {})
    if pod.hostname:
        values.setdefault("hostname", pod.hostname)
    if "namespaces" not in linux:
        linux["namespaces"] = [{"type": name} for name in _NAMESPACES if name != "network" or not _on_node(pod)]
    if pod.linux is not None and pod.linux.cgroup_parent:
        linux.setdefault("cgroupsPath", f"{pod.linux.cgroup_parent.rstrip('/')}/{request.sandbox_id}")
    if pod.linux is not None and pod.linux.sysctls:
        linux["sysctl"] = {**pod.linux.sysctls, **(linux.get("sysctl") or {})}
    _set_network(spec, request.netns_path)
    if not request.rootfs and not spec.windows.texts("layerFolders"):
        _set_program(spec, request.bundle_path)


def _on_node(pod: PodSandboxConfig) -> bool:
    """It shares the network of the node: here, of its VM."""
    context = pod.linux.security_context if pod.linux is not None else None
    options = context.namespace_options if context is not None else None
    return options is not None and options.network == NamespaceMode.NODE


def _set_network(spec: Spec, netns: str) -> None:
    """A path is a network namespace of Linux, everything else one of HCN."""
    values = spec.document.values
    if "/" in netns:
        namespaces = values["linux"]["namespaces"]
        values["linux"]["namespaces"] = [entry for entry in namespaces if entry.get("type") != "network"]
        values["linux"]["namespaces"].append({"type": "network", "path": netns})
    elif netns:
        windows = values["windows"] = values.get("windows") or {}
        network = windows["network"] = windows.get("network") or {}
        network.setdefault("networkNamespace", netns)
    elif not spec.windows.section("network").text("networkNamespace"):
        # The guest must not look for adapters: there are none.
        spec.annotations.set_default(SKIP_POD_NETWORKING, "true")


def _set_program(spec: Spec, bundle: str) -> None:
    root = join(bundle, ROOT)
    pause.create_root(root)
    spec.own_root = root
    values = spec.document.values
    values["root"] = {"path": root, "readonly": True}
    values["mounts"] = list(_MOUNTS)
    values["process"] = {
        "args": [f"/{pause.PROGRAM}"],
        "cwd": "/",
        "user": {"uid": 0, "gid": 0},
        "capabilities": {name: [] for name in _NOTHING},
        "noNewPrivileges": True,
    }


def write_pod_files(bundle: str, pod: PodSandboxConfig) -> dict[str, str]:
    """Files that every container of the pod gets, by their path in the container."""
    if pod.dns_config is None:
        return {}
    path = join(bundle, RESOLV_CONF)
    with open(files.native(path), "wb", buffering=0) as file:
        file.write(_resolv_conf(pod.dns_config))
    return {"/etc/resolv.conf": path}


def _resolv_conf(dns: DNSConfig) -> bytes:
    lines = []
    if dns.searches:
        lines.append(f"search {' '.join(dns.searches)}")
    lines += [f"nameserver {server}" for server in dns.servers]
    if dns.options:
        lines.append(f"options {' '.join(dns.options)}")
    return "".join(f"{line}\n" for line in lines).encode()
