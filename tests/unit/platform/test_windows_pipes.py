"""Named pipes of Windows, over pipes in memory: the accept loop, pending writes, and the log channel."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from shim.platform.linux import daemon as linux_daemon
from shim.ttrpc.outbox import Outbox
from shim.ttrpc.server import Server
from tests.support.windows_pipes import ABORTED, BUSY, NO_DATA, QUOTA, WindowsModules, windows_modules

NO_SYSTEM_RESOURCES, INVALID_HANDLE, ACCESS_DENIED = 1450, 6, 5


@pytest.fixture
def windows() -> Iterator[WindowsModules]:
    with windows_modules() as modules:
        yield modules


def eventually(condition: Callable[[], object], timeout: float = 20.0) -> bool:
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def in_thread(function: Callable[[], object]) -> None:
    """Run it in a thread that exits afterwards."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_switch_interval_is_a_whole_millisecond_on_windows(windows: WindowsModules) -> None:
    """Python waits for the GIL for so many microseconds divided by 1000: below one millisecond it does not wait."""
    assert windows.daemon.SWITCH_INTERVAL * 1e6 // 1000 >= 1
    assert linux_daemon.SWITCH_INTERVAL < 0.005


def test_fault_handler_is_limited_to_crashes(windows: WindowsModules, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the launcher's function, once, after faulthandler has added its handler; python.exe has no such function."""
    import faulthandler

    from shim.platform.windows import _system_cffi

    calls: list[str] = []

    class SymbolError(Exception):
        """What cffi raises for a missing symbol."""

    class Python:
        def report_unhandled_exceptions_only(self) -> None:
            raise SymbolError

    class Launcher:
        def report_unhandled_exceptions_only(self) -> None:
            calls.append("filter")

    class Ffi:
        error = SymbolError
        library: object = Launcher()

        def dlopen(self, path: str) -> object:
            assert path == sys.executable
            return self.library

    ffi = Ffi()
    monkeypatch.setattr(_system_cffi, "ffi", ffi)
    monkeypatch.setattr(faulthandler, "enable", lambda descriptor: calls.append("enable"))
    monkeypatch.setattr(faulthandler, "is_enabled", lambda: bool(calls))
    windows.daemon.limit_fault_handler()
    windows.daemon.enable_fault_handler(str)
    assert calls == ["enable"]
    for _ in range(2):
        windows.daemon.limit_fault_handler()
        assert calls == ["enable", "filter"]
    ffi.library = Python()
    monkeypatch.setattr(windows.daemon, "_is_limited", False)
    windows.daemon.limit_fault_handler()
    assert calls == ["enable", "filter"]


def test_libraries_are_loaded_in_another_thread(windows: WindowsModules, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a call of kernel32, which needs no GIL, after the first lines of the log."""
    from shim.platform import hcs_library
    from shim.platform.windows import _system_cffi

    calls: list[tuple[str, int]] = []
    done = threading.Event()

    class Kernel32:
        def LoadLibraryExW(self, path: str, file: object, flags: int) -> None:
            calls.append((path, threading.get_ident()))
            if "vmcompute" in path:
                done.set()

    class Ffi:
        NULL = None

        def dlopen(self, path: str) -> object:
            return Kernel32()

    monkeypatch.setattr(_system_cffi, "ffi", Ffi())
    monkeypatch.setattr(hcs_library, "hcs_library", lambda name: f"{name}.dll")
    windows.daemon.announce_and_load(lambda: calls.append(("announced", threading.get_ident())))
    assert done.wait(20)
    assert [what for what, _ in calls] == ["announced", "computecore.dll", "vmcompute.dll"]
    assert threading.get_ident() not in {thread for _, thread in calls}


def test_first_response_does_not_load_cffi(windows: WindowsModules, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault handler, and the next instance of the pipe with the launcher's security descriptor."""
    import faulthandler

    monkeypatch.setattr(faulthandler, "enable", lambda descriptor: None)
    monkeypatch.setitem(sys.modules, "shim.platform.windows._system_cffi", None)
    monkeypatch.delitem(sys.modules, "shim.platform.windows.security", raising=False)
    monkeypatch.setitem(sys._xoptions, "runhcs_security", "4711")
    given: list[int] = []
    created = windows.winapi.CreateNamedPipe
    monkeypatch.setattr(windows.winapi, "CreateNamedPipe", lambda *words: (given.append(words[-1]), created(*words))[1])
    windows.daemon.enable_fault_handler(str)
    windows.endpoint.create("p", first=False)
    assert given == [4711]


@pytest.mark.parametrize("code", [ACCESS_DENIED, BUSY])
def test_only_one_process_creates_the_control_pipe_of_a_shared_daemon(windows: WindowsModules, code: int) -> None:
    """Of two that find none, CreateNamedPipe fails for the second, which then joins the daemon of the first."""
    path = windows.endpoint.PREFIX + "containerd-shim-runhcs-shared-0-0"
    assert windows.shared.listen(path).path == path
    windows.winapi.fail = [code]
    assert windows.shared.listen(path) is None
    windows.winapi.fail = [NO_SYSTEM_RESOURCES]
    with pytest.raises(OSError, match="1450"):
        windows.shared.listen(path)


@pytest.mark.parametrize(
    ("code", "words"), [(ACCESS_DENIED, "run as an administrator"), (BUSY, "is taken"), (NO_SYSTEM_RESOURCES, "1450")]
)
def test_name_that_cannot_be_created_is_reported_with_the_next_step(
    windows: WindowsModules, code: int, words: str
) -> None:
    windows.winapi.fail = [code]
    with pytest.raises(windows.endpoint.EndpointError, match=words):
        windows.endpoint.listen(windows.endpoint.address_for("", "tests", "c1"))


class Accepting:
    """A server that accepts from a fake pipe and records its connections."""

    def __init__(self, windows: WindowsModules) -> None:
        self.accepted: list[object] = []
        self.server = Server({})
        self.server.attach = self.accepted.append  # type: ignore[method-assign,assignment]
        pipe = windows.endpoint.ListeningPipe("p", windows.winapi.CreateNamedPipe())
        self.listener = windows.endpoint.Listener(pipe)
        self.thread = threading.Thread(target=self.server.serve, args=(self.listener,))
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown(5.0)
        self.thread.join(20.0)
        assert not self.thread.is_alive()


@pytest.mark.parametrize("code", [NO_DATA, NO_SYSTEM_RESOURCES, ABORTED])
def test_accept_loop_survives_failed_pending_connect(windows: WindowsModules, code: int) -> None:
    accepting = Accepting(windows)
    first = windows.winapi.instance(0)
    first.failure = code
    windows.winapi.instance(1).connect()
    assert eventually(lambda: len(accepting.accepted) == 1)
    assert first.closed
    accepting.stop()


def test_accept_loop_survives_failed_creation_of_the_next_instance(windows: WindowsModules) -> None:
    accepting = Accepting(windows)
    windows.winapi.fail[:] = [NO_SYSTEM_RESOURCES] * 3
    first = windows.winapi.instance(0)
    first.connect()
    assert eventually(lambda: len(accepting.accepted) == 1), "the client that connected is served"
    assert not windows.winapi.fail and not first.closed
    windows.winapi.instance(1).connect()
    assert eventually(lambda: len(accepting.accepted) == 2)
    accepting.stop()


def test_accept_loop_survives_refused_connect(windows: WindowsModules) -> None:
    windows.winapi.fail_connect[:] = [INVALID_HANDLE, INVALID_HANDLE]
    accepting = Accepting(windows)
    windows.winapi.instance(2).connect()
    assert eventually(lambda: len(accepting.accepted) == 1)
    accepting.stop()


class FailingListener:
    """Fails so often, then accepts, then is closed."""

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors
        self.closed = False

    def accept(self) -> object:
        if self.errors:
            raise self.errors.pop(0)
        if self.closed:
            raise OSError(9, "closed")
        self.closed = True
        return object()

    def close(self) -> None:
        self.closed = True


def test_accept_loop_survives_every_error() -> None:
    reports: list[BaseException] = []
    accepted: list[object] = []
    server = Server({}, reports.append)
    server.attach = accepted.append  # type: ignore[method-assign,assignment]
    listener = FailingListener([OSError(22, "invalid"), OSError(1450, "resources"), OSError(24, "files")])
    server.serve(listener)  # type: ignore[arg-type]
    assert len(accepted) == 1 and not reports
    server.serve(FailingListener([ValueError("bug")]))  # type: ignore[arg-type]
    assert len(accepted) == 2 and [type(error) for error in reports] == [ValueError]


def connected(windows: WindowsModules) -> int:
    handle = windows.winapi.CreateNamedPipe()
    windows.winapi.pipes[handle].connect()
    return int(handle)


def test_pending_write_does_not_end_with_the_thread_that_responds(windows: WindowsModules) -> None:
    """A worker responds to a peer that does not read, and exits."""
    handle = connected(windows)
    stream = windows.pipe.PipeStream(handle)
    broken = threading.Event()
    outbox = Outbox(stream, broken.set)
    frames = [bytes([number]) * (QUOTA - 1000) for number in range(3)]
    for frame in frames:
        in_thread(lambda frame=frame: outbox.write(frame))  # type: ignore[misc]
    assert windows.winapi.pipes[handle].read(3 * (QUOTA - 1000)) == b"".join(frames)
    assert not broken.is_set() and outbox.flush(20.0)
    outbox.close()
    stream.close()
    outbox.join()


def test_owner_of_the_connection_writes_directly(windows: WindowsModules) -> None:
    handle = connected(windows)
    outbox = Outbox(windows.pipe.PipeStream(handle), lambda: None)
    outbox.own()
    outbox.write(b"frame")
    assert bytes(windows.winapi.pipes[handle].content) == b"frame" and outbox._writer is None


def test_cancelled_write_breaks_the_stream(windows: WindowsModules) -> None:
    handle = connected(windows)
    stream = windows.pipe.PipeStream(handle)
    in_thread(lambda: (stream.send_now(b"x" * QUOTA), stream.send_now(b"y")))
    with pytest.raises(OSError, match="cancelled"):
        stream.send_now(b"z")


def test_send_now_returns_zero_while_a_write_is_pending(windows: WindowsModules) -> None:
    stream = windows.pipe.PipeStream(connected(windows))
    assert stream.send_now(b"x" * QUOTA) == QUOTA
    assert stream.send_now(b"y") == 1
    assert stream.send_now(b"z") == 0


def line(number: int) -> bytes:
    return b"%05d" % number + b"." * 994 + b"\n"


def test_log_continues_after_lines_of_a_thread_that_exited(windows: WindowsModules) -> None:
    """A short thread logs while the reader stalls with a full buffer."""
    channel = windows.log_channel.LogChannel("", "ns", "c1")
    reader = windows.winapi.instance(0)
    reader.connect()
    for number in range(60):
        channel.write(line(number))
    assert eventually(lambda: not channel._buffer and not channel._sending)
    for number in range(60, 120):
        in_thread(lambda number=number: channel.write(line(number)))  # type: ignore[misc]
    assert reader.read(120_000) == b"".join(map(line, range(120)))
    channel.write(line(120))
    assert reader.read(1000) == line(120)
    channel.close()


def test_log_lines_of_a_disconnected_reader_go_to_the_next(windows: WindowsModules) -> None:
    channel = windows.log_channel.LogChannel("", "ns", "c1")
    first = windows.winapi.instance(0)
    first.connect()
    channel.write(line(0))
    assert first.read(1000) == line(0)
    second = windows.winapi.instance(1)
    with first.changed:
        first.closed = True
    channel.write(line(1))
    assert eventually(lambda: channel._reader is None and channel._buffer == line(1))
    second.connect()
    assert second.read(1000) == line(1)
    channel.write(line(2))
    channel.close()
    assert second.read(1000) == line(2)


def test_log_reader_that_never_reads_does_not_block(windows: WindowsModules) -> None:
    channel = windows.log_channel.LogChannel("", "ns", "c1")
    reader = windows.winapi.instance(0)
    reader.connect()
    for number in range(300):
        channel.write(line(number))
    kept = len(reader.content) + len(channel._sending) + len(channel._buffer)
    assert kept < QUOTA + windows.log_channel.BUFFER_LIMIT + 1000, "the rest is lost, and counted"
    begin = time.monotonic()
    channel.close()
    assert time.monotonic() - begin < 10 * windows.log_channel.CLOSE_TIMEOUT


def test_log_channel_accepts_again_after_an_error(windows: WindowsModules, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows.log_channel, "PAUSE", 0.01)
    windows.winapi.fail_connect[:] = [INVALID_HANDLE]
    channel = windows.log_channel.LogChannel("", "ns", "c1")
    channel.write(line(0))
    windows.winapi.instance(1).connect()
    assert windows.winapi.instance(1).read(1000) == line(0)
    channel.close()
