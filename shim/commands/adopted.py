"""The daemon of a `start` that the launcher has done.

`launcher/linux/start.c` has read the bundle's annotations, created the socket and the files, and detached from the
caller. It passes the rest in an interpreter option and in descriptors with fixed numbers; a spare of the standby gets
the same in a message. The link to the launcher works like the one to a `start` in Python
(`shim.platform.linux.daemon`): if the launcher dies before the handover, the daemon exits too.

The launcher has validated the options of stdin; they are decoded here.
"""

from __future__ import annotations

import gc

from shim.commands import STDIN_LIMIT, Bootstrap, Flags
from shim.platform import daemon, endpoint, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import NoReturn

#: `python -X runhcs_daemon=SOBUNDLE`: S and O are 1 for a pod's sandbox and for options, 0 otherwise.
OPTION = "runhcs_daemon"
LISTENER = 3
LINK = 4
OPTIONS = 5


def run(flags: Flags, given: str) -> NoReturn:
    """In a process that the launcher has started."""
    gc.disable()  # the warm-up enables it again
    daemon.set_process_name()
    listener, link = endpoint.inherited(LISTENER), endpoint.inherited(LINK)
    run_daemon(flags, listener, link, OPTIONS if given[1] == "1" else -1, given[2:], given[0] == "1")


def run_daemon(
    flags: Flags, listener: _socket.socket, link: _socket.socket, options: int, bundle: str, is_sandbox: bool
) -> NoReturn:
    """Serve until shutdown, then exit."""
    address = endpoint.address_of(listener)

    def body(link: _socket.socket | None) -> int:
        try:
            boot = read_options(flags, options)
            from shim.commands import serve

            return serve.serve(flags, boot, listener, bundle, address, is_sandbox, link)
        except BaseException:
            endpoint.remove(address)
            raise

    link.settimeout(daemon.HANDOVER_TIMEOUT)
    daemon.run_daemon(body, link)


def read_options(flags: Flags, options: int) -> Bootstrap:
    """The options in this descriptor, which is closed; -1 is none."""
    if options < 0:
        return Bootstrap(flags.debug)
    from shim.commands import bootstrap

    try:
        return bootstrap.read(files.read_all(options, STDIN_LIMIT), flags)
    finally:
        files.close(options)
