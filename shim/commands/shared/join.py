"""`start` for a shared daemon: hand the pod over to the one that runs, or start one.

The control socket decides between two `start`s at once: one of them creates it, under a lock, and its daemon inherits
it. The connection of the other waits in the backlog until that daemon accepts it. A daemon that takes no more pods has
removed its socket before it closes the connection: the next attempt starts a new daemon.

Whatever fails here, the caller starts a daemon for this pod alone.
"""

from __future__ import annotations

from shim.commands import NODE_SCOPE, Bootstrap, Flags
from shim.commands.shared import DAEMON_PANIC_LOG
from shim.platform import daemon, endpoint, files
from shim.platform.linux import shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

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
        self.panic_log = f"{bundle}/{DAEMON_PANIC_LOG}"

    def start_daemon(self, listener: _socket.socket, panic_log: int) -> daemon.Child:
        """The daemon that serves the pod from now on. OSError if there is none."""
        namespace = "" if self._scope == NODE_SCOPE else self._flags.namespace
        path = shared.control_path(self._address, self._scope, self._flags.address, namespace)
        for _ in range(ATTEMPTS):
            link = shared.connect(path)
            if link is None:
                control = shared.listen(path)
                if control is not None:
                    return self._fork(listener, panic_log, control, path)
            elif (pid := shared.wait_greeting(link, path)) != 0:
                self._hand_over(link, listener, panic_log)
                return shared.Joined(pid, link)
        raise OSError(11, "no shared daemon takes the pod")

    def _hand_over(self, link: _socket.socket, listener: _socket.socket, panic_log: int) -> None:
        flags = self._flags
        words = ["-namespace", flags.namespace, "-address", flags.address, "-publish-binary", flags.publish_binary]
        words += ["-id", flags.id, *(["-debug"] if flags.debug else []), "start"]
        shared.hand_over(link, listener, panic_log, self._boot.raw, self._bundle, self._is_sandbox, words)

    def _fork(self, listener: _socket.socket, panic_log: int, control: _socket.socket, path: str) -> daemon.Child:
        def body(link: _socket.socket | None) -> int:
            from shim.commands.shared.daemon import SharedDaemon
            from shim.commands.shared.pod import Arrival

            assert link is not None
            first = Arrival(self._flags, self._boot, listener, panic_log, self._bundle, self._is_sandbox, link, True)
            try:
                return SharedDaemon(control, path, self._scope, self._parse).serve(first)
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
