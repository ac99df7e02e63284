"""The mapping of `Kill.signal` to what a guest or HCS delivers.

The task API has Unix signal numbers. A Linux process in a VM gets them as they are. A Windows process has console
control events and termination. The mapping is that of Microsoft's shim, so that an image's stop signal keeps its
meaning. Note that for Windows 0 is Ctrl-C, not a liveness probe.
"""

from __future__ import annotations

from shim.task.errors import failed_precondition

SIGKILL = 9
LAST_LINUX_SIGNAL = 31

# Signal number -> HCS's name of the console event. SIGKILL terminates the process.
CONSOLE_EVENTS = {
    0: "CtrlC",
    1: "CtrlBreak",  # SIGHUP
    2: "CtrlClose",  # SIGINT: what ctr forwards for Ctrl-C
    5: "CtrlLogOff",  # SIGTRAP
    6: "CtrlShutdown",  # SIGABRT
    15: "CtrlShutdown",  # SIGTERM
}


def always_terminate(signal: int) -> None:
    """Every signal terminates: for a sandbox without a container."""


def terminate_only(signal: int) -> None:
    """For a guest that cannot send console events: SIGABRT, SIGKILL and SIGTERM terminate, others are refused."""
    if signal not in (6, SIGKILL, 15):
        raise failed_precondition(f"signal {signal}: invalid signal value, this guest takes 6, 9 and 15")


def linux_signal(signal: int) -> int | None:
    """A signal for a Linux process, or None for SIGKILL. Real-time signals are refused."""
    if not 1 <= signal <= LAST_LINUX_SIGNAL:
        raise failed_precondition(
            f"signal {signal}: invalid signal value, a Linux process in a VM takes 1 to {LAST_LINUX_SIGNAL}"
        )
    return None if signal == SIGKILL else signal


def console_event(signal: int) -> str | None:
    """The console event for `signal`, or None if it means "terminate"."""
    if signal == SIGKILL:
        return None
    event = CONSOLE_EVENTS.get(signal)
    if event is None:
        known = ", ".join(str(number) for number in sorted((*CONSOLE_EVENTS, SIGKILL)))
        raise failed_precondition(f"signal {signal}: invalid signal value, a Windows process takes {known}")
    return event
