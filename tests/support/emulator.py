"""A private emulator for a test: its own directory, journal and control socket, and a check for leaks at its stop."""

from __future__ import annotations

import ctypes
import glob
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hcs_emulator.service import malloc
from hcs_emulator.service.virtual_machine.cgroups import host_hierarchies
from tests.support.eventually import eventually

START_TIMEOUT = 60.0


class Emulator:
    """A running service. `env` is the environment of programs that connect to it."""

    def __init__(self, *arguments: str) -> None:
        # The length of Unix socket paths is limited, so the directory is short.
        self.directory = Path(tempfile.mkdtemp(prefix="hcs-", dir="/tmp"))
        self.journal_path = self.directory / "journal.jsonl"
        self.env = os.environ | {"HCS_EMULATOR_DIR": str(self.directory)}
        self.env.pop("HCS_EMULATOR_JOURNAL", None)
        self.log = open(self.directory / "service.log", "w+")  # noqa: SIM115
        self._arguments = arguments
        self.process = self._start()
        eventually(self._is_ready, "the emulator's sockets", START_TIMEOUT)

    def restart(self) -> None:
        """Start the service again after it was killed."""
        assert self.process.poll() is not None
        for name in ("control.sock", "hcs.sock"):
            (self.directory / name).unlink(missing_ok=True)
        self.process = self._start()
        eventually(self._is_ready, "the emulator's sockets", START_TIMEOUT)

    def _start(self) -> subprocess.Popen[bytes]:
        # With its setting of malloc from the beginning, so that it need not execute itself a second time.
        env = self.env | {malloc.VARIABLE: malloc.SETTING}
        return subprocess.Popen(
            [sys.executable, "-m", "hcs_emulator.service", "--directory", str(self.directory),
             "--journal", str(self.journal_path), *self._arguments],
            stdout=self.log, stderr=subprocess.STDOUT, env=env, start_new_session=True,
            preexec_fn=_set_pdeathsig,
        )  # fmt: skip

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, "the emulator exited: " + self.output()
        return (self.directory / "control.sock").exists() and (self.directory / "hcs.sock").exists()

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        return (self.directory / "service.log").read_text()

    def control(self, command: str, **arguments: Any) -> dict[str, Any]:
        """One command on the control socket; fails unless the response is ok."""
        response = self.request(command, **arguments)
        assert response["ok"], response
        return response

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(self.directory / "control.sock"))
            connection.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
            response: dict[str, Any] = json.loads(connection.makefile().readline())
            return response

    def journal(self, call: str | None = None, event: str | None = None) -> list[dict[str, Any]]:
        """The journal so far, or only the lines of one call or one event."""
        text = self.journal_path.read_text() if self.journal_path.exists() else ""
        complete = text[: text.rfind("\n") + 1]  # the last line may be half written
        entries = [json.loads(line) for line in complete.splitlines()]
        if call is not None:
            entries = [entry for entry in entries if entry.get("call") == call]
        if event is not None:
            entries = [entry for entry in entries if entry.get("event") == event]
        return entries

    def fault(self, call: str, **fault: Any) -> None:
        self.control("fault-add", call=call, **fault)

    def descendants(self) -> list[int]:
        """All descendants of the service: the processes of its containers and VMs."""
        children: dict[int, list[int]] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    stat = Path(f"/proc/{entry}/stat").read_text()
                except OSError:
                    continue
                children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
        found: list[int] = []
        waiting = [self.pid]
        while waiting:
            for child in children.get(waiting.pop(), ()):
                found.append(child)
                waiting.append(child)
        return found

    def mounts(self) -> list[str]:
        points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return [point for point in points if point.startswith(str(self.directory) + "/")]

    def vm_cgroups(self) -> list[Path]:
        """The groups of this instance's Linux VMs."""
        instance = hashlib.sha256(os.path.realpath(self.directory).encode()).hexdigest()[:12]
        bases = [hierarchy.base for hierarchy in host_hierarchies()]
        # Not by `Path.glob`, which raises if another emulator removes the last group, and so the directory, meanwhile.
        return [Path(path) for base in bases for path in glob.glob(f"{base}/hcs-emulator/{instance}-*")]

    def stop(self) -> None:
        """Stop the service as a user does, and check that no process and no mount remains."""
        processes = self.descendants()
        stopped_by_test = self.process.poll() is not None
        if not stopped_by_test:
            self.control("stop")
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("the emulator did not stop: " + self.output()) from None
        output = self.output()
        self.log.close()
        try:
            eventually(lambda: not [pid for pid in processes if is_alive(pid)], f"the exit of all of {processes}")
            assert not self.mounts(), f"leaked mounts: {self.mounts()}"
            assert stopped_by_test or not self.vm_cgroups(), f"leaked cgroups: {self.vm_cgroups()}"
            assert "Traceback" not in output, output
        finally:
            for pid in processes:
                if is_alive(pid):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(self.directory, ignore_errors=True)


_libc = ctypes.CDLL(None)


def _set_pdeathsig() -> None:
    """Terminate the emulator when the test run is killed (PR_SET_PDEATHSIG)."""
    _libc.prctl(1, signal.SIGTERM)


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie. While other threads of it still exit, its files are open, though
    the first thread is a zombie already."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False
