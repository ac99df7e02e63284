"""A silo: a started compute system on Linux.

`native/silo/main.c` is pid 1 of its own pid, mount, uts and ipc namespaces. It prepares its root file system, then
starts processes on request, reaps every process that exits in it and reports the exits of those it was asked to start.
It runs as long as the socket to the service is open. When it exits for any reason, the kernel kills every process
inside, so a crash leaks nothing but cgroups.

A cgroup is created only for a limit or to freeze: joining one costs milliseconds on a quiet machine (the kernel waits
for a grace period), and stats come from /proc as well.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from typing import Any

import attrs

from hcs_emulator.service.silo import channel, stats
from hcs_emulator.service.silo.bind_mounts import Bind, open_tree
from hcs_emulator.service.silo.cgroup import Cgroup
from hcs_emulator.service.silo.channel import Channel, ClosedError, Reply
from hcs_emulator.service.silo.limits import Limits
from hcs_emulator.service.silo.process import (
    E_FAIL,
    E_FILE_NOT_FOUND,
    E_INVALID_ARGUMENT,
    STATUS_COMMITMENT_LIMIT,
    TERMINATED,
    LaunchError,
    SiloProcess,
    launch_error,
    request_shutdown,
    windows_exit_code,
)
from hcs_emulator.service.silo.program import reaped, start_program
from hcs_emulator.service.silo.spawn_request import SpawnRequest

__all__ = ["Bind", "LaunchError", "Silo", "SiloProcess", "SiloSettings"]

_START_TIMEOUT = 20.0

_STREAM_FLAGS = {"stdin": channel.STDIN, "stdout": channel.STDOUT, "stderr": channel.STDERR}


@attrs.define
class SiloSettings:
    id: str
    hostname: str = ""
    root: str | None = None  # a directory; None: a private root over the host's programs, read-only
    binds: list[Bind] = attrs.Factory(list)
    memory_bytes: int | None = None
    cpu_count: int | None = None
    cpu_maximum: int | None = None  # hundredths of a percent of all processors, 1..10000
    cpu_weight: int | None = None  # 1..10000, default 100
    process_limit: int | None = None
    instance: str = "default"  # names the cgroup subtree


class Silo:
    """A running silo. `exited` is done when it and every process in it have exited."""

    def __init__(self, settings: SiloSettings) -> None:
        self.settings = settings
        self.pid = 0
        self._alive = False  # not reaped yet, so the pid is valid
        self.exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.started_at = time.time()
        self.processes: dict[int, SiloProcess] = {}  # running processes that `spawn` started, by pid
        self._serials: dict[int, SiloProcess] = {}
        self._early_exits: dict[int, Reply | None] = {}  # of processes that exit before `spawn` returns, by serial
        self._ready: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._channel: Channel
        self._limits = Limits(
            settings.memory_bytes, settings.cpu_count, settings.cpu_maximum, settings.cpu_weight, settings.process_limit
        )
        self._cgroup: Cgroup | None = None
        self._stats = stats.StatsCollector()
        self._hello: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    @classmethod
    async def start(cls, settings: SiloSettings) -> Silo:
        """Start a silo; raises LaunchError."""
        if settings.root is not None and not os.path.isdir(settings.root):
            raise LaunchError(E_FILE_NOT_FOUND, f"the root file system '{settings.root}' is not a directory")
        silo = cls(settings)
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                await silo._launch()
                if silo._limits:
                    await silo._make_cgroup()
                for bind in settings.binds:
                    await silo.add_bind(bind)
        except TimeoutError:
            await silo.terminate()
            message = f"the silo of '{settings.id}' did not come up in {_START_TIMEOUT:.0f} s"
            raise LaunchError(E_FAIL, message) from None
        except BaseException:
            await silo.terminate()
            raise
        return silo

    # -- processes

    async def spawn(self, parameters: Mapping[str, Any]) -> SiloProcess:
        """Start a process from HCS process parameters; raises LaunchError."""
        request = SpawnRequest(parameters, self.settings.hostname or self.settings.id)
        serial = self._channel.next_serial()
        given: list[int] = []  # the process's ends of the pipes
        kept: dict[str, int] = {}  # our ends
        flags = channel.CONSOLE if request.console else 0
        self._early_exits[serial] = None
        try:
            if not request.console:
                for name in request.pipes:
                    reader, writer = os.pipe()
                    theirs, kept[name] = (reader, writer) if name == "stdin" else (writer, reader)
                    given.append(theirs)
                    flags |= _STREAM_FLAGS[name]
            reply = await self._channel.call(
                channel.SPAWN,
                serial,
                flags=flags,
                size=request.console_size,
                counts=request.counts,
                strings=request.strings,
                descriptors=given,
            )
            if reply.errno:
                raise launch_error(reply, request.programs[0], request.directory, request.user)
        except ClosedError as error:
            _close(kept.values())
            raise LaunchError(E_FAIL, str(error)) from error
        except BaseException:
            _close(kept.values())
            raise
        finally:
            _close(given)
            early_exit = self._early_exits.pop(serial)
        process = self._adopt(serial, reply, request, kept)
        if early_exit is not None:
            self._on_event(early_exit)
        elif self._channel.closed and not self._alive:
            self._mark_processes_lost()
        return process

    def _adopt(self, serial: int, reply: Reply, request: SpawnRequest, kept: dict[str, int]) -> SiloProcess:
        process = SiloProcess(reply.pid, lambda number: self._signal(serial, number), request.console)
        if request.console:
            pipes = request.pipes
            process.attach_console(reply.descriptors[0], stdin="stdin" in pipes, stdout="stdout" in pipes)
        process.stdin = kept.get("stdin", process.stdin)
        process.stdout = kept.get("stdout", process.stdout)
        process.stderr = kept.get("stderr")
        self._serials[serial] = process
        self.processes[reply.pid] = process
        return process

    def _signal(self, serial: int, number: int) -> bool:
        if serial not in self._serials or self._channel.closed:
            return False
        try:
            self._channel.post(channel.SIGNAL, serial, number=number)
        except BlockingIOError:
            asyncio.get_running_loop().call_later(0.001, self._signal, serial, number)
        except ClosedError:
            return False
        return True

    # -- shutdown and terminate

    async def shutdown(self, timeout: float) -> bool:
        """Request every process to exit, wait for them, then terminate the silo. True if no process had to be killed.
        """
        await self.thaw()
        await request_shutdown(self.processes.values(), timeout)
        graceful = not self.processes
        await self.terminate()
        return graceful

    async def terminate(self) -> None:
        """Kill every process at once, and wait until all have exited."""
        if self._cgroup is not None:
            await self._cgroup.thaw()
        if hasattr(self, "_channel"):
            self._channel.close()
        if self._alive:
            os.kill(self.pid, signal.SIGKILL)
        if self.pid:
            await asyncio.shield(self.exited)
        elif not self.exited.done():
            self.exited.set_result(None)

    # -- stats and limits

    @property
    def oom_count(self) -> int:
        """How often the memory limit was breached."""
        return self._cgroup.oom_count if self._cgroup is not None else 0

    @property
    def enforced(self) -> dict[str, bool]:
        """For each limit that is set: whether the host enforces it."""
        return self._cgroup.enforced if self._cgroup is not None else {}

    def statistics(self) -> dict[str, Any]:
        """HCS's Statistics property."""
        return self._stats.statistics(self.pid if self._alive else 0, self.started_at, self._cgroup)

    def process_list(self) -> list[dict[str, Any]]:
        """HCS's ProcessList property."""
        return stats.process_list(self.pid) if self._alive else []  # once reaped, the pid may be reused

    async def set_limits(self, **limits: int | None) -> dict[str, bool]:
        """Change limits by SiloSettings' names (None removes one); the others stay. Returns `enforced`."""
        self._limits = self._limits.changed(**limits)
        if self._cgroup is not None:
            await self._cgroup.apply(self._limits)
        elif self._limits:
            await self._make_cgroup()
        return self.enforced

    def set_affinity(self, processors: set[int]) -> None:
        """Restrict every process, present and future, to these processors of the host."""
        for pid in [self.pid, *stats.descendants(self.pid)] if self._alive else []:
            try:
                threads = os.listdir(f"/proc/{pid}/task")
                for thread in threads:
                    os.sched_setaffinity(int(thread), processors)
            except (FileNotFoundError, ProcessLookupError):  # it has just exited
                continue

    async def freeze(self) -> bool:
        """Freeze every process; False if the host has no freezer."""
        if self._cgroup is None:
            self._cgroup = Cgroup(self.settings.instance, self.settings.id)
        descriptor = await self._cgroup.freeze(lambda: stats.descendants(self.pid))
        if descriptor is None:
            return False
        # cgroup version 1 keeps even killed processes frozen: the silo thaws them if the service dies meanwhile.
        try:
            self._channel.post(channel.THAW, 0, descriptors=[descriptor])
        except ClosedError:
            return False
        finally:
            os.close(descriptor)
        return True

    async def thaw(self) -> None:
        if self._cgroup is not None:
            await self._cgroup.thaw()

    async def _make_cgroup(self) -> None:
        self._cgroup = self._cgroup or Cgroup(self.settings.instance, self.settings.id)
        await self._cgroup.apply(self._limits)
        await self._cgroup.adopt(lambda: [self.pid, *stats.descendants(self.pid)])

    # -- binds

    async def add_bind(self, bind: Bind) -> None:
        """Attach a directory or file of the host in the silo; raises LaunchError."""
        try:
            tree = open_tree(bind.source)
        except OSError as error:
            raise LaunchError(
                E_FILE_NOT_FOUND, f"the mapped directory's host path '{bind.source}' cannot be opened: {error.strerror}"
            ) from error
        try:
            reply = await self._channel.call(
                channel.BIND,
                self._channel.next_serial(),
                flags=channel.READ_ONLY if bind.read_only else 0,
                strings=[bind.target],
                descriptors=[tree],
            )
        except ClosedError as error:
            raise LaunchError(E_FAIL, str(error)) from error
        finally:
            os.close(tree)
        if reply.errno:
            raise LaunchError(
                E_INVALID_ARGUMENT, f"'{bind.source}' cannot be mapped to '{bind.target}': {os.strerror(reply.errno)}"
            )

    async def remove_bind(self, target: str) -> None:
        """Undo add_bind; raises LaunchError."""
        try:
            reply = await self._channel.call(channel.UNBIND, self._channel.next_serial(), strings=[target])
        except ClosedError as error:
            raise LaunchError(E_FAIL, str(error)) from error
        if reply.errno:
            raise LaunchError(E_INVALID_ARGUMENT, f"nothing is mapped to '{target}': {os.strerror(reply.errno)}")

    # -- the silo program

    async def _launch(self) -> None:
        ours, theirs = channel.pair()
        self._channel = Channel(ours, self._on_event, self._on_hangup)
        try:
            launcher = start_program(self.settings.hostname or self.settings.id, self.settings.root or "", theirs)
        finally:
            theirs.close()
        # The program creates the namespaces, leaves their pid 1 as a child of this process, reports its pid and exits.
        hello, _ = await asyncio.gather(self._hello, reaped(launcher))
        if hello.errno:
            raise LaunchError(E_FAIL, f"the silo's {hello.stage} could not be created: {os.strerror(hello.errno)}")
        self.pid = hello.number
        self._alive = True
        asyncio.get_running_loop().create_task(self._watch(self.pid))
        ready = await self._ready
        if ready.errno:
            raise LaunchError(E_FAIL, f"the silo's {ready.stage} could not be prepared: {os.strerror(ready.errno)}")

    async def _watch(self, pid: int) -> None:
        await reaped(pid)
        self._alive = False
        self._channel.close()
        self._mark_processes_lost()
        if self._cgroup is not None:
            await self._cgroup.remove()
        if not self.exited.done():
            self.exited.set_result(None)

    def _mark_processes_lost(self) -> None:
        for process in self._serials.values():
            process.finish(TERMINATED)
        self._serials.clear()
        self.processes.clear()

    def _on_event(self, reply: Reply) -> None:
        if reply.kind == channel.HELLO and not self._hello.done():
            self._hello.set_result(reply)
        elif reply.kind == channel.READY and not self._ready.done():
            self._ready.set_result(reply)
        elif reply.kind == channel.EXITED and reply.serial in self._early_exits:
            self._early_exits[reply.serial] = reply
        elif reply.kind == channel.EXITED:
            process = self._serials.pop(reply.serial, None)
            if process is not None:
                self.processes.pop(process.pid, None)
                self._stats.record_peak(reply.peak_bytes)
                process.finish(self._exit_code(process, reply))
        elif reply.kind == channel.DONE:
            # The caller of spawn was cancelled: no one else will close or stop the process.
            reply.close()
            try:
                self._channel.post(channel.SIGNAL, reply.serial, number=signal.SIGKILL)
            except (BlockingIOError, ClosedError):
                pass

    def _exit_code(self, process: SiloProcess, reply: Reply) -> int:
        code = windows_exit_code(reply.number, reply.exit_code)
        if code == TERMINATED and not process.killed and self._cgroup is not None and self._cgroup.count_breaches():
            return STATUS_COMMITMENT_LIMIT
        return code

    def _on_hangup(self) -> None:
        for future in (self._hello, self._ready):
            if not future.done():
                future.set_exception(LaunchError(E_FAIL, "the silo exited while it was starting"))
                future.exception()  # marks it as retrieved: this one may have no waiter


def _close(descriptors: Any) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
