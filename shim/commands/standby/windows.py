"""The standby of Windows, which has no fork: a process with everything imported that becomes the next daemon itself.

It waits at its pipe. The first launcher that connects takes it, and it continues as the daemon that the launcher would
have started, with the same code (`shim.commands.spawned`). A while later that daemon starts the next standby. So there
is one at a time. It exits when it has not been used for a while or its program has been replaced.

It never delays a command: see `launcher/windows/standby.c`.
"""

from __future__ import annotations

import gc
import sys

from shim.commands import spawned
from shim.platform import daemon
from shim.platform.windows import standby

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from shim.commands import Flags

    Parse = Callable[[list[str]], tuple[str, Flags]]


def run(path: str, idle: float, load: Callable[[], None], parse: Parse) -> int:
    """Wait at most `idle` seconds for a start. `load` imports what a daemon needs; `parse` parses a command line."""
    starter = daemon.Link(is_awaited=True)
    load()
    _load_layers()
    pipe = standby.listen(path)
    if pipe is None:
        return 0
    gc.collect()
    gc.freeze()
    gc.disable()
    starter.report_ready()
    daemon.redirect_stdio_to_null()
    handover = pipe.wait(idle)
    if handover is not None:
        _run_daemon(handover, parse)
    return 0


def _load_layers() -> None:
    """What every container on Windows needs as well: the layers of an image."""
    from shim import version
    from shim.container import cleanup, registry_hive
    from shim.hcs_bindings import storage
    from shim.hcs_bindings.library import vmcompute

    _ = vmcompute.ActivateLayer  # loads the library
    _ = version, cleanup, registry_hive, storage


def _run_daemon(handover: standby.Handover, parse: Parse) -> NoReturn:
    """The daemon of this start. If it fails, the launcher notices and starts another."""
    try:
        handover.apply()
        _, flags = parse(handover.arguments)
        spawned.run_daemon(flags, handover.link)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        daemon.exit_now(1)
