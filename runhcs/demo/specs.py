"""What containerd on Windows hands to the shim: specs, root file systems, options."""

from __future__ import annotations

import json
from typing import Any

from runhcs.demo.workspace import Workspace
from shim.api.runhcs_options import Options
from shim.api.types import Mount
from shim.api.wellknown import Any as PackedAny


def windows_spec(*args: str, hostname: str) -> dict[str, Any]:
    """The root file system is not in it: that comes with Create."""
    return {
        "ociVersion": "1.1.0",
        "hostname": hostname,
        "process": {"args": list(args), "cwd": "C:\\", "user": {"username": "ContainerUser"}},
        "root": {"path": ""},
        "windows": {"layerFolders": None, "ignoreFlushesDuringBoot": True},
    }


def isolated_spec(*args: str, hostname: str, pod: str = "", role: str = "") -> dict[str, Any]:
    """One in a utility VM, of its own or of its pod."""
    spec = windows_spec(*args, hostname=hostname)
    spec["windows"]["hyperv"] = {}
    if pod:
        spec["annotations"] = {"io.kubernetes.cri.container-type": role, "io.kubernetes.cri.sandbox-id": pod}
    return spec


def layer_mount(workspace: Workspace, id: str) -> Mount:
    """As the windows snapshotter makes it."""
    parents = json.dumps([str(workspace.base)])
    return Mount(type="windows-layer", source=str(workspace.scratch(id)), options=["rw", f"parentLayerPaths={parents}"])


def vm_options(processors: int, megabytes: int) -> PackedAny:
    """What the configuration of a runtime such as runhcs-wcow-hypervisor says."""
    options = Options(
        sandbox_isolation=Options.SandboxIsolation.HYPERVISOR,
        sandbox_platform="windows/amd64",
        vm_processor_count=processors,
        vm_memory_size_in_mb=megabytes,
    )
    return PackedAny(type_url=Options.FULL_NAME, value=options.encode())
