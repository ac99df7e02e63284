"""The messages between a shim and the keeper of a job: packets over a SOCK_SEQPACKET pair, with descriptors aboard.

`hcs_emulator/native/silo/protocol.h` lists the same fields in the same order: the keeper is the emulator's silo
program. Requests are answered in order, one DONE each (SIGNAL has no answer); EXITED comes by itself, and never
before the DONE of its spawn. One thread reads.
"""

from __future__ import annotations

import _socket
import os
from _struct import Struct
from _thread import allocate_lock, start_new_thread

from shim.platform.job_types import BROKEN_PIPE, TOO_LONG, JobError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Sequence

SPAWN, SIGNAL, BIND, UNBIND = 1, 2, 3, 4
READY, DONE, EXITED = 2, 3, 4
# Flags of SPAWN: which descriptors ride along, and whether a console is wanted. Flag of BIND.
STDIN, STDOUT, STDERR, CONSOLE = 1, 2, 4, 8
READ_ONLY = 1
AT_USER, AT_DIRECTORY = 8, 9

# The keeper answers at once; on a machine that is in trouble nobody waits longer.
PATIENCE = 30.0
_REQUEST = Struct("<IIIIHHIII")  # kind, serial, flags, number, height, width, programs, arguments, variables
_REPLY = Struct("<IIiIIII")  # kind, serial, errno, stage, wait status, exit code, peak memory in KiB
_CREDENTIALS = Struct("iII")
_INT = Struct("i")
_LARGEST = 1 << 20
_ROOM = _socket.CMSG_SPACE(4 * 4) + _socket.CMSG_SPACE(_CREDENTIALS.size)


class Reply:
    """`number` is a wait status, `pid` the process that a DONE is about."""

    __slots__ = ("descriptors", "errno", "exit_code", "kind", "number", "peak", "pid", "serial", "stage")

    def __init__(self, data: bytes, pid: int, descriptors: list[int]) -> None:
        self.kind, self.serial, self.errno, self.stage, self.number, self.exit_code, peak = _REPLY.unpack(data)
        self.peak = peak * 1024
        self.pid = pid
        self.descriptors = descriptors


class Channel:
    """`on_exit` takes every EXITED, `on_end` is called once when the keeper has gone; both in the reading thread."""

    def __init__(self, on_exit: Callable[[Reply], None], on_end: Callable[[], None]) -> None:
        self._socket, self.theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, 1)
        self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, 2 * _LARGEST)
        self._on_exit = on_exit
        self._on_end = on_end
        self._lock = allocate_lock()
        self._waiting: dict[int, tuple[list[Reply], LockType]] = {}
        self._serial = 0
        self._closed = False

    def listen(self) -> Reply:
        """The keeper runs and has its end; wait for its READY."""

        def begin() -> None:
            self.theirs.close()
            start_new_thread(self._read, ())

        return self._wait(0, begin)

    def call(self, kind: int, **fields: object) -> Reply:
        """Send a request and wait for its answer. Raises JobError if the keeper is gone."""
        with self._lock:
            self._serial += 1
            serial = self._serial
        return self._wait(serial, lambda: self.send(kind, serial, **fields))  # type: ignore[arg-type]

    def _wait(self, serial: int, ask: Callable[[], None]) -> Reply:
        """For the answer of this number; 0 is the keeper's READY."""
        done = allocate_lock()
        done.acquire()
        answers: list[Reply] = []
        with self._lock:
            if self._closed:
                raise _gone()
            self._waiting[serial] = (answers, done)
        try:
            ask()
            if not done.acquire(True, PATIENCE) or not answers:
                raise _gone()
            return answers[0]
        finally:
            with self._lock:
                self._waiting.pop(serial, None)

    def send(
        self,
        kind: int,
        serial: int,
        *,
        flags: int = 0,
        number: int = 0,
        size: tuple[int, int] = (0, 0),
        counts: tuple[int, int, int] = (0, 0, 0),
        strings: Sequence[str] = (),
        descriptors: Sequence[int] = (),
    ) -> None:
        body = b"".join(os.fsencode(text) + b"\0" for text in strings)
        if len(body) > _LARGEST - _REQUEST.size:
            raise JobError(TOO_LONG, "the command line and the environment are too long for a process")
        packet = _REQUEST.pack(kind, serial, flags, number, *size, *counts) + body
        rights = b"".join(_INT.pack(descriptor) for descriptor in descriptors)
        ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)] if rights else []
        try:
            self._socket.sendmsg([packet], ancillary)
        except OSError as error:
            raise _gone() from error

    def close(self) -> None:
        """Hang up: the keeper ends all that it keeps, and itself."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._socket.shutdown(_socket.SHUT_RDWR)  # wakes the reading thread, which closes it

    # -- the thread

    def _read(self) -> None:
        while (reply := self._receive()) is not None:
            if reply.kind == EXITED:
                self._on_exit(reply)
                continue
            with self._lock:
                waiting = self._waiting.pop(reply.serial, None)
            if waiting is None:  # whoever asked has given up
                for descriptor in reply.descriptors:
                    os.close(descriptor)
                continue
            waiting[0].append(reply)
            waiting[1].release()
        with self._lock:
            self._closed = True
            left, self._waiting = self._waiting, {}
        for _, done in left.values():
            done.release()
        self._socket.close()
        self._on_end()

    def _receive(self) -> Reply | None:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(_REPLY.size, _ROOM, _socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return None
        pid, descriptors = 0, []
        for level, kind, content in ancillary:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                descriptors = [_INT.unpack_from(content, at)[0] for at in range(0, len(content) - 3, 4)]
            elif level == _socket.SOL_SOCKET and kind == _socket.SCM_CREDENTIALS:
                pid = _CREDENTIALS.unpack(content)[0]
        return Reply(data, pid, descriptors) if data else None


def _gone() -> JobError:
    return JobError(BROKEN_PIPE, "the keeper of the container's processes has ended, and they with it")
