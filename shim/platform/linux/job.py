"""A job on the emulator's host: a keeper process, cgroups and a mount namespace.

The keeper is the emulator's silo program in job mode (`hcs_emulator/native/silo/job.c`): it starts host processes on
request, is their subreaper, and kills them when this process exits or closes the channel. Files are bound in its mount
namespace, where no other process sees them, and disappear with it. The cgroups enforce the limits, and through them
`delete` finds the processes if shim and keeper were both killed.
"""

from __future__ import annotations

import os
import signal
import time
from _thread import allocate_lock

from shim.platform import command_line
from shim.platform.job_types import ALREADY_EXISTS, DIRECTORY, GENERAL_FAILURE, INVALID_PARAMETER, JobError
from shim.platform.linux import job_channel, job_mounts, job_process, job_stats, job_users
from shim.platform.linux.job_cgroups import Groups
from shim.platform.linux.job_channel import Channel
from shim.threads import run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from shim.platform.job_types import Identity, Launch, Limits
    from shim.platform.linux.job_channel import Reply

    Document = dict[str, Any]

# The first Windows with the bind filter that jobs need.
FIRST_BUILD_WITH_BINDS = 19041
REMOVAL_SECONDS = 10.0
_POLL_SECONDS = 0.01
_SOCKET, _COMMANDS = 3, 4  # the keeper's descriptors for its socket and the emulated commands
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "ComSpec": r"C:\Windows\System32\cmd.exe",
    "OS": "Windows_NT",
    "SystemDrive": "C:",
    "SystemRoot": r"C:\Windows",
    "windir": r"C:\Windows",
    "TEMP": r"C:\tmp",
}


class Job:
    def __init__(self, id: str, build: int) -> None:
        self.can_bind = build >= FIRST_BUILD_WITH_BINDS
        self.unenforced: list[str] = []
        self.memory_breached = False
        self._user = ""
        self._account = "SYSTEM"
        self._groups = Groups(id)
        if self._groups.is_taken():
            raise JobError(ALREADY_EXISTS, f"there is a job of container {id!r} already")
        self._stats = job_stats.JobStats()
        self._lock = allocate_lock()
        self._processes: dict[int, job_process.JobProcess] = {}
        self._early: dict[int, Reply] = {}  # exits of processes that are not registered yet
        self._lost: list[Callable[[], object]] = []
        self._closing = False
        self._keeper_exited = allocate_lock()  # held while the keeper runs
        self._keeper_exited.acquire()
        self._channel = Channel(self._on_exit, self._on_channel_closed)
        try:
            self._keeper = _start_keeper(self._channel.theirs.fileno(), self.can_bind)
        except BaseException:
            self._channel.theirs.close()
            self._channel.close()
            raise
        try:
            ready = self._channel.listen()
            if ready.errno:
                reason = os.strerror(ready.errno)
                message = f"the host's files cannot be mounted for a job: {reason}; this needs root"
                raise JobError(GENERAL_FAILURE, message)
            self._groups.add(self._keeper)
        except BaseException:
            self.close()
            raise

    # Files, limits, identity.

    def bind(self, source: str, target: str, read_only: bool) -> None:
        tree = job_mounts.tree_of(source)
        try:
            flags = job_channel.READ_ONLY if read_only else 0
            reply = self._channel.call(job_channel.BIND, flags=flags, strings=[target], descriptors=[tree])
        finally:
            os.close(tree)
        if reply.errno:
            raise JobError(INVALID_PARAMETER, f"{source!r} cannot be bound at {target!r}: {os.strerror(reply.errno)}")

    def set_limits(self, limits: Limits) -> None:
        self.unenforced = self._groups.set_limits(limits, [self._keeper, *job_stats.descendants(self._keeper)])

    def set_affinity(self, processors: Sequence[tuple[int, int]]) -> None:
        """Processor groups have 64 processors."""
        processor_ids = {64 * group + bit for mask, group in processors for bit in range(64) if mask >> bit & 1}
        if not processor_ids <= os.sched_getaffinity(0) or not processor_ids:
            raise JobError(INVALID_PARAMETER, "the machine has no such processors")
        for pid in [self._keeper, *job_stats.descendants(self._keeper)]:
            try:
                for thread in os.listdir(f"/proc/{pid}/task"):
                    os.sched_setaffinity(int(thread), processor_ids)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just exited

    def log_on(self, identity: Identity) -> None:
        self._user = job_users.linux_user(identity)
        self._account = identity.user or identity.name or "SYSTEM"

    def environment(self) -> dict[str, str]:
        return {**_ENVIRONMENT, "COMPUTERNAME": os.uname().nodename.upper(), "USERNAME": self._account}

    # Processes.

    def spawn(self, launch: Launch) -> job_process.JobProcess:
        line = launch.command_line
        if not os.path.isdir(job_mounts.posix(launch.directory)):
            # As CreateProcess: in the view of its caller, where the job's bind mounts do not exist.
            why = f"{launch.directory!r} is no directory of the host"
            raise JobError(DIRECTORY, f"{launch.program!r} cannot be started: {why}")
        programs = [launch.application] if launch.application else command_line.programs(line)
        arguments, tail = command_line.arguments(line), command_line.tail(line)
        variables = [f"{name}={value}" for name, value in launch.environment.items()]
        theirs: list[int] = []  # the process's ends
        ours: dict[str, int] = {}
        flags = job_channel.CONSOLE if launch.console else 0
        try:
            for flag, name in ((1, "stdin"), (2, "stdout"), (4, "stderr")):
                if getattr(launch, name) and not launch.console:
                    reading, writing = os.pipe2(os.O_CLOEXEC)
                    its, ours[name] = (reading, writing) if name == "stdin" else (writing, reading)
                    theirs.append(its)
                    flags |= flag
            reply = self._channel.call(
                job_channel.SPAWN,
                flags=flags,
                size=launch.size,
                counts=(len(programs), len(arguments), len(variables)),
                strings=[
                    job_mounts.posix(launch.directory), self._user, tail,
                    *programs, *arguments, *variables,
                ],
                descriptors=theirs,
            )  # fmt: skip
            if reply.errno:
                raise job_process.launch_error(reply, launch)
        except BaseException:
            for descriptor in ours.values():
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        return self._register(reply, launch, ours)

    def _register(self, reply: Reply, launch: Launch, streams: dict[str, int]) -> job_process.JobProcess:
        serial, console = reply.serial, None
        if launch.console and reply.descriptors:
            console = reply.descriptors[0]
            streams = {name: os.dup(console) for name in ("stdin", "stdout") if getattr(launch, name)}
        process = job_process.JobProcess(reply.pid, lambda number: self._signal(serial, number), streams, console)
        with self._lock:
            early = self._early.pop(serial, None)
            self._processes[serial] = process
        if early is not None:
            self._on_exit(early)
        return process

    def _signal(self, serial: int, number: int) -> bool:
        try:
            self._channel.send(job_channel.SIGNAL, serial, number=number)
        except JobError:
            return False
        return True

    def _on_exit(self, reply: Reply) -> None:
        with self._lock:
            process = self._processes.pop(reply.serial, None)
            if process is None:
                self._early[reply.serial] = reply
                return
        self._stats.record_peak(reply.peak)
        code = job_process.exit_code(reply.number, reply.exit_code)
        if self._groups.new_oom_kills():
            self.memory_breached = True
            if code == job_process.TERMINATED and not process.killed:
                code = job_process.COMMITMENT_LIMIT
        process.finish(code)

    # Statistics.

    def statistics(self) -> Document:
        return self._stats.statistics(self._keeper, self._groups.memory())

    def process_list(self) -> list[Document]:
        return job_stats.process_list(self._keeper)

    # Termination.

    def signal_all(self, event: str) -> int:
        pids = [entry["ProcessId"] for entry in self.process_list()]
        for pid in pids:
            try:
                os.kill(pid, job_process.SIGNALS[event])
            except ProcessLookupError:
                pass
        return len(pids)

    def wait_empty(self, timeout: float) -> bool:
        end = time.monotonic() + timeout
        while self.process_list():
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def terminate(self) -> None:
        self._closing = True
        self._channel.close()
        if not self._keeper_exited.acquire(True, REMOVAL_SECONDS):
            raise JobError(GENERAL_FAILURE, "processes of the container do not exit")
        self._keeper_exited.release()

    def on_lost(self, callback: Callable[[], object]) -> None:
        self._lost.append(callback)

    def close(self) -> None:
        self._closing = True
        self._channel.close()
        self._keeper_exited.acquire(True, REMOVAL_SECONDS)
        try:
            self._groups.remove(REMOVAL_SECONDS)
        except OSError:
            pass  # `delete` finds it in the ledger

    def _on_channel_closed(self) -> None:
        """Either side has closed the channel: wait for the keeper, which exits after its last process."""
        _, status = os.waitpid(self._keeper, 0)
        if os.WIFSIGNALED(status):
            # The keeper was killed, but not its descendants: they are in the cgroup.
            try:
                self._groups.remove(REMOVAL_SECONDS)
            except OSError:
                pass
        with self._lock:
            left, self._processes = list(self._processes.values()), {}
        for process in left:
            process.finish(job_process.TERMINATED)
        self._keeper_exited.release()
        if not self._closing:
            for callback in self._lost:
                run_soon(callback)


def _start_keeper(channel: int, binds: bool) -> int:
    import fcntl

    from shim.platform.hcs_library import hcs_library

    directory = os.path.dirname(hcs_library("computecore"))
    try:
        commands = os.open(f"{directory}/cmd", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        message = f"the emulator's programs are not built ({error.filename} is missing): run make native"
        raise JobError(GENERAL_FAILURE, message) from error
    # Duplicates above the target descriptors, so that dup2 does not overwrite a source.
    sources = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _COMMANDS + 1) for descriptor in (channel, commands)]
    try:
        return os.posix_spawn(
            f"{directory}/silo",
            ["silo", "--job", "binds" if binds else "plain"],
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, sources[0], _SOCKET),
                (os.POSIX_SPAWN_DUP2, sources[1], _COMMANDS),
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
            ],
            setsid=True,
            setsigdef=range(1, signal.SIGSYS + 1),
            setsigmask=(),
        )
    finally:
        for descriptor in (commands, *sources):
            os.close(descriptor)
