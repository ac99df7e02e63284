"""A process on the host, for diagnostics, in a job of its own: its child processes are terminated with it."""

from __future__ import annotations

import nt

from shim.platform.job_types import INHERIT, Identity, JobError, Launch
from shim.platform.windows.daemon import neutral_directory, quote
from shim.platform.windows.job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.platform.windows.job_process import JobProcess


def start(
    args: Sequence[str], directory: str, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool
) -> JobProcess:
    """Start a program with the privileges of this process. Raises OSError."""
    try:
        job = Job(f"diagnostics-{nt.urandom(8).hex()}")
        try:
            job.log_on(Identity(INHERIT))
            launch = Launch(
                quote(list(args)),
                directory or neutral_directory(),
                job.environment(),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                console=terminal,
            )
            process = job.spawn(launch)
        except BaseException:
            job.close()
            raise
    except JobError as error:
        raise OSError(error.code, error.message) from error
    process.on_exit(lambda _: job.close())
    return process
