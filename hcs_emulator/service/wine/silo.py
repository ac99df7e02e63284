"""A silo whose processes are Windows programs under Wine.

Wine's server knows its processes by their Linux pids and reads their memory, so they cannot be put into namespaces.
This silo is only a group of processes: they share the prefix with the host, and limits are accepted without being
enforced. Streams, consoles, 32-bit exit codes, signals, kill, stats (`processes`) and termination are real.

Each process is started by `wine-run.exe` (`native/wine/wine_run.c`), which reports its pid and its exit code.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hcs_emulator.service.silo.namespaces import Bind, SiloSettings
from hcs_emulator.service.silo.process import E_FAIL, TERMINATED, LaunchError, SiloProcess, request_shutdown
from hcs_emulator.service.silo.program import reaped
from hcs_emulator.service.silo.spawn_request import SpawnRequest
from hcs_emulator.service.wine.processes import MARK, Programs

if TYPE_CHECKING:
    from hcs_emulator.service.wine.loopback import Loopback

START_TIME = 30.0
_U32 = struct.Struct("<I")
_SIZE = struct.Struct("<HH")  # of a console: width, height
_COMMANDS = {signal.SIGKILL: b"K", signal.SIGINT: b"C"}  # everything else is Ctrl-Break


class WineHost:
    """What silos of Windows programs share: the prefix, the program that starts processes, and its connections."""

    def __init__(self, prefix: str, program: str, loopback: Loopback) -> None:
        self.prefix = prefix
        self.program = program
        self.loopback = loopback

    async def start(self, settings: SiloSettings) -> WineSilo:
        return WineSilo(self, settings)


class WineProcess(SiloProcess):
    """A process that wine-run.exe has started. The streams of its console, if it has one, are pipes."""

    def __init__(self, pid: int, send_signal: Callable[[int], bool]) -> None:
        super().__init__(pid, send_signal, False)
        #: The connection to wine-run.exe, if the process has a console.
        self.console_link: socket.socket | None = None

    def resize(self, height: int, width: int) -> None:
        if self.console_link is None:
            raise ValueError("the process has no console")
        self.console_link.send(b"R" + _SIZE.pack(width, height))


class WineSilo:
    """`exited` is done when the silo was terminated and every process in it has exited."""

    oom_count = 0

    def __init__(self, host: WineHost, settings: SiloSettings) -> None:
        self.settings = settings
        self.pid = 0
        self.exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.started_at = time.time()
        self.processes: dict[int, SiloProcess] = {}
        self.enforced: dict[str, bool] = {}
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._programs = Programs()

    async def spawn(self, parameters: Mapping[str, Any]) -> SiloProcess:
        """Start a process from HCS process parameters; raises LaunchError."""
        request = SpawnRequest(parameters, self.settings.hostname or self.settings.id)
        command = parameters.get("CommandLine") or " ".join(request.arguments)
        given: list[int] = []
        kept: dict[str, int] = {}
        connected: asyncio.Future[socket.socket] = self._loop.create_future()
        ticket = self._host.loopback.offer(lambda link: connected.set_result(link))
        try:
            actions: list[Any] = []
            for at, name in enumerate(("stdin", "stdout", "stderr")):
                if name in request.pipes:
                    reader, writer = os.pipe()
                    theirs, kept[name] = (reader, writer) if name == "stdin" else (writer, reader)
                    given.append(theirs)
                    actions.append((os.POSIX_SPAWN_DUP2, theirs, at))
                else:
                    actions.append((os.POSIX_SPAWN_OPEN, at, os.devnull, os.O_RDWR, 0))
            arguments = [str(self._host.loopback.port), self._host.loopback.secret, str(ticket)]
            mark = f"{os.getpid()}-{ticket}"
            runner = os.posix_spawnp(
                "wine",
                ["wine", self._host.program, *arguments],
                {**self._environment(), MARK: mark},
                file_actions=actions,
                setsigdef=range(1, signal.SIGSYS + 1),
                setsigmask=(),
                setpgroup=0,
            )
        except BaseException:
            self._host.loopback.withdraw(ticket)
            _close(kept.values())
            raise
        finally:
            _close(given)
        try:
            async with asyncio.timeout(START_TIME):
                link = await connected
                for text in (command, request.directory, _variables(request)):
                    data = text.encode("utf-16-le")
                    await self._loop.sock_sendall(link, _U32.pack(len(data)) + data)
                height, width = request.console_size if request.console else (0, 0)
                await self._loop.sock_sendall(link, _SIZE.pack(width, height))
                word, number = await self._line(link)
        except (TimeoutError, OSError, ValueError) as error:
            self._host.loopback.withdraw(ticket)
            _close(kept.values())
            os.killpg(runner, signal.SIGKILL)
            raise LaunchError(E_FAIL, f"Wine did not start the process: {error!r}") from None
        if word != "pid":
            _close(kept.values())
            link.close()
            raise LaunchError(0x80070000 | number & 0xFFFF, f"Windows cannot start '{command}' (error {number})")
        process = WineProcess(number, lambda signal_number: self._signal(link, process, signal_number))
        process.console_link = link if request.console else None
        process.stdin, process.stdout, process.stderr = (kept.get(name) for name in ("stdin", "stdout", "stderr"))
        self.processes[number] = process
        self._programs.add(mark, number, runner)
        self._host.loopback.run(self._watch(process, link, mark, runner))
        return process

    def _environment(self) -> dict[str, str]:
        """The environment of wine-run.exe, which adds the variables of the process."""
        needed = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return {**needed, "WINEPREFIX": self._host.prefix, "WINEDEBUG": "-all"}

    async def _line(self, link: socket.socket) -> tuple[str, int]:
        line = b""
        while not line.endswith(b"\n"):
            piece = await self._loop.sock_recv(link, 1)
            if not piece:
                raise ConnectionResetError("wine-run.exe exited without a report")
            line += piece
        word, number = line.split()
        return word.decode(), int(number)

    async def _watch(self, process: SiloProcess, link: socket.socket, mark: str, runner: int) -> None:
        try:
            _, code = await self._line(link)
        except (OSError, ValueError):
            code = TERMINATED
        await reaped(runner)
        link.close()
        self.processes.pop(process.pid, None)
        self._programs.remove(mark)
        process.finish(code)

    def _signal(self, link: socket.socket, process: SiloProcess, number: int) -> bool:
        if process.exited.done():
            return False
        try:
            link.send(_COMMANDS.get(signal.Signals(number), b"B"))
        except OSError:
            return False
        return True

    # -- shutdown and terminate

    async def shutdown(self, timeout: float) -> bool:
        await request_shutdown(self.processes.values(), timeout)
        graceful = not self.processes
        await self.terminate()
        return graceful

    async def terminate(self) -> None:
        waiting = [process.exited for process in self.processes.values()]
        for process in list(self.processes.values()):
            process.kill()
        if waiting:
            await asyncio.wait(waiting, timeout=10)
        if not self.exited.done():
            self.exited.set_result(None)

    # -- stats and limits

    def statistics(self) -> dict[str, Any]:
        return self._programs.statistics(self.started_at)

    def process_list(self) -> list[dict[str, Any]]:
        return self._programs.process_list()

    async def set_limits(self, **limits: int | None) -> None:
        self.enforced = {name: False for name, value in limits.items() if value is not None}

    def set_affinity(self, processors: Any) -> None:
        """Accepted without effect, like other limits."""

    async def freeze(self) -> None:
        raise LaunchError(E_FAIL, "processes under Wine cannot be paused")

    async def thaw(self) -> None:
        """Never frozen."""

    async def add_bind(self, bind: Bind) -> None:
        """No effect: the prefix is shared, and a mapped path is visible under its own path only."""

    async def remove_bind(self, target: str) -> None:
        """See add_bind."""


def _variables(request: SpawnRequest) -> str:
    """The variables of a process, each with NUL at its end. Wine has its own values of those that hold Linux paths."""
    kept = (entry for entry in request.environment if entry.partition("=")[0].upper() not in ("PATH", "HOME", "TEMP"))
    return "".join(f"{entry}\0" for entry in kept)


def _close(descriptors: Any) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
