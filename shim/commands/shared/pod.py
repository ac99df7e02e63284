"""One of the pods of a shared daemon: `serve.PodServer` with what is the process's elsewhere."""

from __future__ import annotations

from _thread import allocate_lock

from shim.commands import Bootstrap, Flags, serve
from shim.platform import daemon, endpoint, files
from shim.platform.log_channel import LogChannel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from types import TracebackType


class Arrival:
    """What a `start` hands over for its pod."""

    __slots__ = ("boot", "bundle", "flags", "is_first", "is_sandbox", "link", "listener", "panic_log")

    def __init__(
        self,
        flags: Flags,
        boot: Bootstrap,
        listener: _socket.socket,
        panic_log: int,
        bundle: str,
        is_sandbox: bool,
        link: _socket.socket,
        is_first: bool = False,
    ) -> None:
        """The daemon was forked for the first one."""
        self.flags = flags
        self.boot = boot
        self.listener = listener
        self.panic_log = panic_log
        self.bundle = bundle
        self.is_sandbox = is_sandbox
        self.link = link
        self.is_first = is_first

    def close(self) -> None:
        """No pod comes of it."""
        self.link.close()
        self.listener.close()
        files.close(self.panic_log)

    @property
    def name(self) -> str:
        """What threads, stacks and lists of pods show."""
        return f"{self.flags.namespace}/{self.flags.id}"


class SharedPod(serve.PodServer):
    __slots__ = ("_channel", "_lock", "_panic_log", "is_ending", "name", "telemetry")

    def __init__(self, arrival: Arrival) -> None:
        flags = arrival.flags
        self.name = arrival.name
        self.is_ending = False
        self._lock = allocate_lock()
        self._panic_log = arrival.panic_log
        address = endpoint.address_of(arrival.listener)
        self.telemetry = serve.telemetry_of(flags, arrival.bundle, address, arrival.is_sandbox)
        boot = arrival.boot
        self._channel = LogChannel(arrival.bundle, flags.namespace, flags.id) if boot.log_text else None
        identity = endpoint.identity_of(endpoint.path_of(address))
        super().__init__(
            flags, boot, arrival.listener, arrival.bundle, address, self.telemetry, self._channel, identity
        )

    def write_line(self, line: bytes) -> None:
        """A line of the daemon's log."""
        if self._channel is not None:
            self._channel.write(line)

    def write_panic(self, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        """An unexpected error of this pod's."""
        import traceback

        text = "".join(traceback.format_exception(kind, error, trace))
        with self._lock:
            if self._panic_log < 0:
                raise OSError(9, "the panic log is closed")
            files.write_created(self._panic_log, text.encode("utf-8", "backslashreplace"))

    def release_bundle(self) -> None:
        """Before the response after which containerd may remove the bundle. Later failures are the daemon's."""
        if daemon.OPEN_FILES_STAY:
            self._close_panic_log()

    def _close_panic_log(self) -> None:
        with self._lock:
            panic_log, self._panic_log = self._panic_log, -1
            if panic_log >= 0:
                files.close(panic_log)

    def close(self, now: bool) -> None:
        """End calls, flush events, close everything that belongs to this pod."""
        from shim.container.base import run_all

        # First: a `start` that has given up this pod waits for the end of the endpoint, and creates the file again.
        run_all([self.release_bundle, lambda: self.end_calls(now), self.close_log, self._close_panic_log])
