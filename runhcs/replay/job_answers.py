"""The recorded answers of jobs, in the shim that is replayed: host process containers use no HCS.

`install` replaces the functions of `shim.platform.jobs`. No process is started, no user is created, nothing is mounted.
Calls that were made are reported in a file, which the driver compares with the recording, and by a datagram when they
are answered. Exits come from the driver, as datagrams.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from typing import Any

from shim.platform import jobs
from shim.platform.exit_event import ExitEvent
from shim.platform.job_types import GENERAL_FAILURE, Identity, JobError, Launch, Limits
from shim.recording.job_calls import CREATE, ENVIRONMENT, FUNCTIONS, SET_LIMITS, SPAWN, plain

ANSWERS, REPORT = "jobs.json", "jobs.report"
# Where the shim gets events, and where the driver gets the number of each call that has been answered.
SOCKET, DONE_SOCKET = "jobs.sock", "jobs.done"
# An exit waits so long for the start of its process.
PATIENCE = 30.0
_MAX_EVENT = 4096

Entry = dict[str, Any]


class Answers:
    """Each recorded call is used once: the first one of that function, job and process."""

    def __init__(self, directory: str) -> None:
        with open(os.path.join(directory, ANSWERS), encoding="utf-8") as file:
            content = json.load(file)
        self._delays = bool(content["delays"])
        self._entries: list[Entry] = content["entries"]
        self._used: set[int] = set()
        self._directory = directory
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._processes: dict[int, ReplayProcess] = {}
        self._jobs: dict[int, ReplayJob] = {}
        self._listens = False

    def call(self, function: str, arguments: tuple[Any, ...], job: int = 0, process: int = 0) -> Entry:
        """The recorded call. Raises what was raised then, or JobError if there is none."""
        index = self._take(function, plain(list(arguments)), job, process)
        if index is None:
            raise JobError(GENERAL_FAILURE, f"the recording has no answer to {function}")
        found = self._entries[index]
        if self._delays:
            time.sleep(max(0, found["end"] - found["begin"]) / 1e9)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as done:
            done.sendto(str(index).encode(), os.path.join(self._directory, DONE_SOCKET))
        if "error" in found:
            raise JobError(*found["error"])
        if "os_error" in found:
            name, number, text = found["os_error"]
            raise {"FileExistsError": FileExistsError, "NotADirectoryError": NotADirectoryError}.get(name, OSError)(
                number, text
            )
        return found

    def _take(self, function: str, arguments: list[Any], job: int, process: int) -> int | None:
        with self._lock:
            for index, entry in enumerate(self._entries):
                if index in self._used or entry["function"] != function:
                    continue
                if function == CREATE:
                    is_this = entry["arguments"][:1] == arguments[:1]
                elif function == SPAWN:
                    is_this = entry["job"] == job
                else:
                    is_this = (entry["job"], entry["process"]) == (job, process)
                if is_this:
                    self._used.add(index)
                    self._report({"index": index, "arguments": arguments})
                    return index
            self._report({"index": None, "function": function, "arguments": arguments})
            return None

    def _report(self, line: Entry) -> None:
        with open(os.path.join(self._directory, REPORT), "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    # Events.

    def add(self, number: int, item: ReplayJob | ReplayProcess) -> None:
        with self._changed:
            if isinstance(item, ReplayJob):
                self._jobs[number] = item
            else:
                self._processes[number] = item
            self._changed.notify_all()
            if self._listens:
                return
            self._listens = True
        # Not earlier: `start` forks the daemon.
        events = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        events.bind(os.path.join(self._directory, SOCKET))
        threading.Thread(target=self._listen, args=(events,), daemon=True).start()

    def _listen(self, events: socket.socket) -> None:
        while True:
            threading.Thread(target=self._happen, args=(json.loads(events.recv(_MAX_EVENT)),), daemon=True).start()

    def _happen(self, event: Entry) -> None:
        known: dict[int, Any] = self._jobs if event["event"] == "lost" else self._processes
        number = event["job"] if event["event"] == "lost" else event["process"]
        with self._changed:
            if not self._changed.wait_for(lambda: number in known, PATIENCE):
                return  # the driver reports what differs
            item = known[number]
        if isinstance(item, ReplayJob):
            item.lose()
        else:
            self._jobs[event["job"]].memory_breached = bool(event.get("memory_breached"))
            item.exit(int(event["code"]))


class ReplayJob:
    def __init__(self, answers: Answers, id: str) -> None:
        created = answers.call(CREATE, (id,))
        self.can_bind = bool(created["result"])
        self.memory_breached = False
        self.unenforced: list[str] = []
        self._answers = answers
        self._number = int(created["job"])
        self._lost: list[Any] = []
        answers.add(self._number, self)

    def _call(self, function: str, *arguments: Any) -> Any:
        return self._answers.call(function, arguments, self._number)["result"]

    def bind(self, source: str, target: str, read_only: bool) -> None:
        self._call("bind", source, target, read_only)

    def set_limits(self, limits: Limits) -> None:
        self.unenforced = list(self._call(SET_LIMITS, limits)["unenforced"])

    def set_affinity(self, processors: Any) -> None:
        self._call("set_affinity", list(processors))

    def log_on(self, identity: Identity) -> None:
        self._call("log_on", identity)

    def environment(self) -> dict[str, str]:
        return dict(self._call(ENVIRONMENT)[ENVIRONMENT])

    def spawn(self, launch: Launch) -> ReplayProcess:
        entry = self._answers.call(SPAWN, (launch,), self._number)
        process = ReplayProcess(self._answers, self._number, int(entry["process"]), entry["result"]["pid"], launch)
        self._answers.add(int(entry["process"]), process)
        return process

    def statistics(self) -> Any:
        return self._call("statistics")

    def process_list(self) -> Any:
        return self._call("process_list")

    def signal_all(self, event: str) -> int:
        return int(self._call("signal_all", event))

    def wait_empty(self, timeout: float) -> bool:
        return bool(self._call("wait_empty", timeout))

    def terminate(self) -> None:
        self._call("terminate")

    def on_lost(self, callback: Any) -> None:
        self._lost.append(callback)

    def lose(self) -> None:
        for callback in self._lost:
            callback()

    def close(self) -> None:
        self._call("close")


class ReplayProcess(ExitEvent):
    """Its streams are pipes, which stay open until its exit."""

    def __init__(self, answers: Answers, job: int, number: int, pid: int, launch: Launch) -> None:
        super().__init__()
        self.pid = pid
        self.killed = False
        self.stdin: int | None = None
        self.stdout: int | None = None
        self.stderr: int | None = None
        self._answers = answers
        self._job = job
        self._number = number
        self._ends: list[int] = []
        for name in ("stdin", "stdout", "stderr"):
            if getattr(launch, name):
                read, write = os.pipe2(os.O_CLOEXEC)
                own, other = (read, write) if name == "stdin" else (write, read)
                self._ends.append(own)
                setattr(self, name, other)

    def _call(self, function: str, *arguments: Any) -> Any:
        return self._answers.call(function, arguments, self._job, self._number)["result"]

    def signal(self, options: Entry) -> bool:
        return bool(self._call("signal", options))

    def terminate(self, *timeout: float | None, **named: float | None) -> bool:
        done = bool(self._call("terminate", *timeout))
        self.killed = self.killed or done
        return done

    def modify(self, settings: Entry, *timeout: float | None, **named: float | None) -> None:
        self._call("modify", settings, *timeout)

    def exit(self, code: int) -> None:
        ends, self._ends = self._ends, []
        for end in ends:
            os.close(end)
        self.finish(code)

    def close(self) -> None:
        with self._lock:
            handles = {self.stdin, self.stdout, self.stderr}
            self.stdin = self.stdout = self.stderr = None
        for handle in handles:
            if handle is not None:
                os.close(handle)
        self._call("close")


def install(directory: str) -> None:
    """Before the shim runs."""
    answers = Answers(directory)

    def replaced(name: str) -> Any:
        return lambda *arguments: answers.call(name, arguments)["result"]

    own = {
        "create": lambda container, build: ReplayJob(answers, container),
        "cgroup_paths": lambda container: "",
        "kill_job": lambda fields, deadline: None,
    }
    for name in (*FUNCTIONS, *own):
        setattr(jobs, name, own.get(name) or replaced(name))
