"""The control endpoint of a shared daemon (`shim.commands.shared`): a socket on Linux, a named pipe on Windows."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from shim.platform.windows.shared import (
        GREETING_TIMEOUT,
        START_TIMEOUT,
        ControlEndpoint,
        CrashLog,
        Joined,
        connect,
        control_path,
        crash_text,
        discard,
        hand_over,
        listen,
        path_instead,
        read_options,
        receive,
        remove,
        remove_stale,
        report_ready,
        wait_greeting,
    )
else:
    from shim.platform.linux.shared import (
        GREETING_TIMEOUT,
        START_TIMEOUT,
        ControlEndpoint,
        CrashLog,
        Joined,
        connect,
        control_path,
        crash_text,
        discard,
        hand_over,
        listen,
        path_instead,
        read_options,
        receive,
        remove,
        remove_stale,
        report_ready,
        wait_greeting,
    )

__all__ = [
    "GREETING_TIMEOUT",
    "START_TIMEOUT",
    "ControlEndpoint",
    "CrashLog",
    "Joined",
    "connect",
    "control_path",
    "crash_text",
    "discard",
    "hand_over",
    "listen",
    "path_instead",
    "read_options",
    "receive",
    "remove",
    "remove_stale",
    "report_ready",
    "wait_greeting",
]
