"""Replays a recorded case with our shim: the spec, the requests and the order of the recording."""

from __future__ import annotations

import copy
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runhcs.task_events import TASKS
from shim.api import task as api
from shim.api.types import Mount
from shim.ttrpc.status import ClosedError, StatusError
from tests.parity.answers import EVENT_CONTENTS, event_contents, failure, process_list, statistics, to_json
from tests.parity.cases import Case
from tests.parity.environment import CaseEnvironment
from tests.parity.requests import EXEC, INPUT, PAIR, SIZE, UPDATE, UPDATE_TYPES, fault, options
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shim, Shims

TIMEOUT = 60.0
BOOT_FILES_OPTION = "bootFilesRootPath"

Answer = dict[str, Any]


class Stream:
    """A FIFO that the driver reads until end of file, or writes to."""

    def __init__(self, path: Path, written: bool = False) -> None:
        os.mkfifo(path)
        self.path = path
        self.data = b""
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK) if written else -1
        self._thread = threading.Thread(target=self._read, daemon=True)
        if not written:
            self._thread.start()

    def _read(self) -> None:
        try:
            with open(self.path, "rb", buffering=0) as file:
                while data := file.read(65536):
                    self.data += data
        except FileNotFoundError:
            pass  # it was never opened, and the test has finished

    def write(self, data: bytes) -> None:
        os.write(self._descriptor, data)

    def text(self) -> str:
        if self._thread.is_alive():
            # It may never have been opened for writing.
            descriptor = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
            os.close(descriptor)
            self._thread.join(TIMEOUT)
        return self.data.decode().replace("\r\n", "\n")

    def is_held(self) -> bool:
        """Whether the shim still has it open."""
        return self._thread.is_alive()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Replay:
    """One group of cases, on one emulator. `run` returns the responses of a case in the format of the recordings."""

    def __init__(self, emulator: Emulator, shims: Shims, environment: CaseEnvironment) -> None:
        self.emulator = emulator
        self.shims = shims
        self.environment = environment
        self._shims: dict[str, Shim] = {}
        self._streams: dict[str, Stream] = {}
        self._events_seen = 0

    def run(self, case: Case) -> list[Answer]:
        return Scenario(self, case).run()

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()


class Scenario:
    def __init__(self, replay: Replay, case: Case) -> None:
        self.replay = replay
        self.shims = replay.shims
        self.case = case
        self.id = case.id
        self.answers: list[Answer] = []
        self.failed = False
        #: Of a scenario that is one of two clients.
        self.other: Shim | None = None
        self.expected_events = _count_events(case)

    @property
    def shim(self) -> Shim:
        return self.other or self.replay._shims[self.id]

    def run(self) -> list[Answer]:
        self.replay._events_seen = len(self.shims.events.messages)
        if text := self.case.run.get("fail"):
            self.replay.emulator.fault(**fault(text))
        self.shims.env |= self.case.run.get("environment") or {}
        for step in self.case.run["steps"]:
            name, _, argument = step.partition(":")
            getattr(self, f"do_{name}")(argument)
            if self.failed:
                break
        return self.answers

    def record_result(self, operation: str, call: Callable[[], Any]) -> bool:
        try:
            answer = call()
        except (StatusError, ClosedError) as error:
            self.answers.append({"op": operation, **self.replay.environment.recorded(failure(error))})
            return False
        self.answers.append({"op": operation, "answer": answer})
        return True

    # The steps, by their names in the recordings.

    def do_start(self, _: str) -> None:
        spec = self.replay.environment.spec(self.case.spec)
        bundle = self.shims.bundle(self.id, spec)
        result = self.shims.command(self.id, "start", bundle)
        if result.returncode:
            self.answers.append({"op": "start", "error": f"exit status {result.returncode}"})
            self.failed = True
            return
        assert not result.stderr, result.stderr
        shim = Shim(self.shims, self.id, bundle, result.stdout.decode())
        self.shims.shims.append(shim)
        self.replay._shims[self.id] = shim
        self.answers.append({"op": "start", "answer": "an address"})

    def do_client(self, _: str) -> None:
        """The next calls are those of another client."""
        self.shim.client = self.shim.dial()

    def do_restart(self, _: str) -> None:
        """containerd crashes and is restarted."""
        self.do_outage("0")

    def do_outage(self, milliseconds: str) -> None:
        """containerd crashes, and is restarted some time later."""
        for client in self.shims.clients:
            client.close()
        self.shims.clients.clear()
        self.shims.events.stop()
        time.sleep(int(milliseconds) / 1000)
        self.shims.events.start()
        for shim in self.replay._shims.values():
            shim.client = shim.dial()

    def do_both(self, step: str) -> None:
        """The same call of two clients at the same time. The one that succeeds comes first, then by code."""
        self.answers += sorted(self._at_the_same_time(step, step), key=lambda one: str(one.get("code", "")))

    def do_pair(self, steps: str) -> None:
        """Two calls of two clients at the same time."""
        self.answers += self._at_the_same_time(*steps.split(PAIR))

    def _at_the_same_time(self, *steps: str) -> list[Answer]:
        """The answers, in the order of the steps."""
        scenarios = [copy.copy(self) for _ in steps]
        threads = []
        for scenario, step in zip(scenarios, steps, strict=True):
            scenario.answers = []
            scenario.other = copy.copy(self.shim)
            scenario.other.client = self.shim.dial()
            name, _, argument = step.partition(":")
            threads.append(threading.Thread(target=getattr(scenario, f"do_{name}"), args=(argument,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * TIMEOUT)
        return [one for scenario in scenarios for one in scenario.answers]

    def do_killshim(self, _: str) -> None:
        self.shim.kill_daemon()

    def do_attach(self, _: str) -> None:
        self.answers.append({"op": "dial", "answer": None})

    def do_ls(self, _: str) -> None:
        names = sorted(path.name for path in self.shim.path.iterdir())
        self.answers.append({"op": "bundle", "answer": [name for name in names if name != "rootfs"]})

    def do_connect(self, _: str) -> None:
        if not self.case.attaches:
            self.answers.append({"op": "dial", "answer": None})
        self.record_result("Connect", lambda: to_json(self.shim.connect()))

    def do_create(self, _: str) -> None:
        process = self.case.spec.get("process") or {}
        fields = self._streams(
            "init", stdin=self._is_written(""),
            terminal=bool(process.get("terminal")),
        )  # fmt: skip
        rootfs = [
            Mount(type=mount["type"], source=self.replay.environment.local(mount["source"]),
                  target=mount.get("target", ""),
                  options=self.replay.environment.local(mount.get("options") or []))
            for mount in self.case.run.get("rootfs") or []
        ]  # fmt: skip
        if self.record_result(
            "Create",
            lambda: to_json(self.shim.create(rootfs=rootfs, options=options(self._options()), **fields)),
        ):
            return
        self.answers.append({"op": "after-failed-create", "answer": self._still_held()})
        self.do_state("")
        self.do_shutdown("")
        self.failed = True

    def _options(self) -> dict[str, Any] | None:
        given: dict[str, Any] | None = self.case.run.get("options")
        if given is not None and BOOT_FILES_OPTION in given:
            given = {**given, BOOT_FILES_OPTION: self.replay.environment.local(given[BOOT_FILES_OPTION])}
        return given

    def _still_held(self) -> str:
        streams = [stream for name, stream in self.replay._streams.items() if name.startswith(f"{self.id}-")]
        deadline = time.monotonic() + TIMEOUT
        while any(stream.is_held() for stream in streams) and time.monotonic() < deadline:
            for stream in streams:
                stream.text()
            time.sleep(0.01)
        return "stdio pipes still held by shim" if any(stream.is_held() for stream in streams) else "released"

    def _streams(self, name: str, *, stdin: bool = False, terminal: bool = False) -> dict[str, Any]:
        fields: dict[str, Any] = {"terminal": terminal}
        for stream in ("stdin", "stdout", "stderr"):
            if (stream == "stdin" and not stdin) or (stream == "stderr" and terminal):
                continue
            full = f"{self.id}-{name}-{stream}"
            while full in self.replay._streams:  # a repeated exec
                full += "-again"
            opened = Stream(self.shims.directory / f"containerd-{full}", written=stream == "stdin")
            self.replay._streams[full] = opened
            fields[stream] = str(opened.path)
        return fields

    def _is_written(self, exec_id: str) -> bool:
        return any(step.partition(":")[::2] == ("stdin", exec_id) for step in self.case.run["steps"])

    def do_exec(self, exec_id: str) -> None:
        process = self.case.run.get("execs", {}).get(exec_id, EXEC)
        fields = self._streams(exec_id, stdin=self._is_written(exec_id), terminal=bool(process.get("terminal")))
        self.record_result(f"Exec({exec_id})", lambda: self.shim.exec(exec_id, process, **fields) or {})

    def do_state(self, exec_id: str) -> None:
        self.record_result("State", lambda: to_json(self.shim.state(exec_id)))

    def do_run(self, exec_id: str) -> None:
        self.record_result("Start", lambda: to_json(api.StartResponse(pid=self.shim.start(exec_id))))

    def do_wait(self, exec_id: str) -> None:
        self.record_result(f"Wait({exec_id})", lambda: to_json(self.shim.wait(exec_id, timeout=TIMEOUT)))

    def do_delete(self, exec_id: str) -> None:
        self.record_result(f"Delete({exec_id})", lambda: to_json(self.shim.delete(exec_id)))

    def do_kill(self, argument: str) -> None:
        exec_id, signal, *all_processes = argument.split(",")
        self.record_result(
            f'Kill("{exec_id}",{signal})', lambda: self.shim.kill(int(signal), exec_id, all=bool(all_processes)) or {}
        )

    def do_pids(self, _: str) -> None:
        self.record_result("Pids", lambda: process_list(self.shim.pids()))

    def do_stats(self, _: str) -> None:
        self.record_result("Stats", lambda: statistics(self.shim.stats()))

    def do_update(self, which: str) -> None:
        update = (self.case.run.get("updates") or [{"resources": UPDATE}])[int(which or 0)]
        resources, kind = update["resources"], UPDATE_TYPES[update.get("type", "WindowsResources")]
        if "HostPath" in (resources or {}):
            resources = {**resources, "HostPath": self.replay.environment.local(resources["HostPath"])}
        given = update.get("annotations")
        self.record_result("Update", lambda: self.shim.update(resources, kind, given) or {})

    def do_pause(self, _: str) -> None:
        self.record_result("Pause", lambda: self.shim.pause() or {})

    def do_resume(self, _: str) -> None:
        self.record_result("Resume", lambda: self.shim.resume() or {})

    def do_checkpoint(self, _: str) -> None:
        self.record_result("Checkpoint", lambda: self.shim.checkpoint() or {})

    def do_resize(self, exec_id: str) -> None:
        self.record_result("ResizePty", lambda: self.shim.resize(*SIZE, exec_id) or {})

    def do_stdin(self, exec_id: str) -> None:
        self.replay._streams[f"{self.id}-{exec_id or 'init'}-stdin"].write(INPUT)

    def do_closeio(self, exec_id: str) -> None:
        self.record_result("CloseIO", lambda: self.shim.close_io(exec_id) or {})

    def do_ready(self, exec_id: str) -> None:
        """The process has written something."""
        stream = self.replay._streams[f"{self.id}-{exec_id or 'init'}-stdout"]
        eventually(lambda: bool(stream.data), "the first output")

    def do_sleep(self, milliseconds: str) -> None:
        """A pause of the recording. The replay does not need it."""

    def do_shutdown(self, _: str) -> None:
        self.record_result("Shutdown", lambda: self.shim.shutdown() or {})

    def do_io(self, exec_id: str) -> None:
        streams = self.replay._streams
        read = {
            name: streams[f"{self.id}-{exec_id or 'init'}-{name}"].text()
            if f"{self.id}-{exec_id or 'init'}-{name}" in streams
            else ""
            for name in ("stdout", "stderr")
        }
        self.answers.append({"op": f"io({exec_id})", "answer": read})

    def do_events(self, _: str) -> None:
        def messages() -> list[tuple[str, Any]]:
            return self.shims.events.messages[self.replay._events_seen :]

        def received() -> list[str]:
            """Of this task: the last events of another one may arrive late."""
            return [topic for topic, event in messages() if event.container_id == self.id]

        try:
            eventually(lambda: len(received()) >= self.expected_events, "the events", 10)
        except AssertionError:
            pass  # the comparison reports the missing ones
        self.answers.append({"op": "events", "answer": received()})
        if any(result["op"] == EVENT_CONTENTS for result in self.case.run["results"]):
            mine = event_contents(self.id, ((topic.removeprefix(TASKS), event) for topic, event in messages()))
            self.answers.append({"op": EVENT_CONTENTS, "answer": self.replay.environment.recorded(mine)})

    def do_deletecmd(self, _: str) -> None:
        self.record_result("delete-cmd", lambda: to_json(self.shim.delete_command()))


def _count_events(case: Case) -> int:
    for result in case.run["results"]:
        if result["op"] == "events":
            return len(result.get("result", "").split(" | ")) if result.get("result") else 0
    return 0
