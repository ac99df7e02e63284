"""Put a fast launcher of the shim where containerd finds it.

containerd starts containerd-shim-runhcs-v1 at least twice for every container, so what happens before the shim's first
line counts. The script that pip makes runs Python's `site`, which scans site-packages and its .pth files: 5 to 40 ms
that the shim has no use for. What is written here instead:

- BINDIR/containerd-shim-runhcs-v1, a small native program that runs Python without `site` (with no C compiler at
  hand, a script that does the same), or lets a standby do the work where that is switched on;
- BINDIR/../lib/containerd-shim-runhcs/, the shim's modules, compiled, so that none has to be looked for (sources that
  have been changed since are noticed and used instead), and, where Python comes with a static library, an interpreter
  that is linked from it and starts in half the time.

With --standby, `start` leaves a warm Python process behind that runs the next commands in forks of itself, about ten
times quicker than a cold start; it goes when nobody has needed it for 15 minutes. RUNHCS_STANDBY=1 or 0 in containerd's
environment overrides.

Both point at this checkout and this virtual environment; run `runhcs install` again after moving either.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import sysconfig
from pathlib import Path

from launcher.linux.atomic_install import write_atomically
from launcher.linux.build import NoCompilerError, compile_launcher, with_settings
from launcher.linux.build_interpreter import NoInterpreterError, link_interpreter
from launcher.linux.bundle import write_bundle
from runhcs.installation import NAME, ROOT, library

# The kernel reads this much of a script's first line.
MAX_SHEBANG = 255


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bindir",
        metavar="DIR",
        default="/usr/local/bin",
        help="directory for the launcher, one in containerd's PATH (default: %(default)s)",
    )
    parser.add_argument("--standby", action="store_true", help="keep a warm spare process that `start` forks from")


def python() -> str:
    """The interpreter itself: the one of a virtual environment first looks for where it belongs, which takes a sixth of
    its start."""
    return str(Path(getattr(sys, "_base_executable", None) or sys.executable).resolve())


def script(interpreter: str, program: Path) -> bytes:
    """The launcher where there is no C compiler."""
    first = f"#!{interpreter} -IS\n"
    if len(first) > MAX_SHEBANG:
        raise OSError(f"{interpreter} is too long for a script's first line: move Python to a shorter path")
    return (
        f"{first}# Written by `runhcs install`: the shim without Python's site module.\n"
        "import marshal\n"
        f"with open({str(program)!r}, 'rb') as file:\n"
        "    exec(marshal.loads(file.read()[16:]))\n"
    ).encode()


def write_launcher(bindir: Path, standby: bool = False, *, native: bool = True, root: Path = ROOT) -> Path:
    """The launcher, and beside its directory what it runs: the package `shim` in `root`."""
    bindir.mkdir(parents=True, exist_ok=True)
    program = write_bundle(library(bindir), root, sysconfig.get_paths()["platlib"])
    target = bindir / NAME
    try:
        if not native:
            raise NoCompilerError("not wanted")
        data = with_settings(compile_launcher(), python(), str(program), standby, write_interpreter(library(bindir)))
    except NoCompilerError:
        data = script(python(), program)
    write_atomically(target, data, 0o755)
    return target


def write_interpreter(directory: Path) -> str:
    """The path of the linked interpreter; "" if there can be none here."""
    try:
        data = link_interpreter(python())
    except NoInterpreterError:
        return ""
    target = directory / f"python-{hashlib.sha256(data).hexdigest()[:16]}"
    if not target.exists():
        write_atomically(target, data, 0o755)
        for old in directory.glob("python-*"):
            if old != target:
                old.unlink(missing_ok=True)
    return str(target)


def run(args: argparse.Namespace) -> int:
    try:
        target = write_launcher(Path(args.bindir), args.standby)
    except OSError as error:
        print(f"runhcs install: {error}; choose a writable directory with --bindir", file=sys.stderr)
        return 1
    print(f"{target} runs the shim; containerd uses it for --runtime io.containerd.runhcs.v1")
    if target.read_bytes()[:2] == b"#!":
        print("It is a script, as no C compiler was found: install gcc and libc6-dev, and run this again for speed.")
    return 0
