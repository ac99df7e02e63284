"""Compile the shim into the two files that `boot.py` describes, without what no process needs (`bytecode.py`)."""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from launcher.common import bytecode
from launcher.linux.atomic_install import write_whole

BOOT = Path(__file__).with_name("boot.py")
NAME = "containerd-shim-runhcs-v1"
# What `start` and `delete` load, and what a daemon loads before it can answer. The rest is loaded later.
# tests/emulated/commands/test_import_budget.py holds the same lists.
COMMANDS = frozenset(
    (
        "shim", "shim.__main__", "shim.commands", "shim.commands.start", "shim.commands.delete", "shim.lean_json",
        "shim.platform", "shim.platform.linux", "shim.platform.linux.files", "shim.platform.linux.endpoint",
        "shim.platform.linux.daemon", "shim.api", "shim.api.wire", "shim.task", "shim.task.exit_record",
    )
)  # fmt: skip
DAEMON = frozenset(
    (
        "shim", "shim.__main__", "shim.logs", "shim.spans",
        "shim.commands", "shim.commands.adopted", "shim.commands.serve",
        "shim.platform", "shim.platform.log_channel", "shim.platform.linux", "shim.platform.linux.files",
        "shim.platform.linux.endpoint", "shim.platform.linux.daemon", "shim.platform.linux.log_channel",
        "shim.api", "shim.api.wire",
        "shim.task", "shim.task.context", "shim.task.errors", "shim.task.events", "shim.task.events.publisher",
        "shim.task.pod", "shim.task.service", "shim.task.diagnostics", "shim.task.diagnostics.stacks",
        "shim.ttrpc", "shim.ttrpc.call", "shim.ttrpc.connection", "shim.ttrpc.core", "shim.ttrpc.deadlines",
        "shim.ttrpc.envelope", "shim.ttrpc.outbox", "shim.ttrpc.server", "shim.ttrpc.sockets", "shim.ttrpc.status",
        "shim.ttrpc.streams", "shim.ttrpc.transport", "shim.ttrpc.workers",
    )
)  # fmt: skip
# Of the standard library, where they are files of their own.
EXTENSIONS = ("_socket", "_json", "_heapq", "_queue", "_sha256", "_sha2", "_struct", "fcntl", "math", "select")


COMPILER = Path(bytecode.__file__)
COMPILE_TIME = 120.0
_kept: dict[tuple[Path, int, int], bytes] = {}  # tests install often


def compile_lean(modules: Sequence[tuple[Path, str]]) -> list[bytes]:
    """The marshalled codes of files, each with the name that tracebacks show, by an interpreter like this one."""
    command = [sys.executable, "-I", "-X", "no_debug_ranges", str(COMPILER)]
    listing = "".join(f"{path}\t{name}\n" for path, name in modules)
    done = subprocess.run(command, input=os.fsencode(listing), stdout=subprocess.PIPE, timeout=COMPILE_TIME, check=True)
    codes: list[bytes] = marshal.loads(done.stdout)
    return codes


def _compile_changed(files: Sequence[tuple[Path, int, int]]) -> None:
    new = [key for key in files if key not in _kept]
    if new:
        _kept.update(zip(new, compile_lean([(path, str(path)) for path, *_ in new]), strict=True))


# The source's path in the package's root, its time and size, and offset and length of its code in the file.
Entry = tuple[str, int, int, int, int]


def _name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _place(modules: dict[str, tuple[str, int, int, bytes]], offset: int) -> dict[str, Entry]:
    """The modules, their codes one after the other from the offset on."""
    placed: dict[str, Entry] = {}
    for name, (source, time, size, code) in modules.items():
        placed[name] = (source, time, size, offset, len(code))
        offset += len(code)
    return placed


def write_bundle(directory: Path, root: Path, packages: str) -> Path:
    """Write both files into the directory; the one to run. One that a running launcher may be reading is replaced,
    never changed; a daemon that still looks for modules in the previous file imports them by path."""
    first: dict[str, tuple[str, int, int, bytes]] = {}
    others: dict[str, tuple[str, int, int, bytes]] = {}
    paths = sorted((root / "shim").rglob("*.py"))
    files = [(path, status.st_mtime_ns, status.st_size) for path, status in ((path, path.stat()) for path in paths)]
    _compile_changed(files)
    for key in files:
        path, time, size = key
        name = _name(path, root)
        group = first if name in COMMANDS or name in DAEMON else others
        group[name] = (str(path.relative_to(root)), time, size, _kept[key])
    before = sum(len(code) for *_, code in first.values())
    length = len(marshal.dumps(_place(others, 1 << 30)))  # whatever the offsets: a number has four bytes
    index = marshal.dumps(_place(others, before + length)).ljust(length, b"\0")
    codes = [[code for *_, code in group.values()] for group in (first, others)]
    data = b"".join([*codes[0], index, *codes[1]])
    directory.mkdir(parents=True, exist_ok=True)
    # By content: whoever has the name of the one file has the length of its index, too.
    file = directory / f"modules-{hashlib.sha256(data).hexdigest()[:16]}"
    write_whole(file, data, 0o644)
    modules = _place(first, 0)
    call = f"begin({str(root)!r}, {packages!r}, {modules!r}, {_extensions()!r}, {str(file)!r}, {before}, {length})\n"
    boot = compile(BOOT.read_text() + call, NAME, "exec", dont_inherit=True, optimize=2)
    # The header of a .pyc that is never compared with a source: flags 1 (by hash), unchecked.
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    program = directory / f"{NAME}.pyc"
    write_whole(program, header + marshal.dumps(boot), 0o644)
    for old in directory.glob("modules-*"):
        if old != file:
            old.unlink(missing_ok=True)
    return program


def _extensions() -> dict[str, str]:
    found = {name: importlib.util.find_spec(name) for name in EXTENSIONS}
    return {name: spec.origin for name, spec in found.items() if spec and spec.origin and spec.has_location}
