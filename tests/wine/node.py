"""One containerd.exe under Wine, with the shim of the distribution in its directory, and ctr.exe."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from tests.containerd.daemon import DELETE_SECONDS, shim_timeouts
from tests.support.eventually import eventually
from tests.wine.conftest import ROOT, TIMEOUT, Machine, go_programs
from tests.wine.watchdog import debug_address

RUNTIME = "io.containerd.runhcs.v1"
PROGRAM = "containerd-shim-runhcs-v1.exe"
FOREVER = "cmd /c ping -n 600 127.0.0.1 >nul"
T = TypeVar("T")
_numbers = itertools.count(1)


class Node:
    """Tests share a node: container names are unique, and a leak fails only the test that caused it."""

    namespace = "default"

    def __init__(self, machine: Machine, version: str, kind: str = "node") -> None:
        self.machine = machine
        self.version = version
        self.name = f"{kind}-{version}"
        self.directory = machine.drive / self.name
        self.address = rf"\\.\pipe\{self.name}"
        self.names: list[str] = []
        self._is_clean = True
        self._before: set[object] = set()
        self.install_shim()
        for program in ("containerd.exe", "ctr.exe"):
            (self.directory / program).write_bytes((go_programs(version) / program).read_bytes())
        (self.directory / "config.toml").write_text(self.config())
        self.start()

    def install_shim(self) -> None:
        self.machine.unpack(self.directory)

    def config(self) -> str:
        """The configuration of containerd, without CRI."""
        disabled = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"]
        return (
            f"version = 2\nroot = 'C:\\{self.name}\\root'\nstate = 'C:\\{self.name}\\state'\n"
            f"disabled_plugins = {json.dumps(disabled)}\n"
            f"[grpc]\naddress = '{self.address}'\n[ttrpc]\naddress = '{self.address}.ttrpc'\n"
            f"[debug]\naddress = '{debug_address(self.name)}'\n{shim_timeouts()}"
        )

    # -- containerd itself

    def start(self) -> None:
        command = ["wine", rf"C:\{self.name}\containerd.exe", "--config", rf"C:\{self.name}\config.toml"]
        with open(self.directory / "containerd.log", "ab") as log:
            self._running = subprocess.Popen(
                [*command, "--log-level", "debug"],
                env=self.machine.environment | {"RUNHCS_DELETE_SECONDS": DELETE_SECONDS},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + TIMEOUT
        while self.ctr("version", timeout=30).returncode:
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.2)

    def stop(self) -> None:
        """Kill containerd, as in a crash. The shims keep running."""
        self._running.kill()
        self._running.wait(TIMEOUT)

    def log(self) -> str:
        return (self.directory / "containerd.log").read_text(errors="replace")[-8000:]

    # -- ctr

    def ctr(self, *arguments: str, input: bytes = b"", timeout: float = TIMEOUT) -> subprocess.CompletedProcess[bytes]:
        program = rf"C:\{self.name}\ctr.exe"
        deadline = time.monotonic() + timeout
        while True:
            done = self.machine.run(program, "--address", self.address, *arguments, input=input, timeout=timeout)
            # ctr first opens the pipe without waiting for a free instance. It has sent no request then: retry.
            is_busy = b"cannot access socket" in done.stdout and b"Pipe busy" in done.stdout
            if not is_busy or time.monotonic() > deadline:
                return done
            time.sleep(0.2)

    def checked(self, *arguments: str, input: bytes = b"") -> str:
        """Run ctr, which must succeed, and return its output."""
        done = self.ctr(*arguments, input=input)
        text = done.stdout.decode(errors="replace")
        assert done.returncode == 0, f"ctr {' '.join(arguments)}: {done.returncode}\n{text}\n{self.log()}"
        return text

    def new_name(self, kind: str = "c") -> str:
        """A unique container name."""
        name = f"{kind}{next(_numbers)}"
        self.names.append(name)
        return name

    def spec(self, id: str, command: str, **members: Any) -> str:
        """Write a spec with layers like those of a snapshotter, and return its Windows path."""
        work = self.directory / "work"
        (work / "base" / "Files").mkdir(parents=True, exist_ok=True)
        self._make_bootable(work / "base" / "UtilityVM")
        (work / f"scratch-{id}" / "sandbox.vhdx.d").mkdir(parents=True)
        (work / f"scratch-{id}" / "sandbox.vhdx").write_text('{"disk": "directory", "size": 1073741824}')
        process = {"cwd": "C:\\", "commandLine": command, "args": [], "user": {}, **members.pop("process", {})}
        windows = {"layerFolders": [rf"C:\{self.name}\work\base", rf"C:\{self.name}\work\scratch-{id}"]}
        spec = {
            "ociVersion": "1.1.0",
            "process": process,
            "root": {"path": ""},
            "windows": {**windows, **members.pop("windows", {})},
            **members,
        }
        (work / f"{id}.json").write_text(json.dumps(spec))
        return rf"C:\{self.name}\work\{id}.json"

    @staticmethod
    def _make_bootable(directory: Path) -> None:
        """The boot files of a utility VM."""
        (directory / "Files" / "EFI" / "Microsoft" / "Boot").mkdir(parents=True, exist_ok=True)
        (directory / "SystemTemplate.vhdx").write_text("template")

    def run(
        self, id: str, command: str, *flags: str, input: bytes = b"", timeout: float = TIMEOUT, **members: Any
    ) -> subprocess.CompletedProcess[bytes]:
        path = self.spec(id, command, **members)
        return self.ctr("run", *flags, "--runtime", RUNTIME, "--config", path, id, input=input, timeout=timeout)

    def run_detached(self, id: str, command: str = FOREVER, **members: Any) -> None:
        done = self.run(id, command, "-d", "--null-io", **members)
        assert done.returncode == 0, done.stdout.decode(errors="replace") + self.log()

    def tasks(self) -> dict[str, str]:
        """The status of every task, by id."""
        lines = self.checked("task", "ls").splitlines()[1:]
        return {words[0]: words[-1] for line in lines if (words := line.split())}

    def kill(self, id: str) -> None:
        """Kill a task and wait until it is stopped."""
        self.checked("task", "kill", "-s", "SIGKILL", id)
        eventually(lambda: self.tasks().get(id) == "STOPPED", f"the stop of {id}")

    def remove(self, id: str) -> None:
        """Delete a stopped task and its container."""
        done = self.ctr("task", "rm", id)  # ctr passes on the exit status of the task
        assert id not in self.tasks(), done.stdout.decode(errors="replace") + self.log()
        self.checked("container", "rm", id)

    # -- leak checks

    def begin(self) -> None:
        """Begin a test. Resources that exist now are not leaks of this test."""
        if not self._is_clean:
            self.names.clear()
            if self.ctr("version", timeout=30).returncode:
                self.stop()
                self.start()
        # Also after a clean test: other nodes share the machine, and a failed test of theirs leaves systems and mounts.
        self._before.clear()
        self._before |= {*self.bundles(), *self.shims(), *self.systems(), *self.mounts()}
        self._is_clean = False

    def _new_since_begin(self, found: Iterable[T]) -> list[T]:
        return [one for one in found if one not in self._before]

    def bundles(self) -> list[str]:
        return self._new_since_begin(sorted(path.name for path in self.bundle("").glob("*")))

    def bundle(self, id: str) -> Path:
        return self.directory / "state" / "io.containerd.runtime.v2.task" / self.namespace / id

    def shims(self) -> list[int]:
        """The Linux pids of the shims that this containerd started."""
        program = f"{self.name}\\{PROGRAM}".encode()
        found = []
        for pid in self.machine.wine.processes():
            try:
                if program in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
            except OSError:
                continue  # it has just exited
        return self._new_since_begin(found)

    def shim_pid(self, id: str) -> int:
        """The Windows pid of the process that serves this container."""
        return int((self.bundle(id) / "shim.pid").read_text())

    def terminate_shim(self, id: str) -> None:
        """TerminateProcess."""
        script = f"import os, signal; os.kill({self.shim_pid(id)}, signal.SIGTERM)"
        done = self.machine.run(r"C:\python\python.exe", "-c", script)
        assert done.returncode == 0, done.stdout.decode(errors="replace")

    def runhcs(self, command: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """A command of runhcs.exe about the shims of this containerd."""
        state = rf"C:\{self.name}\state"
        done = self.machine.run(rf"C:\{self.name}\runhcs.exe", command, *arguments, "--state", state)
        assert done.returncode == 0, done.stdout.decode(errors="replace")
        return done

    def systems(self) -> list[str]:
        return self._new_since_begin(sorted(system["Id"] for system in ask_emulator(self.machine, "status")["systems"]))

    def mounts(self) -> list[str]:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return self._new_since_begin(line for line in lines if str(self.machine.directory) in line)

    def pipes(self) -> list[str]:
        """The pipes of the shims of this test's containers that still exist."""
        paths = [rf"ProtectedPrefix\Administrators\containerd-shim-{self.namespace}-{name}-pipe" for name in self.names]
        paths += [f"containerd-shim-{self.namespace}-{name}-log" for name in self.names]
        script = "Z:" + str(ROOT / "tests" / "wine" / "pipes.py").replace("/", "\\")
        done = self.machine.run(r"C:\python\python.exe", script, *paths)
        assert done.returncode == 0, f"{done.returncode}: {done.stdout.decode(errors='replace')}"
        return done.stdout.decode().split()

    def expect_clean(self) -> None:
        """Wait until every bundle, shim, compute system, mount and pipe of the test's containers is removed."""

        def leaked() -> dict[str, list[Any]]:
            kinds = {"shims": self.shims, "systems": self.systems, "mounts": self.mounts}
            found = {kind: find() for kind, find in kinds.items()}
            found["files"] = [
                str(path) for name in self.bundles() for path in (self.bundle(name), *self.bundle(name).rglob("*"))
            ]
            return {kind: resources for kind, resources in found.items() if resources}

        try:
            eventually(lambda: not leaked(), "no leaked resource")
        except AssertionError:
            raise AssertionError(f"leaked: {leaked()}\n{self.log()}") from None
        assert self.pipes() == [], self.log()
        self.names.clear()
        self._is_clean = True


def ask_emulator(machine: Machine, command: str, **arguments: Any) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT)
        connection.connect(str(machine.emulator / "control.sock"))
        connection.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
        with connection.makefile("rb") as answers:
            answer: dict[str, Any] = json.loads(answers.readline())
    assert answer["ok"], answer
    return answer


class EventWatch:
    """Collects the output of `ctr events` during the with statement."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.text = b""

    def __enter__(self) -> EventWatch:
        self._subscribe()
        eventually(self._probe, "the first event", TIMEOUT)
        return self

    def _subscribe(self) -> None:
        command = ["wine", rf"C:\{self._node.name}\ctr.exe", "--address", self._node.address, "events"]
        reading, writing = os.pipe()
        null = subprocess.DEVNULL
        environment = self._node.machine.environment
        self._running = subprocess.Popen(command, env=environment, stdin=null, stdout=writing, stderr=null)
        os.close(writing)
        threading.Thread(target=self._read, args=(reading,), daemon=True).start()

    def _probe(self) -> bool:
        """Create a namespace, whose event shows that the subscription is active."""
        if self._running.poll() is not None:
            self._subscribe()  # the pipe was busy
        name = f"probe{next(_numbers)}"
        self._node.ctr("namespace", "create", name)
        deadline = time.monotonic() + 5
        while name.encode() not in self.text and time.monotonic() < deadline:
            time.sleep(0.05)
        self._node.ctr("namespace", "rm", name)
        return name.encode() in self.text

    def _read(self, descriptor: int) -> None:
        with open(descriptor, "rb", 0) as file:
            while data := file.read(65536):
                self.text += data

    def topics(self, id: str) -> list[str]:
        """The topics of a task's events, in order."""
        found = []
        for line in self.text.decode(errors="replace").splitlines():
            before, brace, body = line.partition(" {")
            if brace and f'"{id}"' in body and "/tasks/" in before:
                found.append(before.split()[-1])
        return found

    def __exit__(self, *error: object) -> None:
        self._running.kill()
        self._running.wait(TIMEOUT)
