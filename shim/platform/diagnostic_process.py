"""Processes on the host that the diagnostics service starts."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.platform.job_types import Process


def start(args: Sequence[str], directory: str, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool) -> Process:
    """Start a program with the privileges of this process. Raises OSError."""
    if sys.platform == "win32":
        from shim.platform.windows import diagnostic_process as windows

        return windows.start(args, directory, stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal)
    from shim.platform.linux.diagnostic_process import DiagnosticProcess

    return DiagnosticProcess(args, directory, stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal)
