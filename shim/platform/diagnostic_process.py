"""Processes on the host itself, which only diagnostics start."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.platform.job_types import Process


def run(args: Sequence[str], directory: str, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool) -> Process:
    """Start a program with the rights of this process. Raises OSError."""
    if sys.platform == "win32":
        from shim.platform.windows import diagnostic_process as windows

        return windows.run(args, directory, stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal)
    from shim.platform.linux.diagnostic_process import HostProcess

    return HostProcess(args, directory, stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal)
