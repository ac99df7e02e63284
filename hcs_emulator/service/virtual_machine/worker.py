"""The host's end of a VM worker: its process, the channel to it, and its stats.

Messages on the channel are JSON lines. The host sends {"id": n, "request": …}, the worker answers {"id": n} or {"id":
n, "error": …}. By itself the worker sends {"silo": pid} for each new silo, {"guest_report": …} for each answered
request of the bridge, {"guest_fault": id} for each fault of the guest that triggered, {"kill_client": pid} before it
sends an answer after which a fault kills the client, and {"shut_down": true} right before it exits because its guest
shuts down.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hcs_emulator.service.silo import stats

# When a hundred VMs start at once, each of them takes long. Shims wait two minutes for the guest after that.
START_TIMEOUT = 120.0
ANSWER_TIMEOUT = 30.0
SILO_TIMEOUT = 10.0
LONGEST_LINE = 64 << 20


# Receives the worker's pid and a report for every request that the guest has answered.
GuestReport = Callable[[int, dict[str, Any]], None]


class WorkerError(Exception):
    """The worker did not start, or exited during a request."""


class Worker:
    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_guest_report: GuestReport,
    ) -> None:
        self.pid = process.pid
        self.exited = asyncio.Event()
        self.shut_down = False
        self.started = time.time()
        self._process = process
        self._writer = writer
        self._on_guest_report = on_guest_report
        self.on_guest_fault: Callable[[int], None] = lambda fault: None
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._silos: list[int] = []
        #: Processes, as descriptors, that a fault kills. The worker does it, unless they terminate the VM first.
        self._clients_to_kill: list[int] = []
        self._tasks = [asyncio.ensure_future(self._read(reader)), asyncio.ensure_future(self._reap())]

    @classmethod
    async def start(
        cls, settings: dict[str, Any], on_guest_report: GuestReport, program: str = "hcs_emulator.vm"
    ) -> Worker:
        """`program` is the Python module of the worker."""
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", program, str(theirs.fileno()), env=_environment(),
                stdin=asyncio.subprocess.DEVNULL, pass_fds=(theirs.fileno(),), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            ours.close()
            raise WorkerError(f"the VM worker cannot be started: {error}") from error
        finally:
            theirs.close()
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=LONGEST_LINE)
        worker = cls(process, reader, writer, on_guest_report)
        try:
            await worker.request("start", timeout=START_TIMEOUT, settings=settings)
        except BaseException:
            await worker.kill()
            raise
        return worker

    async def request(self, name: str, *, timeout: float = ANSWER_TIMEOUT, **details: Any) -> dict[str, Any]:
        if self.exited.is_set():
            raise WorkerError("the VM worker has exited")
        number = next(self._ids)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(json.dumps({"id": number, "request": name, **details}).encode() + b"\n")
        try:
            response: dict[str, Any] = await asyncio.wait_for(future, timeout)
        except TimeoutError:
            raise WorkerError(f"the VM worker did not answer {name} in {timeout:.0f} s") from None
        finally:
            self._waiting.pop(number, None)
        if "error" in response:
            raise WorkerError(response["error"])
        return response

    def signal(self, number: int) -> None:
        if not self.exited.is_set():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    async def kill(self) -> None:
        """Kill the worker and with it every process inside; returns when all have exited."""
        self.signal(signal.SIGKILL)
        await self.exited.wait()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if message.get("shut_down"):
                    self.shut_down = True
                    continue
                if "guest_report" in message:
                    self._on_guest_report(self.pid, message["guest_report"])
                    continue
                if "guest_fault" in message:
                    self.on_guest_fault(message["guest_fault"])
                    continue
                if "kill_client" in message:
                    self._watch_client(message["kill_client"])
                    continue
                if "silo" in message:
                    self._watch_silo(message["silo"])
                    continue
                future = self._waiting.get(message["id"])
                if future is not None and not future.done():
                    future.set_result(message)
        except (ConnectionError, ValueError):
            pass

    def _watch_silo(self, pid: int) -> None:
        """Remember a silo of the worker. It is killed with the worker, and the VM has exited only when the silo has."""
        try:
            self._silos.append(os.pidfd_open(pid))
        except OSError:  # it has already exited
            pass
        self._silos = [silo for silo in self._silos if not _has_exited(silo)]

    def _watch_client(self, pid: int) -> None:
        try:
            self._clients_to_kill.append(os.pidfd_open(pid))
        except OSError:  # it has already exited
            pass

    async def _reap(self) -> None:
        await self._process.wait()
        await self._tasks[0]
        for client in self._clients_to_kill:
            await _kill_and_wait(client)
        for silo in self._silos:
            await _kill_and_wait(silo)
        self._writer.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(WorkerError("the VM worker has exited"))
        self.exited.set()

    # stats

    def _process_tree(self) -> list[int]:
        return [self.pid, *stats.descendants(self.pid)]

    def statistics(self) -> dict[str, Any]:
        """HCS's Statistics property, for the worker and all its descendants."""
        ticks = os.sysconf("SC_CLK_TCK")
        user = kernel = 0
        for pid in self._process_tree():
            times = _stat(pid)[11:15]  # own and reaped children's, user and kernel
            user += int(times[0]) + int(times[2]) if times else 0
            kernel += int(times[1]) + int(times[3]) if times else 0
        user, kernel = (value * 10_000_000 // ticks for value in (user, kernel))
        now = time.time()
        return {
            "Timestamp": stats.timestamp(now),
            "ContainerStartTime": stats.timestamp(self.started),
            "Uptime100ns": int((now - self.started) * 10_000_000),
            "Processor": {"TotalRuntime100ns": user + kernel, "RuntimeUser100ns": user, "RuntimeKernel100ns": kernel},
        }

    def memory_bytes(self) -> int:
        page = os.sysconf("SC_PAGE_SIZE")
        return sum(int(fields[21]) * page for pid in self._process_tree() if (fields := _stat(pid)))


def _environment() -> dict[str, str]:
    """The service's environment, with a PYTHONPATH that has this package."""
    root = str(Path(__file__).resolve().parents[3])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def _has_exited(pidfd: int) -> bool:
    """True, with the descriptor closed, when the process has exited."""
    if not select.select([pidfd], [], [], 0)[0]:
        return False
    os.close(pidfd)
    return True


async def _kill_and_wait(pidfd: int) -> None:
    """Kill a process and wait for its exit."""
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        pass
    loop, exited = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, exited.set)
    try:
        await asyncio.wait_for(exited.wait(), SILO_TIMEOUT)
    except TimeoutError:
        print("a process that was killed with a VM does not exit", file=sys.stderr, flush=True)
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def _stat(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
