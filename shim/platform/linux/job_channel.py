"""The messages between a shim and the keeper of a job: packets over a SOCK_SEQPACKET pair, with descriptors.

`hcs_emulator/native/silo/protocol.h` lists the same fields in the same order: the keeper is the emulator's silo
program. Requests are answered in order, one DONE each (SIGNAL has no response); EXITED is a notification, and
never comes before the DONE of its spawn. One thread reads.
"""

from __future__ import annotations

import _socket
import os
from _struct import Struct
from _thread import allocate_lock

from shim.platform.job_types import BROKEN_PIPE, TOO_LONG, JobError
from shim.threads import run_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Sequence

SPAWN, SIGNAL, BIND, UNBIND = 1, 2, 3, 4
READY, DONE, EXITED = 2, 3, 4
# Flags of SPAWN: which descriptors the message has, and whether to create a console. Flag of BIND.
STDIN, STDOUT, STDERR, CONSOLE = 1, 2, 4, 8
READ_ONLY = 1
AT_USER, AT_DIRECTORY = 8, 9

# The keeper responds at once, except on an overloaded machine.
CALL_TIMEOUT = 30.0
_REQUEST = Struct("<IIIIHHIII")  # kind, serial, flags, number, height, width, programs, arguments, variables
_REPLY = Struct("<IIiIIII")  # kind, serial, errno, stage, wait status, exit code, peak memory in KiB
_CREDENTIALS = Struct("iII")
_INT = Struct("i")
_MAX_PACKET = 1 << 20
_ANCILLARY_SIZE = _socket.CMSG_SPACE(4 * 4) + _socket.CMSG_SPACE(_CREDENTIALS.size)


class Reply:
    """`number` is a wait status, `pid` the process that a DONE is about."""

    __slots__ = ("descriptors", "errno", "exit_code", "kind", "number", "peak", "pid", "serial", "stage")

    def __init__(self, data: bytes, pid: int, descriptors: list[int]) -> None:
        self.kind, self.serial, self.errno, self.stage, self.number, self.exit_code, peak = _REPLY.unpack(data)
        self.peak = peak * 1024
        self.pid = pid
        self.descriptors = descriptors


class Channel:
    """`on_exit` gets every EXITED, `on_end` is called once when the keeper has closed; both in the reading thread."""

    def __init__(self, on_exit: Callable[[Reply], None], on_end: Callable[[], None]) -> None:
        self._socket, self.theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, 1)
        self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, 2 * _MAX_PACKET)
        self._on_exit = on_exit
        self._on_end = on_end
        self._lock = allocate_lock()
        self._waiting: dict[int, tuple[list[Reply], LockType]] = {}
        self._serial = 0
        self._closed = False

    def listen(self) -> Reply:
        """The keeper has been started with its end: wait for READY."""

        def begin() -> None:
            self.theirs.close()
            run_soon(self._read)

        return self._wait(0, begin)

    def call(self, kind: int, **fields: object) -> Reply:
        """Send a request and wait for its response. Raises JobError if the keeper has exited."""
        with self._lock:
            self._serial += 1
            serial = self._serial
        return self._wait(serial, lambda: self.send(kind, serial, **fields))  # type: ignore[arg-type]

    def _wait(self, serial: int, send: Callable[[], None]) -> Reply:
        """Wait for the response with this serial; 0 is the keeper's READY."""
        done = allocate_lock()
        done.acquire()
        answers: list[Reply] = []
        with self._lock:
            if self._closed:
                raise _keeper_exited()
            self._waiting[serial] = (answers, done)
        try:
            send()
            if not done.acquire(True, CALL_TIMEOUT) or not answers:
                raise _keeper_exited()
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
        if len(body) > _MAX_PACKET - _REQUEST.size:
            raise JobError(TOO_LONG, "the command line and the environment are too long for a process")
        packet = _REQUEST.pack(kind, serial, flags, number, *size, *counts) + body
        rights = b"".join(_INT.pack(descriptor) for descriptor in descriptors)
        ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)] if rights else []
        try:
            self._socket.sendmsg([packet], ancillary)
        except OSError as error:
            raise _keeper_exited() from error

    def close(self) -> None:
        """Close the channel: the keeper kills its processes and exits."""
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
            if waiting is None:  # the caller has timed out
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
            data, ancillary, _, _ = self._socket.recvmsg(_REPLY.size, _ANCILLARY_SIZE, _socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return None
        pid, descriptors = 0, []
        for level, kind, content in ancillary:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                descriptors = [_INT.unpack_from(content, at)[0] for at in range(0, len(content) - 3, 4)]
            elif level == _socket.SOL_SOCKET and kind == _socket.SCM_CREDENTIALS:
                pid = _CREDENTIALS.unpack(content)[0]
        return Reply(data, pid, descriptors) if data else None


def _keeper_exited() -> JobError:
    return JobError(BROKEN_PIPE, "the keeper of the container's processes has exited, and they with it")
