"""`start`, after the launcher has done it: be the daemon.

`launcher/linux/start.c` has read the bundle's annotations, made the socket and the files, and left the caller's world
behind. It tells the rest by an option of the interpreter and by descriptors with fixed numbers; a spare of the standby
gets the same by message. The line to the launcher works as the one to a `start` in Python, which
`shim.platform.linux.daemon` describes: a launcher that ends without a word takes the daemon with it.

What containerd said on stdin has been found fine, and is read here.
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
    """In a process that the launcher has spawned."""
    gc.disable()  # the warm-up switches it on again
    daemon.name_process()
    listener, link = endpoint.inherited(LISTENER), endpoint.inherited(LINK)
    be(flags, listener, link, OPTIONS if given[1] == "1" else -1, given[2:], given[0] == "1")


def be(
    flags: Flags, listener: _socket.socket, link: _socket.socket, options: int, bundle: str, is_sandbox: bool
) -> NoReturn:
    """The rest of this process's life."""
    address = endpoint.address_of(listener)

    def body(link: _socket.socket | None) -> int:
        try:
            boot = _read_options(flags, options)
            from shim.commands import serve

            return serve.serve(flags, boot, listener, bundle, address, is_sandbox, link)
        except BaseException:
            endpoint.remove(address)
            raise

    link.settimeout(daemon.HANDOVER_TIMEOUT)
    daemon.be(body, link)


def _read_options(flags: Flags, options: int) -> Bootstrap:
    if options < 0:
        return Bootstrap(flags.debug)
    from shim.commands import bootstrap

    try:
        return bootstrap.read(files.read_all(options, STDIN_LIMIT), flags)
    finally:
        files.close(options)
