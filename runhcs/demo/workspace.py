"""The demo's one directory and the emulator in it. Nothing that the demo makes is elsewhere.

    hcs/        the emulator: its sockets, journal and log
    bin/        the launcher of the shim, as `runhcs install` writes it
    s/          the shims' sockets
    layers/     a base layer, and a scratch for each container
    bundles/    a bundle for each container, as containerd makes them
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runhcs import emulator
from runhcs.demo import DemoError
from runhcs.demo.calls import Journal
from runhcs.install import write_launcher

if TYPE_CHECKING:
    from runhcs.demo.containerd import Containerd

NAMESPACE = "demo"
START_TIMEOUT = 20.0
STOP_TIMEOUT = 20.0
# A socket's path has 107 bytes at most, and a shim's ends in 64 digits.
_LONGEST = 107 - len("/s/") - 64

HELLO = "Hello from a Windows base layer."


class Workspace:
    def __init__(self) -> None:
        path = tempfile.mkdtemp(prefix="runhcs-demo-")
        if len(path) > _LONGEST:
            Path(path).rmdir()
            path = tempfile.mkdtemp(prefix="runhcs-demo-", dir="/tmp")
        self.directory = Path(path)
        self.hcs = self.directory / "hcs"
        self.sockets = self.directory / "s"
        self.layers = self.directory / "layers"
        self.base = self.layers / "base"
        self.journal_path = self.hcs / "journal.jsonl"
        self.journal = Journal(self.journal_path)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("HCS_EMULATOR_")}
        self.env |= {"HCS_EMULATOR_DIR": str(self.hcs), "RUNHCS_SOCKET_DIR": str(self.sockets)}
        self.service: subprocess.Popen[bytes] | None = None
        self.containerd: Containerd | None = None
        for directory in (self.hcs, self.sockets, self.directory / "bin", self.base / "Files"):
            directory.mkdir(parents=True, mode=0o700)
        (self.base / "Files" / "hello.txt").write_text(HELLO + "\r\n")
        # What makes it a layer that a utility VM can boot from.
        (self.base / "UtilityVM" / "Files").mkdir(parents=True)
        (self.base / "UtilityVM" / "SystemTemplate.vhdx").touch()
        self.launcher = write_launcher(self.directory / "bin")

    def scratch(self, id: str) -> Path:
        """Where a container's own changes go; HCS fills it."""
        path = self.layers / f"scratch-{id}"
        path.mkdir(exist_ok=True)
        return path

    # The emulator.

    def start_emulator(self) -> None:
        command = [sys.executable, "-m", "hcs_emulator.service", "--directory", str(self.hcs)]
        with (self.hcs / "service.log").open("wb") as log:
            self.service = subprocess.Popen(
                [*command, "--journal", str(self.journal_path)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                self.status()
                return
            except emulator.ControlError:
                if self.service.poll() is not None or time.monotonic() > deadline:
                    said = (self.hcs / "service.log").read_text(errors="replace").strip()
                    raise DemoError(f"the emulator does not start: {said or 'it says nothing'}") from None
            time.sleep(0.01)

    def status(self) -> dict[str, Any]:
        return emulator.command(str(self.hcs), "status")

    def stop_emulator(self) -> None:
        """In order; by force if that takes too long. What it leaves then is found later."""
        service, self.service = self.service, None
        if service is None:
            return
        try:
            emulator.command(str(self.hcs), "stop")
        except emulator.ControlError:
            service.terminate()
        try:
            service.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()

    def remove(self) -> None:
        """Never through a mount: what is mounted below is not ours to delete."""
        if not mounts_below(self.directory):
            shutil.rmtree(self.directory, ignore_errors=True)


def mounts_below(directory: Path) -> list[str]:
    """Mount points, deepest last."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{os.path.realpath(directory)}/")]
