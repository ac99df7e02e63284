"""A shim that is killed at each step of its ledger: `delete` must release everything."""

from __future__ import annotations

import threading

from runhcs.selftest.runner import Context, Step, StepFailed, StepSkipped
from runhcs.selftest.scenarios import FOREVER, SIGKILL, windows_spec
from runhcs.selftest.shim_driver import ShimDriver
from runhcs.shim_driver import EXIT_TIMEOUT
from shim.container.ledger import FILE
from shim.ttrpc.status import ClosedError, StatusError

MOST_POINTS = 40
POLL_SECONDS = 0.0005
NOT_KILLED = "the shim fails although it was not killed: {}"


def _lines(shim: ShimDriver) -> int:
    try:
        return (shim.bundle / FILE).read_bytes().count(b"\n")
    except OSError:
        return 0


def _run(shim: ShimDriver) -> None:
    """A whole lifecycle, up to Delete."""
    task = shim.create()
    task.start()
    task.kill(SIGKILL)
    task.wait()
    task.delete()


class _Killer:
    """Kills the daemon as soon as its ledger has so many lines."""

    def __init__(self, shim: ShimDriver, point: int) -> None:
        #: Set before the kill: connections close while the process still exits.
        self.has_killed = False
        self._shim = shim
        self._point = point
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._finished.set()
        self._thread.join(EXIT_TIMEOUT)

    def _watch(self) -> None:
        while not self._finished.is_set():
            if self._shim.pid and _lines(self._shim) >= self._point:
                self.has_killed = True
                self._shim.kill()
                return
            self._finished.wait(POLL_SECONDS)


def ledger_steps(context: Context) -> str:
    node = context.node
    node.image()
    whole = ShimDriver(context, node.new_id("crash"), windows_spec(FOREVER))
    _run(whole)
    points = min(_lines(whole), MOST_POINTS)
    whole.shutdown()
    killed = 0
    for point in range(1, points + 1):
        shim = ShimDriver(context, node.new_id(f"crash{point}"), windows_spec(FOREVER))
        killer = _Killer(shim, point)
        try:
            _run(shim)
        except (StatusError, ClosedError, OSError) as error:
            if not killer.has_killed:
                raise StepFailed(NOT_KILLED.format(error)) from None
            killed += 1
        finally:
            killer.stop()
        shim.kill()
        try:
            shim.delete()
        except StepFailed as error:
            raise StepFailed(f"killed at line {point} of its ledger: {error}", error.next_step) from None
    context.details["points"] = points
    context.details["killed during a call"] = killed
    return f"killed at {points} lines of the ledger ({killed} during a call); delete released everything"


def hcs_calls(context: Context) -> str:
    """The emulator kills the shim at an HCS call itself, so that no moment is missed."""
    node = context.node
    if not node.emulator:
        raise StepSkipped("only the emulator can kill its caller")
    from runhcs import emulator

    if emulator.command(node.emulator, "status")["systems"]:
        raise StepSkipped("other containers run on this emulator, whose shims would be killed", "use another one")
    added: list[int] = []

    def clear() -> None:
        while added:
            emulator.command(node.emulator, "fault-clear", id=added.pop())

    def has_triggered(fault: int) -> bool:
        """Not whether the shim runs: its connections close while it still exits."""
        faults = emulator.command(node.emulator, "fault-list")["faults"]
        return any(one["id"] == fault and one["triggered"] for one in faults)

    context.on_cleanup(clear)
    points = 0
    for nth in range(1, MOST_POINTS + 1):
        failure = ""
        shim = ShimDriver(context, node.new_id(f"call{nth}"), windows_spec(FOREVER))
        task = shim.start()
        fault = emulator.command(node.emulator, "fault-add", call="*", nth=nth, kill_client="before")["fault"]
        added.append(fault["id"])
        try:
            task.create(rootfs=[node.layer_mount(shim.id)])
            task.start()
            task.kill(SIGKILL)
            task.wait()
            task.delete()
        except (StatusError, ClosedError, OSError) as error:
            failure = str(error)
            points += 1
        was_killed = has_triggered(fault["id"])
        clear()
        if failure and not was_killed:
            raise StepFailed(NOT_KILLED.format(failure))
        shim.kill()
        try:
            shim.delete()
        except StepFailed as error:
            raise StepFailed(f"killed at HCS call {nth}: {error}", error.next_step) from None
        if not was_killed:
            break
    return f"killed at {points} HCS calls; delete released everything"


STEPS = [
    Step("crash-ledger", "delete releases everything after a kill at each line of the ledger", ledger_steps, 300.0),
    Step("crash-calls", "delete releases everything after a kill at each HCS call (emulator)", hcs_calls, 300.0),
]
