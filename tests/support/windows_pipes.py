"""Named pipes of Windows in memory, as the module `_winapi`, for tests of shim/platform/windows on Linux.

They are as strict as Windows in two respects: a write that does not fit into the pipe's buffer stays pending until the
reader has read it, and an operation that is pending when its thread exits ends with ERROR_OPERATION_ABORTED, having
delivered a part.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

QUOTA = 64 << 10
POLL = 0.005
MODULES = ("pipe", "endpoint", "log_channel", "daemon", "files", "shared")

BROKEN_PIPE, BUSY, NO_DATA, ABORTED, INCOMPLETE = 109, 231, 232, 995, 996


def windows_error(code: int) -> OSError:
    """An OSError as Windows has it. The constructor takes `winerror` on Windows only."""
    error = OSError(22, f"error {code}")
    error.winerror = code  # type: ignore[attr-defined]
    return error


class Operation:
    """`_winapi.Overlapped`: a pending connect or write."""

    def __init__(self, pipe: Pipe, data: bytes | None) -> None:
        self.pipe, self.data, self.event = pipe, data, 0
        self.thread = threading.get_ident()
        self.code = INCOMPLETE

    def advance(self) -> None:
        """With the pipe's lock held: complete if possible."""
        if self.code != INCOMPLETE:
            return
        if self.pipe.failure:
            self.code, self.pipe.failure = self.pipe.failure, 0
        elif self.thread not in sys._current_frames():
            self.code = ABORTED
        elif self.data is None:
            self.code = 0 if self.pipe.connected else INCOMPLETE
        elif self.pipe.closed:
            self.code = BROKEN_PIPE
        else:
            space = QUOTA - len(self.pipe.content)
            self.pipe.content += self.data[:space]
            self.data = self.data[space:]
            self.code = INCOMPLETE if self.data else 0

    def GetOverlappedResult(self, wait: bool) -> tuple[int, int]:  # noqa: N802
        with self.pipe.changed:
            self.advance()
            while wait and self.code == INCOMPLETE:
                self.pipe.changed.wait(POLL)
                self.advance()
            if self.code not in (0, ABORTED, INCOMPLETE):
                raise windows_error(self.code)
            return len(self.data or b""), self.code

    def cancel(self) -> None:
        with self.pipe.changed:
            self.advance()
            if self.code == INCOMPLETE:
                self.code = ABORTED
                self.pipe.changed.notify_all()


class Pipe:
    """One instance: the server's handle; a test is the client."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.content = bytearray()
        self.connected = self.closed = False
        self.failure = 0  # the error with which the pending operation ends
        self.pending: Operation | None = None

    def connect(self) -> None:
        with self.changed:
            self.connected = True
            self.changed.notify_all()

    def read(self, size: int, timeout: float = 20.0) -> bytes:
        """Exactly so many bytes, or fewer after the timeout."""
        data = b""
        deadline = time.monotonic() + timeout
        while len(data) < size:
            with self.changed:
                while not self._has_content() and time.monotonic() < deadline:
                    self.changed.wait(POLL)
                if not self.content:
                    break
                piece = bytes(self.content[: size - len(data)])
                del self.content[: len(piece)]
                data += piece
                self.changed.notify_all()
        return data

    def _has_content(self) -> bool:
        if self.pending is not None:
            self.pending.advance()
        return bool(self.content)


class Winapi(types.ModuleType):
    """The module `_winapi`, as far as pipes need it. `fail` holds errors of the next CreateNamedPipe calls."""

    def __init__(self) -> None:
        super().__init__("_winapi")
        self.pipes: dict[int, Pipe] = {}
        self.fail: list[int] = []
        self.fail_connect: list[int] = []
        self._numbers = itertools.count(100)
        self.created = threading.Condition()

    def instance(self, number: int, timeout: float = 20.0) -> Pipe:
        """The instance that was created as number so and so, from 0."""
        with self.created:
            assert self.created.wait_for(lambda: len(self.pipes) > number, timeout)
            return list(self.pipes.values())[number]

    def CreateNamedPipe(self, *_: Any) -> int:  # noqa: N802
        if self.fail:
            raise windows_error(self.fail.pop(0))
        with self.created:
            handle = next(self._numbers)
            self.pipes[handle] = Pipe()
            self.created.notify_all()
        return handle

    def WaitNamedPipe(self, path: str, milliseconds: int) -> None:  # noqa: N802
        """No name exists, as far as a program sees that does not create it."""
        raise FileNotFoundError(2, "no such pipe", path)

    def ConnectNamedPipe(self, handle: int, overlapped: bool = False) -> Operation:  # noqa: N802
        if self.fail_connect:
            raise windows_error(self.fail_connect.pop(0))
        pipe = self.pipes[handle]
        if pipe.closed:
            raise windows_error(6)
        pipe.pending = Operation(pipe, None)
        return pipe.pending

    def WriteFile(self, handle: int, data: bytes, overlapped: bool = False) -> tuple[Operation, int]:  # noqa: N802
        pipe = self.pipes[handle]
        with pipe.changed:
            if pipe.closed:
                raise windows_error(NO_DATA)
            pipe.pending = Operation(pipe, bytes(data))
            pipe.pending.advance()
            pipe.changed.notify_all()
            return pipe.pending, 0

    def CloseHandle(self, handle: int) -> None:  # noqa: N802
        pipe = self.pipes[handle]
        with pipe.changed:
            pipe.closed = True
            pipe.changed.notify_all()


class WindowsModules:
    """The modules of shim/platform/windows, imported over these pipes."""

    def __init__(self, winapi: Winapi) -> None:
        import importlib

        self.winapi = winapi
        for name in MODULES:
            setattr(self, name, importlib.import_module(f"shim.platform.windows.{name}"))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


@contextmanager
def windows_modules() -> Iterator[WindowsModules]:
    winapi, nt = Winapi(), types.ModuleType("nt")
    nt.__dict__.update(O_BINARY=0, O_NOINHERIT=0, O_RDONLY=0, environ={})
    security = types.ModuleType("shim.platform.windows.security")
    security.administrators_only = lambda: 0  # type: ignore[attr-defined]
    fakes = {"_winapi": winapi, "nt": nt, security.__name__: security}
    names = [*fakes, *(f"shim.platform.windows.{name}" for name in MODULES)]
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.modules.update(fakes)
    try:
        yield WindowsModules(winapi)
    finally:
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)
