"""The installed files: who may write them, and whether they are signed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from runhcs.selftest.runner import Context, Step, StepFailed
from shim.platform import host


def files(context: Context) -> str:
    program = Path(context.node.program)
    return _linux(context, program) if host.IS_EMULATED else _windows(context, program)


def _linux(context: Context, program: Path) -> str:
    """The launcher runs as root: only root may write it."""
    found = os.stat(program)
    context.details[str(program)] = f"{stat.filemode(found.st_mode)} uid {found.st_uid}"
    if not found.st_mode & stat.S_IXUSR:
        raise StepFailed(f"{program} is not executable", "run `runhcs install` again")
    if found.st_mode & 0o022 or found.st_uid not in (0, os.geteuid()):
        raise StepFailed(f"{program} can be written by other users", f"chown root {program}; chmod 755 {program}")
    return f"{program} is executable, and only its owner can write it"


def _windows(context: Context, program: Path) -> str:
    from runhcs.selftest.windows import signatures, unprotected

    folder = program.parent / "containerd-shim-runhcs"
    paths = [program, program.parent / "runhcs.exe", *sorted(path for path in folder.rglob("*"))]
    paths = [program.parent, folder, *(path for path in paths if path.exists())]
    problems = unprotected(paths)
    context.details["writable by others"] = [str(path) for path in problems]
    states = signatures([path for path in paths if path.suffix in (".exe", ".dll", ".pyd")])
    context.details["signatures"] = states
    tampered = [path for path, state in states.items() if state in ("HashMismatch", "NotTrusted")]
    if tampered:
        raise StepFailed(f"the signature is broken: {', '.join(tampered)}", "unpack the distribution again")
    if problems:
        names = ", ".join(path.name for path in problems[:3])
        step = "`runhcs install` sets owner and access control list"
        raise StepFailed(f"other users can write {len(problems)} of {len(paths)} files, e.g. {names}", step)
    signed = sum(state == "Valid" for state in states.values())
    return f"{len(paths)} files, only administrators can write them; {signed} of {len(states)} programs are signed"


STEPS = [Step("files", "only administrators can write the installed files, and no signature is broken", files)]
