"""What containerd's clients on this operating system send, and which message types they can decode.

On Windows they decode the types of Microsoft's shim. On Linux:

| client | Stats | Pids |
| --- | --- | --- |
| CRI, Prometheus endpoint | cgroup metrics only; another type fails the list of all containers | not decoded |
| ctr 1.7 and later | both | fails on any type but runc's |
| ctr 1.6 | cgroup metrics only | fails on any type but runc's |

CRI on Linux names a FIFO for stderr also with a terminal, but does not create it.
containerd 1.6 is recognised by a variable that it does not set in a shim's environment.
"""

from __future__ import annotations

import os
import sys


def needs_cgroup_metrics(*, under_cri: bool) -> bool:
    """Whether Stats must return cgroup metrics for a container that was (not) created by CRI."""
    if sys.platform == "win32":
        return False
    return under_cri or ("GOMAXPROCS" in os.environ and "MAX_SHIM_VERSION" not in os.environ)


def names_stderr_of_terminals() -> bool:
    """Whether a request for a terminal may name a stderr, which then has no meaning."""
    return sys.platform != "win32"


def accepts_runhcs_process_details() -> bool:
    """Whether a Pids response may carry `containerd.runhcs.v1.ProcessDetails`."""
    return sys.platform == "win32"
