"""`start` for a shared daemon: hand the pod over to the one that runs, or start one.

The control endpoint, a socket or a pipe, decides between two `start`s at once: one of them creates it, and its daemon
inherits it. The connection of the other waits until that daemon accepts it. A daemon that takes no more pods has
removed its endpoint before it closes the connection: the next attempt starts a new daemon.

Where the system can fork, the new daemon has the pod from the beginning. Elsewhere it begins without pods, and the
`start` hands over its pod as to any other daemon.

Whatever fails here, the caller starts a daemon for this pod alone.
"""

from __future__ import annotations

from shim.commands import NODE_SCOPE, Bootstrap, Flags
from shim.commands.shared import DAEMON_PANIC_LOG
from shim.platform import daemon, endpoint, files, shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

    from shim.platform.windows.detached_process import Child as SpawnedDaemon

    Parse = Callable[[list[str]], tuple[str, Flags]]

# Each attempt either succeeds, or another process has just started or stopped a daemon.
ATTEMPTS = 5


class SharedStart:
    """One `start`."""

    def __init__(
        self, flags: Flags, boot: Bootstrap, address: str, bundle: str, is_sandbox: bool, scope: str, parse: Parse
    ) -> None:
        self._flags = flags
        self._boot = boot
        self._address = address
        self._bundle = bundle
        self._is_sandbox = is_sandbox
        self._scope = scope
        self._parse = parse
        self._spawned: SpawnedDaemon | None = None
        self.panic_log = f"{bundle}/{DAEMON_PANIC_LOG}"

    def start_daemon(self, listener: _socket.socket, panic_log: int) -> daemon.Child:
        """The daemon that serves the pod from now on. OSError if there is none."""
        namespace = "" if self._scope == NODE_SCOPE else self._flags.namespace
        path = shared.control_path(self._address, self._scope, self._flags.address, namespace)
        for _ in range(ATTEMPTS):
            timeout = shared.GREETING_TIMEOUT if self._spawned is None else shared.START_TIMEOUT
            try:
                link = shared.connect(path, timeout)
                pid = 0 if link is None else shared.wait_greeting(link)
            except TimeoutError:
                path = shared.path_instead(path)
                continue
            if link is not None and pid:
                return self._hand_over(pid, link, listener, panic_log)
            if link is None and (control := shared.listen(path)) is not None:
                if daemon.FORKS:
                    return self._fork(listener, panic_log, control, path)
                self._spawn(control, panic_log)
        raise OSError(11, "no shared daemon takes the pod")

    def close(self) -> None:
        """After a failure: a daemon that was started for this pod exits, if it has no other."""
        if self._spawned is not None:
            self._spawned.close()

    def _hand_over(self, pid: int, link: _socket.socket, listener: _socket.socket, panic_log: int) -> daemon.Child:
        flags = self._flags
        words = ["-namespace", flags.namespace, "-address", flags.address, "-publish-binary", flags.publish_binary]
        words += ["-id", flags.id, *(["-debug"] if flags.debug else []), "start"]
        joined = shared.Joined(pid, link, listener)
        try:
            shared.hand_over(link, listener, panic_log, self._boot.raw, self._bundle, self._is_sandbox, words)
        except BaseException:
            joined.close()
            raise
        return joined

    def _spawn(self, control: _socket.socket, panic_log: int) -> None:
        """Once: a daemon that dies as it starts would die again."""
        from shim.commands.shared import spawned

        try:
            if self._spawned is not None:
                raise OSError(11, "the shared daemon has exited")
            self._spawned = spawned.launch(self._flags, self._scope, self._bundle, control, panic_log)
        finally:
            control.close()  # in this process; the daemon keeps it

    def _fork(self, listener: _socket.socket, panic_log: int, control: _socket.socket, path: str) -> daemon.Child:
        def body(link: _socket.socket | None) -> int:
            from shim.commands.shared.daemon import SharedDaemon
            from shim.commands.shared.pod import Arrival

            assert link is not None
            first = Arrival(self._flags, self._boot, listener, panic_log, self._bundle, self._is_sandbox, link, True)
            try:
                endpoint_of_starts = shared.ControlEndpoint(control, path)
                served = SharedDaemon(endpoint_of_starts, self._scope, self._parse, shared.CrashLog())
                return served.serve(self._flags.id, first)
            except BaseException:
                endpoint.remove(self._address)
                raise

        try:
            files.remove(self.panic_log)  # it may be another daemon's
            crash_log = files.create(self.panic_log)
            try:
                return daemon.fork(body, listener, crash_log, panic_log, control.fileno())
            finally:
                files.close(crash_log)
        except BaseException:
            shared.remove(path)
            raise
        finally:
            control.close()  # in this process; the daemon keeps it
