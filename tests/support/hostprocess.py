"""Host process containers for tests."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.emulator import Emulator
from tests.support.fifo_reader import Reader
from tests.support.shims import Shim, Shims

HOST_PROCESS = "microsoft.com/hostprocess-container"
INHERIT_USER = "microsoft.com/hostprocess-inherit-user"
ROOT = "microsoft.com/hostprocess-rootfs-location"
SLEEP_LOOP = "echo up; while :; do sleep 1; done"
KILLED = 0xFFFFFFFF
CONTROL_C_EXIT = 0xC000013A
RUNNING = 2


def windows_path(path: Path) -> str:
    return "C:" + str(path).replace("/", "\\")


def read_until(file: int, end: bytes) -> bytes:
    """Read up to and including `end`. Fails at end of file, and at a timeout."""
    text = b""
    while not text.endswith(end):
        assert select.select([file], [], [], 30)[0], f"timeout after {text!r}"
        piece = os.read(file, 1)
        assert piece, f"end of file after {text!r}"
        text += piece
    return text


class Jobs:
    """Shims of host process containers, whose root directories are below the directory of the test."""

    def __init__(self, shims: Shims) -> None:
        self.shims = shims
        self.events = shims.events
        self.place = shims.directory / "hpc"
        self.rootfs = shims.rootfs()
        (shims.image / "tool.txt").write_text("from the image\n")
        self._streams = 0

    def spec(self, *args: str, user: str = "NT AUTHORITY\\SYSTEM", **members: Any) -> dict[str, Any]:
        process = {**self.shims.process(*args), "user": {"username": user}, **members.pop("process", {})}
        spec = {**self.shims.spec(*args), **members, "process": process}
        own = {HOST_PROCESS: "true", ROOT: windows_path(self.place)}
        spec["annotations"] = {**own, **members.get("annotations", {})}
        return spec

    def fifo(self) -> str:
        self._streams += 1
        path = str(self.shims.directory / f"stream-{self._streams}")
        os.mkfifo(path)
        return path

    def create(self, id: str, *args: str, **members: Any) -> tuple[Shim, Reader]:
        shim = self.shims.start(id, self.spec(*args, **members))
        stdout = self.fifo()
        reader = Reader(stdout)
        shim.create(rootfs=self.rootfs, stdout=stdout)
        return shim, reader

    def run_detached(self, id: str, script: str = SLEEP_LOOP, **members: Any) -> Shim:
        """Start a container and wait until its process is ready."""
        shim = self.shims.start(id, self.spec("sh", "-c", script, **members))
        stdout = self.fifo()
        file = os.open(stdout, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(file, True)
        shim.create(rootfs=self.rootfs, stdout=stdout)
        shim.start()
        assert read_until(file, b"\n") == b"up\n"
        os.close(file)
        return shim

    def output(self, id: str, *args: str, code: int = 0, **members: Any) -> str:
        """Run a container until it exits, and return its output."""
        shim, reader = self.create(id, *args, **members)
        shim.start()
        assert shim.wait().exit_status == code
        shim.delete()
        return reader.text()

    def exec(self, shim: Shim, name: str, *args: str, code: int = 0) -> str:
        stdout = self.fifo()
        reader = Reader(stdout)
        process = {**self.shims.process(*args), "user": {}}
        shim.exec(name, process, stdout=stdout)
        shim.start(name)
        assert shim.wait(name).exit_status == code
        shim.delete(name)
        return reader.text()


def host_process_shims(emulator: Emulator) -> Iterator[Jobs]:
    shims = Shims(emulator.env)
    yield Jobs(shims)
    shims.close()
    assert not groups(shims), "leaked control groups"


def groups(shims: Shims) -> list[str]:
    """The control groups of the jobs of these shims."""
    own = shims.env["HCS_EMULATOR_DIR"].rpartition("/")[2]
    found = []
    for path, names, _ in os.walk("/sys/fs/cgroup"):  # other tests create and remove groups meanwhile
        if path.endswith("/runhcs-jobs"):
            found += [f"{path}/{name}" for name in names if own in name]
    return found


def program(pid: int) -> str:
    """The program of a process; empty if it has exited."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
