"""A container of the guest: runc's container with its processes, from Create to DeleteContainerState."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from hcs_emulator.vm.linux.agent import log, mounts, rules, spec, stats, users
from hcs_emulator.vm.linux.agent.errors import NOT_FOUND, GuestError, RuleError, with_code
from hcs_emulator.vm.linux.agent.process import Process, exit_type
from hcs_emulator.vm.linux.agent.relay import Connections
from hcs_emulator.vm.linux.agent.runc import Runtime

STREAMS = ("stdin", "stdout", "stderr")
_KILL_TIMEOUT = 5.0


class Container:
    """`root` is the directory of the pod, or of the container itself if it is in none."""

    def __init__(self, identifier: str, config: dict[str, Any]) -> None:
        self.id = identifier
        self.spec: spec.Spec = config["OciSpecification"]
        self.bundle: str = config["OciBundlePath"]
        self.scratch: str = config["ScratchDirPath"]
        self.root_path: str = self.spec["root"].get("path", "")
        self.type = spec.annotations_of(self.spec).get(spec.TYPE)
        self.sandbox = identifier
        self.root = self.bundle
        self.created = False
        self.log_path = ""
        self.exit_type = "UnexpectedExit"
        self.runtime = Runtime(identifier, self.bundle)
        self.init: Process | None = None
        self._processes: dict[int, Process] = {}
        self._lock = threading.Lock()

    @property
    def is_sandbox(self) -> bool:
        return self.type == "sandbox"

    @property
    def terminal(self) -> bool:
        return bool(self.spec["process"].get("terminal"))

    def is_running(self) -> bool:
        return self.init is not None and self.init.started and not self.init.gone.is_set()

    def has_processes(self) -> bool:
        """Whether init exists: started or waiting for it."""
        return self.init is not None and not self.init.gone.is_set()

    def create(self, exited: Callable[[str], None]) -> int:
        """Run `runc create`; `exited` gets the type of exit when the host knows of init's exit."""
        cwd = self.spec["process"].get("cwd") or "/"
        if cwd != "/":
            # gcs does not care if this fails: runc then reports what is wrong.
            try:
                mounts.make_directory(os.path.normpath(f"{self.bundle}/rootfs/{cwd}"), 0o755)
            except GuestError as error:
                log.debug("failed to create the working directory", error=str(error))
        started = self.runtime.create(self.terminal)
        init = Process(started.pid, started.relay)
        init.on_exit = self._init_exited
        init.on_waited = lambda: self._init_waited(exited)
        self.init = init
        init.watch()
        return init.pid

    def _owns_pid_namespace(self) -> bool:
        entries = self.spec["linux"].get("namespaces") or ()
        return any(entry.get("type") == "pid" and not entry.get("path") for entry in entries)

    def _init_exited(self) -> None:
        if not self._owns_pid_namespace():
            try:
                self.runtime.kill(9, everything=True)
            except GuestError as error:
                log.error("failed to terminate container after process wait", cid=self.id, error=str(error))

    def _init_waited(self, exited: Callable[[str], None]) -> None:
        assert self.init is not None
        self.runtime.forget_process(self.init.pid)
        exited(self.exit_type)

    # processes

    def start(self, ports: dict[str, int | None]) -> int:
        init = self._init()
        if self.terminal and ports["stderr"] is not None:
            raise RuleError(rules.TERMINAL_STREAMS, "a process with a terminal has no stderr")
        connections = Connections.dial(ports)
        try:
            if init.started:
                self.runtime.start()  # fails, with runc's words
            assert init.relay is not None
            if self.log_path:
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                init.relay.tee = os.open(self.log_path, flags, 0o666)
            init.started = True
            init.relay.start(connections)
            self.runtime.start()
        except BaseException:
            connections.close()
            raise
        return init.pid

    def execute(self, process: dict[str, Any], ports: dict[str, int | None]) -> int:
        if process.get("terminal") and ports["stderr"] is not None:
            raise RuleError(rules.TERMINAL_STREAMS, "a process with a terminal has no stderr")
        connections = Connections.dial(ports)
        try:
            process = {**process, "rlimits": self.spec["process"].get("rlimits") or []}
            self._set_user(process)
            wanted = [name for name in STREAMS if ports[name] is not None]
            started = self.runtime.execute(process, wanted)
        except BaseException:
            connections.close()
            raise
        entry = Process(started.pid, started.relay)
        entry.started = True
        entry.forget = lambda: self._forget(entry.pid)
        started.relay.start(connections)
        with self._lock:
            self._processes[entry.pid] = entry
        entry.watch()
        return entry.pid

    def _set_user(self, process: dict[str, Any]) -> None:
        """An exec without a user of its own has that of the container, if this was given by name."""
        user = dict(process.get("user") or {})
        own = self.spec["process"].get("user") or {}
        if user.get("username"):
            user["uid"], user["gid"] = users.resolve(self.root_path, user["username"])
            user["username"] = ""
        elif own.get("username"):
            user = own
        process["user"] = user

    def _forget(self, pid: int) -> None:
        self.runtime.forget_process(pid)
        with self._lock:
            self._processes.pop(pid, None)

    def _init(self) -> Process:
        assert self.init is not None  # containers are found only when they are created
        return self.init

    def process(self, pid: int) -> Process:
        init = self._init()
        if init.pid == pid:
            return init
        with self._lock:
            found = self._processes.get(pid)
        if found is None:
            raise with_code(NOT_FOUND)
        return found

    def signal(self, pid: int, number: int) -> None:
        process = self.process(pid)
        process.kill(number)
        if process is self.init:
            self.exit_type = exit_type(number) or self.exit_type

    def kill(self, number: int) -> None:
        """Signal init through runc."""
        self.runtime.kill(number)
        self.exit_type = exit_type(number) or self.exit_type
        init = self._init()
        if number == signal.SIGKILL and not init.started:
            init.gone.wait(_KILL_TIMEOUT)  # the host gets no notification of it, and unmounts its root next

    def metrics(self) -> dict[str, Any]:
        return stats.metrics(self.spec["linux"]["cgroupsPath"])

    def check_waited(self) -> None:
        """The host must have asked for the exit of every process that it started."""
        init = self._init()
        with self._lock:
            others = list(self._processes.values())
        for process in [init, *others]:
            if process.started and process.gone.is_set() and not process.waits:
                text = f"nobody asked for the exit of process {process.pid} of container {self.id}"
                raise RuleError(rules.WAIT_FOR_PROCESS, text)

    def delete(self) -> None:
        """Remove everything; the first failure is reported, and everything else is still tried."""
        failure: GuestError | None = None
        if self.is_sandbox:
            for name in (spec.SANDBOX_MOUNTS, spec.SANDBOX_TMPFS, spec.HUGEPAGES):
                try:
                    mounts.unmount_below(os.path.join(self.root, name))
                except GuestError as error:
                    log.error("failed to unmount sandbox mounts", cid=self.id, error=str(error))
        try:
            self.runtime.delete()
        except GuestError as error:
            failure = error
        for path, name in ((self.scratch, "state"), (self.bundle, "oci bundle dir")):
            if not path:
                continue
            try:
                mounts.remove_tree(path)
            except GuestError as error:
                # Joined errors have no code of their own.
                joined = GuestError(f"errors deleting container {name}: {failure}; {error}")
                failure = error if failure is None else joined
        if failure is not None:
            raise failure
