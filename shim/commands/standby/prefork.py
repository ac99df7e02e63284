"""The standby of a system that forks: a warm spare becomes the daemon of the next start.

Everything a daemon needs is loaded here once, and a fork of it, the spare, waits at the socket. The launcher that comes
first gets it: the spare becomes the daemon, by the same code as a process of its own (`shim.commands.adopted`), and
shares this process's memory for as long as it lives. Meanwhile the standby forks the next spare.

It goes when nobody has needed it for a while, when a file of what it has loaded is changed, or when its socket is taken
away. It never holds up a command: see `launcher/linux/standby.c`.
"""

from __future__ import annotations

import gc
import select
import time

from shim.commands import adopted
from shim.platform import daemon
from shim.platform.linux import standby as machine
from shim.platform.linux.source_watch import Sources
from shim.platform.linux.standby_start import is_wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable
    from typing import NoReturn

    from shim.commands import Flags

    Parse = Callable[[list[str]], tuple[str, Flags]]

# A cold `start` is followed by a Create: let that have the processor first.
LOAD_AFTER = 0.3
# How soon it notices that its socket is gone or its files have changed when nobody comes.
LOOK_AROUND = 10.0


def run(path: str, idle: float, load: Callable[[], None], parse: Parse) -> int:
    """`idle` seconds at most; `load` what a daemon needs; `parse` reads a command line."""
    machine.settle()
    begun = time.time_ns()
    time.sleep(LOAD_AFTER)
    if not is_wanted(path):
        return 0
    load()
    sources = Sources("shim", machine.own_program())
    if sources.newest() >= begun:
        return 0  # somebody is editing: what was loaded may be neither the old nor the new
    door = machine.open_door(path)
    if door is None:
        return 0
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        _keep_spares(door, sources, idle, parse)
    finally:
        door.close(remove=True)
    return 0


def _keep_spares(door: machine.Door, sources: Sources, idle: float, parse: Parse) -> None:
    """One spare at any time, until there is a reason to end; its end of the line closes with ours."""
    needed = time.monotonic()
    while True:
        is_spare, line = machine.fork_spare()
        if is_spare:
            _be_spare(door, sources, line, parse)
        door.show_life()
        watching = select.poll()
        watching.register(line, select.POLLIN)
        if sources.descriptor >= 0:
            watching.register(sources.descriptor, select.POLLIN)
        while not (ready := dict(watching.poll(min(LOOK_AROUND, idle) * 1000))):
            if time.monotonic() - needed >= idle or not door.is_ours or not sources.all_unchanged():
                return
        if line.fileno() not in ready or line.recv(1) != machine.TAKEN or not door.is_ours:
            return  # changed files, or a spare that has died: whatever it is, a cold start knows better
        needed = time.monotonic()
        line.close()


def _be_spare(door: machine.Door, sources: Sources, line: _socket.socket, parse: Parse) -> NoReturn:
    """Wait for a start, and be its daemon."""
    shown = machine.CommandLine()
    try:
        claim = door.wait(line, sources.unchanged)
        if claim is None:
            daemon.exit_now(0)
        machine.say_taken(line)
        door.close(remove=False)
        sources.close()
        claim.take(shown)
        _, flags = parse(claim.arguments)
        adopted.be(flags, claim.listener, claim.link, claim.options, claim.bundle, claim.is_sandbox)
    finally:
        daemon.exit_now(1)
