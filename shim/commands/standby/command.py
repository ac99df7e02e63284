"""`standby`: a process with everything imported, from which the next `start` gets its daemon.

A cold `start` starts one if standbys are on (`runhcs install --standby`, or RUNHCS_STANDBY=1). It imports what a daemon
needs. On Linux it stays and forks spares (`prefork`); on Windows it is the spare itself (`windows`).
"""

from __future__ import annotations

from shim.platform import daemon, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.commands import Flags

    Parse = Callable[[list[str]], tuple[str, Flags]]

IDLE_VARIABLE = "RUNHCS_STANDBY_IDLE"
IDLE_SECONDS = 900.0


def run(arguments: list[str], parse: Parse) -> int:
    """`parse` parses a command line."""
    if daemon.FORKS:
        from shim.commands.standby import prefork

        return prefork.run(arguments[0], _idle_seconds(), load, parse)
    from shim.commands.standby import windows

    code: int = windows.run(arguments[0], _idle_seconds(), load, parse)
    return code


def load() -> None:
    """Import what a daemon with a container needs."""
    import faulthandler

    from shim.commands import bootstrap, serve
    from shim.container import ledger
    from shim.hcs_bindings.library import computecore
    from shim.task import create, service
    from shim.task.events import transports
    from shim.task.stats import collect
    from shim.task.update import container

    _ = computecore.HcsCreateComputeSystem  # loads the library
    _ = bootstrap, serve, ledger, collect, create, transports, service, container, faulthandler


def _idle_seconds() -> float:
    try:
        return float(files.environment(IDLE_VARIABLE) or IDLE_SECONDS)
    except ValueError:
        return IDLE_SECONDS
