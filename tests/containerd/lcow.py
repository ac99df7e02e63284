"""Linux containers in utility VMs (LCOW) on a node: `ctr run` of a Linux image, with either guest of the emulator."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.containerd.daemon import RUNTIME
from tests.containerd.node import Node
from tests.support import linux_spec
from tests.support.emulator import Emulator

BOOT_FILES = "io.microsoft.virtualmachine.bootfilesrootpath"
#: The emulator's own guest agent, and Microsoft's.
GUESTS = ("emulated", "gcs")


def boot_files(emulator: Emulator, guest: str) -> Path:
    """The directory of boot files that selects the guest of a VM."""
    return emulator.directory / "LinuxBootFiles" / guest


class LinuxNode:
    """A node and the guest of its Linux VMs."""

    def __init__(self, node: Node, guest: str) -> None:
        self.node = node
        self.guest = guest
        self.ctr = node.ctr
        self.name = node.name
        self.events = node.events

    def annotations(self) -> dict[str, str]:
        return {BOOT_FILES: str(boot_files(self.node.emulator, self.guest))}

    def flags(self, *flags: str) -> list[str]:
        selected = [word for key, value in self.annotations().items() for word in ("--annotation", f"{key}={value}")]
        return ["--runtime", RUNTIME, *selected, *flags]

    def run_arguments(self, id: str, *command: str, flags: tuple[str, ...] = ("--rm",)) -> list[str]:
        return ["run", *self.flags(*flags), self.node.linux_image(), id, *command]

    def run(
        self, *command: str, flags: tuple[str, ...] = (), id: str = "", stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """`ctr run --rm` of the image until it exits, with any exit code."""
        arguments = self.run_arguments(id or self.name(), *command, flags=("--rm", *flags))
        return self.ctr(*arguments, check=False, stdin=stdin)

    def output(self, *command: str, flags: tuple[str, ...] = ()) -> str:
        """The output of a container that must succeed."""
        result = self.run(*command, flags=flags)
        assert result.returncode == 0, (
            f"{result.returncode}: {result.stdout}{result.stderr}\n{self.node.containerd.log()}"
        )
        return result.stdout

    def detach(self, *command: str, flags: tuple[str, ...] = ()) -> str:
        """A container that runs until it is killed; its id."""
        name = self.name()
        self.ctr(*self.run_arguments(name, *(command or ("sleep", "infinity")), flags=("-d", "--null-io", *flags)))
        return name

    @contextmanager
    def running(self, *command: str, flags: tuple[str, ...] = ()) -> Iterator[str]:
        name = self.detach(*command, flags=flags)
        yield name
        self.node.remove(name)

    def sh(self, id: str, script: str) -> str:
        """The output of a shell script in a running container."""
        result = self.node.exec(id, f"e{self.name()}", "sh", "-c", script)
        assert result.returncode == 0, (
            f"{result.returncode}: {result.stdout}{result.stderr}\n{self.node.containerd.log()}"
        )
        return result.stdout

    def spec(self, id: str, *args: str, **members: Any) -> dict[str, Any]:
        """A spec with the image's files in a directory of the host."""
        annotations = {**self.annotations(), **members.pop("annotations", {})}
        return linux_spec.spec(str(self.node.linux_root()), id, *args, annotations=annotations, **members)

    def run_spec(self, *args: str, **members: Any) -> subprocess.CompletedProcess[str]:
        name = self.name()
        return self.node.run(name, self.spec(name, *args, **members), "--rm")


__all__ = ["BOOT_FILES", "GUESTS", "LinuxNode", "boot_files"]
