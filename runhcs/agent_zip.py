r"""The agent of a Windows node: a second zip, unpacked beside `runhcs.exe`, which has no libraries for it.

It has a Python of its own, which runs `runhcs agent`. That process ends with this one, also if this one is killed.
"""

from __future__ import annotations

import os
import sys

from runhcs.extras import pip_command
from shim.version import VERSION

FOLDER = "containerd-shim-runhcs-agent"
PACKAGES_FOLDER = "site-packages"
#: Where all of its packages are published for.
ARCHITECTURES = ("amd64",)


def _python() -> str:
    return os.path.join(os.path.dirname(sys.executable), FOLDER, "python.exe")


def is_unpacked() -> bool:
    return os.path.isfile(_python())


def next_step() -> str:
    """For a node without it."""
    from shim.platform import host

    if host.architecture() not in ARCHITECTURES:
        return f"there is no agent for Windows on {host.architecture()}, since gRPC is not published for it"
    name = f"containerd-shim-runhcs-{VERSION}-windows-{host.architecture()}-agent.zip"
    where = os.path.dirname(sys.executable)
    return (
        f"the agent is not on this node: unpack {name} of the same release into {where}, and run it again; or install "
        f"it into a Python of your own: {pip_command('agent')}"
    )


def run(arguments: list[str]) -> int:
    """Run the agent until it exits; returns its exit code."""
    import subprocess

    from shim.platform.windows import kill_on_close

    # Nothing is written beside the program. Its own modules only: no PYTHONPATH, no packages of a user.
    with subprocess.Popen([_python(), "-I", "-B", "-m", "runhcs", *arguments]) as process:
        kill_on_close.adopt(int(process._handle))  # type: ignore[attr-defined]
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # Ctrl+C goes to both; the agent decides
