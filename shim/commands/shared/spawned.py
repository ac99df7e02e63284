"""The process of a shared daemon on a system without fork: `start` spawns it, and then hands over its pod.

Until that `start` has ended, the daemon waits for pods; then it exits as soon as it has none. The two are connected as
a `start` and the daemon of one pod are (`shim.platform.windows.daemon`).
"""

from __future__ import annotations

from shim.commands import Flags
from shim.platform import daemon, endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from shim.platform.windows.endpoint import ListeningPipe

    Parse = Callable[[list[str]], tuple[str, Flags]]


def launch(flags: Flags, scope: str, bundle: str, control: ListeningPipe, panic_log: int) -> daemon.Child:
    """Start a daemon that listens on the control pipe. Until it runs, its errors are in the panic log of this pod."""
    words = ["-namespace", flags.namespace, "-address", flags.address, "-publish-binary", flags.publish_binary]
    words += ["-id", flags.id, "-bundle", bundle, "-scope", scope, "-socket", control.path]
    words += ["-spawned", "-listener", str(control.handle), "serve"]
    return daemon.spawn(words, daemon.neutral_directory(), panic_log, control.handle)


def serve(flags: Flags, parse: Parse) -> NoReturn:
    """The daemon."""
    flags.require("namespace", "address", "publish-binary", "id", "bundle", "socket", "listener")
    control = endpoint.inherited(flags.socket, int(flags.listener))
    from shim.commands.shared.daemon import SharedDaemon
    from shim.platform.windows import shared

    crash_log = shared.CrashLog(flags.bundle)
    served = SharedDaemon(shared.ControlEndpoint(control, flags.socket), flags.scope, parse, crash_log)
    daemon.exit_now(served.serve(flags.id, starter=daemon.Link(is_awaited=False)))  # type: ignore[arg-type]
