"""The streams of containerd's clients, and what moves their bytes."""

from __future__ import annotations

import sys

TYPE_CHECKING = False

if sys.platform == "win32":
    from shim.platform.windows.stdio_pipes import (
        Pump,
        Relay,
        close,
        duplicate,
        has_reader,
        keep,
        open_file,
        open_input,
        open_output,
        start_logger,
        unread,
    )

    if TYPE_CHECKING:
        from shim.platform.windows.binary_logger import Logger as Logger
else:
    from shim.platform.linux.fifos import (
        Pump,
        Relay,
        close,
        duplicate,
        has_reader,
        keep,
        open_file,
        open_input,
        open_output,
        start_logger,
        unread,
    )

    if TYPE_CHECKING:
        from shim.platform.linux.binary_logger import Logger as Logger

__all__ = [
    "Pump", "Relay", "close", "duplicate", "has_reader", "keep", "open_file", "open_input", "open_output",
    "start_logger", "unread",
]  # fmt: skip
