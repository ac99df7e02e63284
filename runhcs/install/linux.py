"""Install the launcher of the shim, containerd-shim-runhcs-v1, on Linux.

containerd executes containerd-shim-runhcs-v1 at least twice per container, so the time before the first line of the
shim counts. The script that pip writes imports Python's `site`, which scans site-packages: 5 to 40 ms without use for
the shim. This command writes instead:

- BINDIR/containerd-shim-runhcs-v1, a C program that performs the common cases of `start` and `delete` itself and runs
  Python for the rest. Without a C compiler it is a script that runs Python without `site`.
- BINDIR/../lib/containerd-shim-runhcs/, the compiled modules of the shim in one file. A source that has changed since
  is used instead of its compiled module.
- In the same directory, if Python has a static library (on Debian: libpython3-dev), an interpreter linked from it. It
  starts faster and uses less memory. It is used as long as Python itself is unchanged; --no-link-interpreter omits it.

With --standby, `start` leaves a warm process that becomes the daemon of the next `start`. It exits when it has not
been used for 15 minutes. RUNHCS_STANDBY=1 or 0 in the environment of containerd overrides the option.

The files refer to this checkout and this virtual environment: run `runhcs install` again after moving either.

With --directory DIR it installs a version as on a Windows node instead: the files in a directory of their own, the
runtimes in a file that containerd's configuration imports. It runs from a directory that `scripts/node_image.py` made.
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

# The kernel reads this much of the first line of a script.
MAX_SHEBANG = 255


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bindir",
        metavar="DIR",
        default="/usr/local/bin",
        help="directory for the launcher, in containerd's PATH (default: %(default)s)",
    )
    parser.add_argument("--standby", action="store_true", help="keep a warm process for the next `start`")
    parser.add_argument(
        "--link-interpreter",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="link an interpreter from Python's static library, if there is one",
    )
    from runhcs.install import linux_node

    linux_node.configure(parser)


def python() -> str:
    """The real interpreter. That of a virtual environment first searches for it, which takes a sixth of its start."""
    return str(Path(getattr(sys, "_base_executable", None) or sys.executable).resolve())


def script(interpreter: str, program: Path) -> bytes:
    """The launcher without a C compiler."""
    first = f"#!{interpreter} -IS\n"
    if len(first) > MAX_SHEBANG:
        raise OSError(f"{interpreter} is too long for the first line of a script: move Python to a shorter path")
    return (
        f"{first}# Written by `runhcs install`: runs the shim without Python's site module.\n"
        "import marshal\n"
        f"with open({str(program)!r}, 'rb') as file:\n"
        "    exec(marshal.loads(file.read()[16:]))\n"
    ).encode()


def write_launcher(
    bindir: Path,
    standby: bool = False,
    *,
    native: bool = True,
    linked: bool = True,
    root: Path = ROOT,
    packages: str = "",
) -> Path:
    """Write the launcher and its files for the package `shim` in `root`. `native`: in C; `linked`: with a linked
    interpreter; `packages`: the directory that has cffi, by default that of this Python."""
    bindir.mkdir(parents=True, exist_ok=True)
    program = write_bundle(library(bindir), root, packages or sysconfig.get_paths()["platlib"])
    target = bindir / NAME
    try:
        if not native:
            raise NoCompilerError("not requested")
        interpreter = write_interpreter(library(bindir)) if linked else ""
        data = with_settings(compile_launcher(), python(), str(program), standby, interpreter)
    except NoCompilerError:
        data = script(python(), program)
        interpreter = ""
    write_atomically(target, data, 0o755)
    for old in library(bindir).glob("python-*"):
        if str(old) != interpreter:
            old.unlink(missing_ok=True)
    return target


def write_interpreter(directory: Path) -> str:
    """The path of the linked interpreter; "" if none can be linked here."""
    try:
        data = link_interpreter(python())
    except NoInterpreterError:
        return ""
    target = directory / f"python-{hashlib.sha256(data).hexdigest()[:16]}"
    if not target.exists():
        write_atomically(target, data, 0o755)
    return str(target)


def run(args: argparse.Namespace) -> int:
    if args.directory:
        from runhcs.install import linux_node

        return linux_node.run(args)
    if args.upgrade or args.uninstall or args.stage or args.rollback:
        print("runhcs install: --upgrade, --uninstall, --stage and --rollback need --directory", file=sys.stderr)
        return 2
    try:
        target = write_launcher(Path(args.bindir), args.standby, linked=args.link_interpreter)
    except OSError as error:
        print(f"runhcs install: {error}; choose a writable directory with --bindir", file=sys.stderr)
        return 1
    print(f"{target} runs the shim; containerd uses it for --runtime io.containerd.runhcs.v1")
    if target.read_bytes()[:2] == b"#!":
        print("It is a script, as no C compiler was found: install gcc and libc6-dev, and run this again for speed.")
    return 0
