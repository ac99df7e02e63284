"""`start` and `serve` on a system without fork: two processes with a handshake (`shim.platform.windows.daemon`).

The daemon creates the endpoint and the log pipe and reports it before `start` prints the address, so that no client
connects too early. Usually the launcher does the `start` (launcher/windows/start.c): it creates both and passes them to
the daemon.
"""

from __future__ import annotations

from shim.commands import STDIN_LIMIT, Bootstrap, CommandError, Flags
from shim.platform import daemon, endpoint, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from shim.platform.windows.log_channel import LogChannel


def launch(flags: Flags, boot: Bootstrap, address: str, bundle: str, is_sandbox: bool, answer: str) -> None:
    """Start a daemon. On failure everything created so far is removed."""
    from shim.commands import start  # our caller; the daemon does not need it

    step = start.WRITE_FILES
    created = [f"{bundle}/panic.log", f"{bundle}/address", f"{bundle}/shim.pid"]
    child: daemon.Child | None = None
    try:
        panic_log = files.create(created[0])
        try:
            files.write_atomic(created[1], address.encode())
            step = start.START_DAEMON
            child = daemon.spawn(arguments(flags, address, bundle, is_sandbox), daemon.neutral_directory(), panic_log)
        finally:
            files.close(panic_log)
        child.send_input(boot.raw)
        step = start.WRITE_FILES
        files.write_atomic(created[2], b"%d" % child.pid)
        if not child.wait_ready():
            raise CommandError(f"the daemon {child.problem}: {start.last_panic_line(created[0])}")
        step = start.PRINT_ADDRESS
        files.write_stdout(answer.encode())
        child.release()
    except BaseException as error:
        if child is not None:
            child.kill()
        for path in created:
            files.remove(path)
        if isinstance(error, OSError):
            raise start.failure(step, error) from None
        raise


def arguments(flags: Flags, address: str, bundle: str, is_sandbox: bool) -> list[str]:
    words = ["-namespace", flags.namespace, "-address", flags.address, "-publish-binary", flags.publish_binary]
    words += ["-id", flags.id, "-bundle", bundle, "-socket", address, "-spawned"]
    if path := daemon.standby_path():
        words += ["-standby", path]
    return [*words, *(["-debug"] if flags.debug else []), *(["-is-sandbox"] if is_sandbox else []), "serve"]


def _start_standby(path: str) -> Callable[[], None]:
    """Start a standby for the next `start`. The returned function must be called on exit."""
    from shim.platform.windows.standby_start import StandbyStarter

    return StandbyStarter(path).finish


def serve(flags: Flags) -> NoReturn:
    """The daemon: `serve`, started by `launch` or, with a pipe that listens, by the launcher."""
    flags.require("namespace", "address", "publish-binary", "id", "socket")
    run_daemon(flags, daemon.Link(is_awaited=not flags.listener))


def _log_channel(flags: Flags, boot: Bootstrap) -> LogChannel | None:
    """The log pipe exists before `start` ends: containerd waits for it for 5 seconds only."""
    from shim.platform.windows.log_channel import LogChannel

    handle = int(flags.log_pipe or 0)
    if boot.log_text:
        return LogChannel(flags.bundle, flags.namespace, flags.id, handle)
    if handle:
        files.close(handle)
    return None


def run_daemon(flags: Flags, link: daemon.Link) -> NoReturn:
    """Serve until shutdown, then exit."""
    try:
        boot = Bootstrap(flags.debug)
        if data := link.receive_input(STDIN_LIMIT):
            from shim.commands import bootstrap

            boot = bootstrap.read(data, flags)
        if flags.listener:
            listener = endpoint.inherited(flags.socket, int(flags.listener))
        else:
            listener = endpoint.listen(flags.socket)
        channel = _log_channel(flags, boot)
    except (OSError, ValueError, endpoint.EndpointError) as error:
        raise CommandError(str(error)) from None
    link.report_ready()
    # Imported only now: `start` need not wait for it, and containerd has yet to connect.
    from shim.commands import serve as daemon_command

    finish = _start_standby(flags.standby) if flags.standby else None
    code = daemon_command.serve(flags, boot, listener, flags.bundle, flags.socket, flags.is_sandbox, link, channel)  # type: ignore[arg-type]
    if finish is not None:
        finish()
    daemon.exit_now(code)
