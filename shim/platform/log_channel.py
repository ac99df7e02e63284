"""The channel through which containerd reads the log."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from shim.platform.windows.log_channel import LogChannel
else:
    from shim.platform.linux.log_channel import LogChannel

__all__ = ["LogChannel"]
