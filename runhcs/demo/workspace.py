"""The demo's one directory, the emulator in it, and what both need of the machine. The demo creates nothing elsewhere.

    hcs/        the emulator: its sockets, journal and log
    bin/        the launcher of the shim, as `runhcs install` writes it
    s/          the shims' sockets
    layers/     a base layer, and a scratch layer for each container
    bundles/    a bundle for each container, as containerd creates them
"""

from __future__ import annotations

import compileall
import json
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
from runhcs.install.linux import write_launcher
from runhcs.installation import ROOT
from shim.platform import host

if TYPE_CHECKING:
    from runhcs.demo.ctr import Containerd

NAMESPACE = "demo"
START_TIMEOUT = 20.0
STOP_TIMEOUT = 20.0
# The path of a socket has at most 107 bytes, and that of a shim ends in 64 digits.
_MAX_DIRECTORY = 107 - len("/s/") - 64

HELLO = "Hello from a Windows base layer."


class Workspace:
    def __init__(self, prefix: str = "runhcs-demo-") -> None:
        path = tempfile.mkdtemp(prefix=prefix)
        if len(path) > _MAX_DIRECTORY:
            Path(path).rmdir()
            path = tempfile.mkdtemp(prefix=prefix, dir="/tmp")
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
        # The files of a layer that a utility VM can boot from.
        (self.base / "UtilityVM" / "Files").mkdir(parents=True)
        (self.base / "UtilityVM" / "SystemTemplate.vhdx").touch()
        self.launcher = write_launcher(self.directory / "bin")

    def scratch(self, id: str) -> Path:
        """The scratch layer of a container; HCS fills it."""
        path = self.layers / f"scratch-{id}"
        path.mkdir(exist_ok=True)
        return path

    # The emulator.

    def start_emulator(self, has_journal: bool = True) -> None:
        command = [sys.executable, "-m", "hcs_emulator.service", "--directory", str(self.hcs)]
        command += ["--journal", str(self.journal_path)] if has_journal else []
        with (self.hcs / "service.log").open("wb") as log:
            self.service = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                self.status()
                return
            except emulator.ControlError:
                if self.service.poll() is not None or time.monotonic() > deadline:
                    text = (self.hcs / "service.log").read_text(errors="replace").strip()
                    raise DemoError(f"the emulator does not start: {text or 'its log is empty'}") from None
            time.sleep(0.01)

    def status(self) -> dict[str, Any]:
        return emulator.command(str(self.hcs), "status")

    def stop_emulator(self) -> None:
        """Stop it gracefully, or kill it after a timeout; the leak checks find what it leaves then."""
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
        """Delete the directory, but never through a mount."""
        if not mounts_below(self.directory):
            shutil.rmtree(self.directory, ignore_errors=True)


def mounts_below(directory: Path) -> list[str]:
    """Mount points, deepest last."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{os.path.realpath(directory)}/")]


def run_command(
    arguments: list[str], *, cwd: Path, env: dict[str, str], timeout: float, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """In a session of its own, so that Ctrl-C in the terminal reaches only the demo."""
    return subprocess.run(
        arguments, cwd=cwd, env=env, input=stdin, capture_output=True, timeout=timeout, check=False,
        start_new_session=True,
    )  # fmt: skip


# The journal of the emulator.


class Journal:
    """Reads the journal incrementally."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def new_calls(self) -> list[dict[str, Any]]:
        """HCS calls that returned since the last read, in the order in which they began."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                text = file.read()
        except OSError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        entries = [json.loads(line) for line in whole.splitlines()]
        return sorted((entry for entry in entries if "call" in entry), key=lambda entry: int(entry["seq"]))


def summarize_calls(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each function, in the order of first use."""
    found: dict[str, dict[str, Any]] = {}
    for call in calls:
        entry = found.setdefault(call["call"], {"call": call["call"], "count": 0, "ms": 0.0, "failed": []})
        entry["count"] += 1
        entry["ms"] += call["duration_us"] / 1000
        if not call["result"].startswith("0x0"):
            entry["failed"].append(call["result"])
    return [entry | {"ms": round(entry["ms"], 2)} for entry in found.values()]


# Prerequisites.


def check_prerequisites() -> None:
    """Raises DemoError, with the next step."""
    if not host.IS_EMULATED:
        raise DemoError("the emulator runs on Linux only: use a Linux machine or VM, or WSL 2")
    if os.geteuid() != 0:
        raise DemoError("containers need namespaces and mounts, which only root can create: run `sudo make demo`")
    _build_emulator()
    # As an installation does; otherwise the first run would measure Python's compiler.
    for package in ("shim", "hcs_emulator"):
        compileall.compile_dir(ROOT / package, quiet=2)
    if unshare := shutil.which("unshare"):
        done = subprocess.run([unshare, "-pmui", "true"], check=False, capture_output=True, timeout=10)
        if done.returncode:
            raise DemoError(
                "this machine does not allow new namespaces (`unshare -pmui true` fails): in a container, start it "
                "with --privileged"
            )


def _build_emulator() -> None:
    from hcs_emulator.native import build

    try:
        build.build()
    except FileNotFoundError:
        raise DemoError(
            "the library of the emulator must be built and there is no C compiler: `apt-get install gcc libc6-dev`, or "
            "set CC"
        ) from None
    except subprocess.CalledProcessError as error:
        raise DemoError(
            f"building the library of the emulator failed (see above; the compiler exited with {error.returncode}): is "
            "libc6-dev installed?"
        ) from None
