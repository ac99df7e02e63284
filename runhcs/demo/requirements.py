"""What the demo needs of the machine: each need missed is a sentence with the next step."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from runhcs.demo import DemoError


def check() -> None:
    if sys.platform != "linux":
        raise DemoError("the emulator's home is Linux: run this in a Linux machine or VM (WSL 2 will do)")
    if os.geteuid() != 0:
        raise DemoError("containers are made of namespaces and mounts, which only root may make: run `sudo make demo`")
    _build()
    _compile()
    unshare = shutil.which("unshare")
    if unshare is not None:
        tried = subprocess.run([unshare, "-pmui", "true"], check=False, capture_output=True, timeout=10)
        if tried.returncode:
            raise DemoError(
                "this machine does not allow new namespaces (`unshare -pmui true` fails): in a container, start it "
                "with --privileged"
            )


def _build() -> None:
    """Bring the emulator's programs up to date."""
    from hcs_emulator.native import build

    try:
        build.build()
    except FileNotFoundError:
        raise DemoError(
            "the emulator's library has to be built and there is no C compiler: `apt-get install gcc libc6-dev`, or "
            "name one with CC"
        ) from None
    except subprocess.CalledProcessError as error:
        raise DemoError(
            f"building the emulator's library failed (see above; the compiler ended with {error.returncode}): is "
            "libc6-dev installed?"
        ) from None


def _compile() -> None:
    """Translate the shim's modules now, as an installation does: a first run would otherwise show Python's compiler at
    work, not the shim."""
    import compileall
    from pathlib import Path

    root = Path(__file__).resolve().parents[2]
    for package in ("shim", "hcs_emulator"):
        compileall.compile_dir(root / package, quiet=2)
