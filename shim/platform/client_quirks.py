"""What containerd's clients on this operating system can read.

On Windows they read the types of Microsoft's shim. On Linux:

| client | Stats | Pids |
| --- | --- | --- |
| CRI, Prometheus endpoint | cgroup metrics only; others fail the listing of all containers | types are not read |
| ctr 1.7 and later | both | fails on any type but runc's |
| ctr 1.6 | cgroup metrics only | fails on any type but runc's |

containerd 1.6 is known by what it does not put into a shim's environment.
"""

from __future__ import annotations

import os
import sys


def wants_cgroup_metrics(*, under_cri: bool) -> bool:
    """Whether Stats must come as cgroup metrics for a container that was (not) created by CRI."""
    if sys.platform == "win32":
        return False
    return under_cri or ("GOMAXPROCS" in os.environ and "MAX_SHIM_VERSION" not in os.environ)


def knows_runhcs_process_details() -> bool:
    """Whether an answer to Pids may carry `containerd.runhcs.v1.ProcessDetails`."""
    return sys.platform == "win32"
