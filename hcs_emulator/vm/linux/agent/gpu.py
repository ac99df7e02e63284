"""GPUs that the host assigned: a hook of runc gives the container their devices and drivers."""

from __future__ import annotations

import os
import shutil
from typing import Any

from hcs_emulator.vm.linux.agent import devices, waiting
from hcs_emulator.vm.linux.agent.errors import GuestError

CAPABILITIES = "io.microsoft.container.gpu.capabilities"
_HOOK = "generichook"
_TOOL = "nvidia-container-cli"
_TIMEOUT = 60.0


def add(spec: dict[str, Any], bundle: str) -> None:
    """Add the hook if the spec has a GPU."""
    assigned = (spec.get("windows") or {}).get("devices") or ()
    identifiers = [device.get("id", "") for device in assigned if device.get("idType") == "gpu"]
    if not identifiers:
        return
    hook = shutil.which(_HOOK)
    if hook is None:
        text = f'exec: "{_HOOK}": executable file not found in $PATH'
        raise GuestError(f"failed to find {_HOOK} for container device support: {text}")
    debug = os.path.join(bundle, "nvidia-container.log")
    arguments = [hook, _TOOL, f"--debug={debug}", "--no-pivot", "configure", "--ldconfig=@/sbin/ldconfig"]
    capabilities = (spec.get("annotations") or {}).get(CAPABILITIES)
    if capabilities is not None:
        arguments += [f"--{name}" for name in capabilities.split(",")]
    for identifier in identifiers:
        try:
            location = os.path.basename(waiting.for_pci_device(identifier, _TIMEOUT))
        except GuestError as error:
            raise error.within("failed to find nvidia gpu bus location") from error
        arguments.append(f"--device={location}")
    arguments += ["--pid={{pid}}", spec["root"]["path"]]
    environment = [f"{name}={value}" for name, value in os.environ.items()]
    environment += ["NVC_INSECURE_MODE=1", f"GENERIC_HOOK_LOG_DEBUG_FILE={debug}"]
    hooks = spec.setdefault("hooks", None) or {}
    hooks.setdefault("createRuntime", []).append({"path": hook, "args": arguments, "env": environment})
    spec["hooks"] = hooks
    # The numbers of a GPU's further nodes are known only when its driver runs.
    devices.cgroup_rules(spec).append({"allow": True, "type": "c", "access": "rwm"})
