"""What runs in a Wine prefix when a program in it does not exit in time: collected before the program is killed.

Whether `ctr.exe`, `containerd.exe`, Wine or the shim hangs can only be seen while it hangs: the threads of all
processes as Linux sees them, the pipes, the stacks of the shims, and the goroutines of containerd.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.wine.conftest import Machine

QUERY_SECONDS = 30.0
MAX_SECTION = 60_000


def report(machine: Machine) -> str:
    """Never raises, and takes a minute or two at most."""
    sections = {"threads": threads(machine.wine.processes())}
    for state in sorted(machine.drive.glob("*/state")):
        windows = f"C:\\{state.parent.name}\\state"
        sections[f"shims of {windows}"] = _ask(machine, r"C:\node\runhcs.exe", "stacks", "--state", windows)
    for ctr in sorted(machine.drive.glob("*/ctr.exe")):
        name = ctr.parent.name
        pprof = ("pprof", "--debug-socket", debug_address(name), "goroutines", "--debug", "2")
        sections[f"goroutines of {name}"] = _ask(machine, rf"C:\{name}\ctr.exe", *pprof)
    return "\n".join(f"== {title}\n{text[:MAX_SECTION]}" for title, text in sections.items())


def debug_address(node: str) -> str:
    """The pipe of containerd's debug service."""
    return rf"\\.\pipe\{node}-debug"


def threads(pids: Iterable[int]) -> str:
    """Each process with its command line, and for each thread the state and the system call in which it waits."""
    lines = []
    for pid in sorted(pids):
        lines.append(f"{pid} {_read(f'/proc/{pid}/cmdline').replace(chr(0), ' ').strip()}")
        for task in sorted(Path(f"/proc/{pid}/task").glob("*"), key=lambda path: int(path.name)):
            state = _read(task / "stat").rpartition(")")[2].split()[:1]
            waits = _read(task / "wchan") or "-"
            call = _read(task / "syscall").split(" ")[0]
            lines.append(f"  {task.name} {_read(task / 'comm')} {''.join(state)} {waits} syscall {call}")
    return "\n".join(lines)


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def _ask(machine: Machine, *command: str) -> str:
    try:
        done = machine.wine.run(*command, timeout=QUERY_SECONDS, is_watched=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"failed: {error}"
    return done.stdout.decode(errors="replace")
