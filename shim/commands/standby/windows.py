"""The standby of a system without fork: a process with everything loaded, which becomes the next daemon itself.

It waits at its pipe, and the launcher that comes first gets it: the spare goes on as the daemon that the launcher would
have started, by the very same code (`shim.commands.spawned`). A while later that daemon starts the next spare. So there
is one at a time, and it goes when nobody has needed it for a while or its program has been replaced.

It never holds up a command: see `launcher/windows/standby.c`.
"""

from __future__ import annotations

import gc
import sys

from shim.commands import spawned
from shim.platform import daemon
from shim.platform.windows import standby as machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from shim.commands import Flags

    Parse = Callable[[list[str]], tuple[str, Flags]]


def run(path: str, idle: float, load: Callable[[], None], parse: Parse) -> int:
    """`idle` seconds at most; `load` what a daemon needs; `parse` reads a command line."""
    starter = daemon.Link(is_awaited=True)
    load()
    _load_layers()
    door = machine.open_door(path)
    if door is None:
        return 0
    gc.collect()
    gc.freeze()
    gc.disable()
    starter.say_ready()
    daemon.close_stdout()
    claim = door.wait(idle)
    if claim is not None:
        _be(claim, parse)
    return 0


def _load_layers() -> None:
    """What every container needs here besides: the layers of an image."""
    from shim import version
    from shim.container import cleanup, registry_hive
    from shim.hcs_bindings import storage
    from shim.hcs_bindings.library import vmcompute

    _ = vmcompute.ActivateLayer  # loads the library
    _ = version, cleanup, registry_hive, storage


def _be(claim: machine.Claim, parse: Parse) -> NoReturn:
    """The daemon of this start. The launcher hears of its end, and makes another."""
    try:
        claim.take()
        _, flags = parse(claim.arguments)
        spawned.be(flags, claim.link)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        daemon.exit_now(1)
