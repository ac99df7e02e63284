"""`start` and `serve` on a system without fork: two processes that shake hands (`shim.platform.windows.daemon`).

The daemon creates the endpoint and says so before `start` prints the address, so nobody ever dials in vain. The usual
`start` is the launcher's own (launcher/windows/start.c): it has made the endpoint, and the daemon is given it.
"""

from __future__ import annotations

from shim.commands import STDIN_LIMIT, Bootstrap, CommandError, Flags
from shim.platform import daemon, endpoint, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def launch(flags: Flags, boot: Bootstrap, address: str, bundle: str, is_sandbox: bool, answer: str) -> None:
    """A daemon of its own. Whatever fails, what was made until then goes."""
    from shim.commands import start  # which called us; the other half has no use for it

    step = start.WRITE_FILES
    made = [f"{bundle}/panic.log", f"{bundle}/address", f"{bundle}/shim.pid"]
    child: daemon.Child | None = None
    try:
        panic_log = files.create(made[0])
        try:
            files.write_atomic(made[1], address.encode())
            step = start.START_DAEMON
            child = daemon.spawn(arguments(flags, address, bundle, is_sandbox), daemon.neutral_directory(), panic_log)
        finally:
            files.close(panic_log)
        child.send_input(boot.raw)
        step = start.WRITE_FILES
        files.write_atomic(made[2], b"%d" % child.pid)
        if not child.wait_ready():
            raise CommandError(f"the daemon {child.problem}: {start.last_words(made[0])}")
        step = start.PRINT_ADDRESS
        files.write_stdout(answer.encode())
        child.release()
    except BaseException as error:
        if child is not None:
            child.kill()
        for path in made:
            files.remove(path)
        if isinstance(error, OSError):
            raise start.failure(step, error) from None
        raise


def arguments(flags: Flags, address: str, bundle: str, is_sandbox: bool) -> list[str]:
    words = ["-namespace", flags.namespace, "-address", flags.address, "-publish-binary", flags.publish_binary]
    words += ["-id", flags.id, "-bundle", bundle, "-socket", address, "-spawned"]
    if door := daemon.standby_door():
        words += ["-standby", door]
    return [*words, *(["-debug"] if flags.debug else []), *(["-is-sandbox"] if is_sandbox else []), "serve"]


def _leave_standby(door: str) -> Callable[[], None]:
    """For the next start. What is given is to be called at the end."""
    from shim.platform.windows.standby_start import Leaving

    return Leaving(door).finish


def serve(flags: Flags) -> NoReturn:
    """The other half: `serve`, started by `launch` or, with a pipe that listens, by the launcher's own."""
    flags.require("namespace", "address", "publish-binary", "id", "socket")
    be(flags, daemon.Link(is_awaited=not flags.listener))


def be(flags: Flags, link: daemon.Link) -> NoReturn:
    """The rest of this process's life."""
    try:
        boot = Bootstrap(flags.debug)
        if data := link.receive_input(STDIN_LIMIT):
            from shim.commands import bootstrap

            boot = bootstrap.read(data, flags)
        if flags.listener:
            listener = endpoint.inherited(flags.socket, int(flags.listener))
        else:
            listener = endpoint.listen(flags.socket)
    except (OSError, ValueError, endpoint.EndpointError) as error:
        raise CommandError(str(error)) from None
    link.say_ready()
    # Only now: `start` need not wait for what answers calls, and containerd has yet to dial.
    from shim.commands import serve as daemon_command

    finish = _leave_standby(flags.standby) if flags.standby else None
    code = daemon_command.serve(flags, boot, listener, flags.bundle, flags.socket, flags.is_sandbox, link)  # type: ignore[arg-type]
    if finish is not None:
        finish()
    daemon.exit_now(code)
