"""Sequences of layer calls. Each ends with the release of the layer, as the shim does it after a crash."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from shim.hcs_bindings import storage
from shim.hcs_bindings.errors import HcsError

VOLUME = "\\\\?\\volume{"
_RELEASE = ("UnprepareLayer", "DeactivateLayer")
SEQUENCES: dict[str, tuple[str, ...]] = {
    "right order": ("CreateSandboxLayer", "ActivateLayer", "PrepareLayer", "GetLayerMountPath", *_RELEASE,
                    "DestroyLayer"),
    "release before activation": ("CreateSandboxLayer", *_RELEASE),
    "release without prepare": ("CreateSandboxLayer", "ActivateLayer", *_RELEASE),
    "deactivate while prepared": ("CreateSandboxLayer", "ActivateLayer", "PrepareLayer", "DeactivateLayer", *_RELEASE),
    "each call twice": ("CreateSandboxLayer", "CreateSandboxLayer", "ActivateLayer", "ActivateLayer", "PrepareLayer",
                        "PrepareLayer", "UnprepareLayer", "UnprepareLayer", "DeactivateLayer", "DeactivateLayer"),
    "prepare before activation": ("CreateSandboxLayer", "PrepareLayer", "GetLayerMountPath", *_RELEASE),
    "layer that does not exist": ("ActivateLayer", "PrepareLayer", "GetLayerMountPath", *_RELEASE, "DestroyLayer"),
    "destroy while active": ("CreateSandboxLayer", "ActivateLayer", "DestroyLayer", *_RELEASE, "DestroyLayer"),
    "activate again after release": ("CreateSandboxLayer", "ActivateLayer", "PrepareLayer", *_RELEASE, "ActivateLayer",
                                     "PrepareLayer", *_RELEASE),
}  # fmt: skip


def volume_of(layer: str) -> str:
    """The volume that an active scratch layer is mounted as; "" if it is not active."""
    try:
        path = storage.layer_mount_path(layer)
    except HcsError:
        return ""
    return path if path.lower().startswith(VOLUME) else ""


def run_sequence(calls: Sequence[str], layer: str, parents: Sequence[str]) -> list[str]:
    """The code of each call, as `0x…`."""
    ids = [(storage.name_to_guid(os.path.basename(path.rstrip("\\/"))), path) for path in parents]
    functions: dict[str, Callable[[], object]] = {
        "CreateSandboxLayer": lambda: storage.create_sandbox_layer(layer, ids),
        "ActivateLayer": lambda: storage.activate_layer(layer),
        "PrepareLayer": lambda: storage.prepare_layer(layer, ids),
        "GetLayerMountPath": lambda: storage.layer_mount_path(layer),
        "UnprepareLayer": lambda: storage.unprepare_layer(layer),
        "DeactivateLayer": lambda: storage.deactivate_layer(layer),
        "DestroyLayer": lambda: storage.destroy_layer(layer),
    }
    codes = []
    for call in calls:
        try:
            functions[call]()
            codes.append("0x00000000")
        except HcsError as error:
            codes.append(f"0x{error.code:08X}")
    return codes
