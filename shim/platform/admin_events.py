"""Entries for administrators: what a node's monitoring should see without reading containerd's log.

On Windows they go to the Application event log, with the source `containerd-shim-runhcs` that `runhcs install`
registers. On Linux there is no such log, and the shim's own log says the same.

Imported only when there is something to report.
"""

from __future__ import annotations

import sys

#: Event ids. The message file of the source (EventCreate.exe) has texts for 1 to 1000.
SHIM_CRASHED = 1
VM_LOST = 2
RESOURCES_LEAKED = 3

SOURCE = "containerd-shim-runhcs"


def report(event: int, message: str) -> None:
    """Add an entry of type error. Never raises: a full or missing event log must not affect a task."""
    if sys.platform != "win32":
        return
    from shim.platform.windows.event_log import report_error

    report_error(SOURCE, event, message)
