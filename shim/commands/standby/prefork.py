"""The standby of a system that forks: a pre-forked spare becomes the daemon of the next `start`.

This process imports everything a daemon needs, once. A fork of it, the spare, waits at the socket. The first launcher
that connects takes the spare, which becomes the daemon with the same code as a process of its own
(`shim.commands.adopted`) and shares this process's memory while it runs. Meanwhile the standby forks the next spare.

The standby exits when it has not been used for a while, when a file of a loaded module has changed, or when its socket
has been removed. It never delays a command: see `launcher/linux/standby.c`.
"""

from __future__ import annotations

import gc
import select
import time

from shim.commands import adopted
from shim.platform import daemon
from shim.platform.linux import standby
from shim.platform.linux.source_watch import SourceWatch
from shim.platform.linux.standby_start import is_needed

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable
    from typing import NoReturn

    from shim.commands import Flags

    Parse = Callable[[list[str]], tuple[str, Flags]]

# A cold `start` is followed by a Create: leave the processor to it first.
LOAD_AFTER = 0.3
# How often an idle standby checks its socket and its files.
CHECK_INTERVAL = 10.0


def run(path: str, idle: float, load: Callable[[], None], parse: Parse) -> int:
    """Serve spares until `idle` seconds have passed without a start. `load` imports what a daemon needs; `parse` parses
    a command line."""
    standby.detach()
    begun = time.time_ns()
    time.sleep(LOAD_AFTER)
    if not is_needed(path):
        return 0
    load()
    watch = SourceWatch("shim", standby.own_program())
    if watch.newest() >= begun:
        return 0  # files changed while they were imported: the modules may be a mix of old and new
    socket = standby.listen(path)
    if socket is None:
        return 0
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        _keep_spares(socket, watch, idle, parse)
    finally:
        socket.close(remove=True)
    return 0


def _keep_spares(socket: standby.StandbySocket, watch: SourceWatch, idle: float, parse: Parse) -> None:
    """Keep one spare until there is a reason to exit; the spare exits when our end of the link closes."""
    last_used = time.monotonic()
    while True:
        is_spare, link = standby.fork_spare()
        if is_spare:
            _run_spare(socket, watch, link, parse)
        socket.touch()
        poller = select.poll()
        poller.register(link, select.POLLIN)
        if watch.descriptor >= 0:
            poller.register(watch.descriptor, select.POLLIN)
        while not (ready := dict(poller.poll(min(CHECK_INTERVAL, idle) * 1000))):
            if time.monotonic() - last_used >= idle or not socket.is_ours or not watch.all_unchanged():
                return
        if link.fileno() not in ready or link.recv(1) != standby.TAKEN or not socket.is_ours:
            return  # a file has changed, or the spare has died: the next start is cold
        last_used = time.monotonic()
        link.close()


def _run_spare(socket: standby.StandbySocket, watch: SourceWatch, link: _socket.socket, parse: Parse) -> NoReturn:
    """Wait for a start, and become its daemon."""
    title = standby.ProcessTitle()
    try:
        handover = socket.wait(link, watch.unchanged)
        if handover is None:
            daemon.exit_now(0)
        standby.report_taken(link)
        socket.close(remove=False)
        watch.close()
        handover.apply(title)
        _, flags = parse(handover.arguments)
        adopted.run_daemon(
            flags, handover.listener, handover.link, handover.options, handover.bundle, handover.is_sandbox
        )
    finally:
        daemon.exit_now(1)
