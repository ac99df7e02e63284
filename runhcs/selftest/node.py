"""The node under test: its shim, its layers, and the directory in which the selftest, or a soak, creates everything."""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, field

from runhcs.selftest.record import Recording
from runhcs.selftest.runner import StepSkipped
from runhcs.shim_driver import remove_tree
from shim.api.types import Mount
from shim.platform import host

PREFIX = "selftest"


class NodeError(Exception):
    """The selftest cannot run here; the message names the next step."""


@define
class Node:
    directory: Path
    #: The shim under test, as containerd would execute it.
    program: str
    env: dict[str, str]
    #: Read-only layers of a Windows image, topmost first; empty if there is none, see `no_layers`.
    layers: list[str]
    no_layers: str = ""
    #: The directory of the emulator; "" on Windows.
    emulator: str = ""
    #: A directory of an SMB share; "" if none is given.
    smb: str = ""
    prefix: str = PREFIX
    recording: Recording = field(factory=Recording)
    close: Callable[[], None] = lambda: None
    _numbers: Any = field(factory=lambda: itertools.count(1))

    def new_id(self, kind: str) -> str:
        """An id that no other run uses: systems, pipes and jobs are named by it."""
        return f"{self.prefix}-{os.getpid()}-{next(self._numbers)}-{kind}"

    def image(self) -> list[str]:
        """The layers. Raises StepSkipped."""
        if not self.layers:
            step = "give the layers of a nanoserver image: --layers DIR, topmost first, repeated for each"
            raise StepSkipped(self.no_layers or "there are no layers of a Windows image", step)
        return self.layers

    def scratch(self, id: str) -> Path:
        """The directory of a scratch layer; HCS fills it."""
        path = self.directory / "scratch" / id
        path.mkdir(parents=True, exist_ok=True)
        return path

    def layer_mount(self, id: str) -> Mount:
        """The root file system of a container, as containerd's windows snapshotter describes it."""
        parents = json.dumps(self.image())
        return Mount(type="windows-layer", source=str(self.scratch(id)), options=["rw", f"parentLayerPaths={parents}"])

    def leaks(self, id: str) -> list[str]:
        """What is left of a container: compute systems, the mount of its layer, its scratch directory."""
        from runhcs.selftest.layer_calls import volume_of
        from shim.hcs_bindings.system import ComputeSystem

        found = [f"compute system {one['Id']}" for one in ComputeSystem.enumerate() if str(one["Id"]).startswith(id)]
        scratch = self.directory / "scratch" / id
        if scratch.exists():
            if path := volume_of(str(scratch)):
                found.append(f"layer {scratch} is mounted as {path}")
            if not remove_tree(scratch):
                found.append(f"{scratch} cannot be removed")
        return found


def open_node(args: argparse.Namespace, prefix: str = PREFIX) -> Node:
    """`prefix` is that of its directory and of all ids. Raises NodeError."""
    node: Node
    if host.IS_EMULATED:
        from runhcs.selftest.linux import open_linux_node

        node = open_linux_node(args, prefix)
    else:
        from runhcs.selftest.windows import open_windows_node

        node = open_windows_node(args, prefix)
    node.smb = args.smb
    node.prefix = prefix
    return node
