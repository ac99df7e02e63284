"""Compile the shim into two files: the program that Python runs (`boot.py`), and the bundle of all modules.

`bytecode.py` strips what no process needs."""

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
from launcher.linux.atomic_install import write_atomically

BOOT = Path(__file__).with_name("boot.py")
NAME = "containerd-shim-runhcs-v1"
# What `start` and `delete` import, and what a daemon imports before its first answer; all others are imported later.
# The same lists as in tests/support/import_budget.py, which tests/unit/repository/test_import_budget.py compares.
COMMANDS = frozenset(
    (
        "shim", "shim.__main__", "shim.commands", "shim.commands.start", "shim.commands.delete", "shim.lean_json",
        "shim.platform", "shim.platform.linux", "shim.platform.linux.files", "shim.platform.linux.endpoint",
        "shim.platform.linux.daemon", "shim.api", "shim.api.wire", "shim.task", "shim.task.exit_record",
    )
)  # fmt: skip
DAEMON = frozenset(
    (
        "shim", "shim.__main__", "shim.logs", "shim.spans", "shim.threads",
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
# What a daemon imports before its first answer if there are options on stdin.
OPTIONS = frozenset(
    (
        "shim.commands.bootstrap", "shim.api.bootstrap", "shim.api.wellknown", "shim.api.runhcs_options",
        "shim.api.runtimeoptions",
    )
)
# Extension modules of the standard library.
EXTENSIONS = ("_socket", "_json", "_heapq", "_queue", "_sha256", "_sha2", "_struct", "fcntl", "math", "select")


COMPILER = Path(bytecode.__file__)
COMPILE_TIMEOUT = 120.0
_compiled: dict[tuple[Path, int, int], bytes] = {}  # for tests, which install often


def compile_files(modules: Sequence[tuple[Path, str]]) -> list[bytes]:
    """The marshalled code of files, each with the file name that tracebacks show, compiled by a child process."""
    command = [sys.executable, "-I", "-X", "no_debug_ranges", str(COMPILER)]
    listing = "".join(f"{path}\t{name}\n" for path, name in modules)
    done = subprocess.run(
        command, input=os.fsencode(listing), stdout=subprocess.PIPE, timeout=COMPILE_TIMEOUT, check=True
    )
    codes: list[bytes] = marshal.loads(done.stdout)
    return codes


def _compile_changed(files: Sequence[tuple[Path, int, int]]) -> None:
    new = [key for key in files if key not in _compiled]
    if new:
        _compiled.update(zip(new, compile_files([(path, str(path)) for path, *_ in new]), strict=True))


# Path below the root, time and size of the source; offset and length of the code in the bundle.
Entry = tuple[str, int, int, int, int]


def _name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _index(modules: dict[str, tuple[str, int, int, bytes]], offset: int) -> dict[str, Entry]:
    """The index of modules whose code is written one after the other from the offset on."""
    entries: dict[str, Entry] = {}
    for name, (source, time, size, code) in modules.items():
        entries[name] = (source, time, size, offset, len(code))
        offset += len(code)
    return entries


def write_bundle(directory: Path, root: Path, packages: str) -> Path:
    """Write both files into the directory; returns the program. Files are replaced, never changed, since a launcher may
    be reading them. A daemon whose bundle has been removed imports by path."""
    first: dict[str, tuple[str, int, int, bytes]] = {}
    others: dict[str, tuple[str, int, int, bytes]] = {}
    paths = sorted((root / "shim").rglob("*.py"))
    files = [(path, status.st_mtime_ns, status.st_size) for path, status in ((path, path.stat()) for path in paths)]
    _compile_changed(files)
    for key in files:
        path, time, size = key
        name = _name(path, root)
        group = first if name in COMMANDS or name in DAEMON or name in OPTIONS else others
        group[name] = (str(path.relative_to(root)), time, size, _compiled[key])
    before = sum(len(code) for *_, code in first.values())
    length = len(marshal.dumps(_index(others, 1 << 30)))  # the same for all offsets: marshal writes four bytes
    index = marshal.dumps(_index(others, before + length)).ljust(length, b"\0")
    codes = [[code for *_, code in group.values()] for group in (first, others)]
    data = b"".join([*codes[0], index, *codes[1]])
    directory.mkdir(parents=True, exist_ok=True)
    # Named by content, so that the offsets in the program always fit the bundle.
    file = directory / f"modules-{hashlib.sha256(data).hexdigest()[:16]}"
    write_atomically(file, data, 0o644)
    modules = _index(first, 0)
    call = f"run({str(root)!r}, {packages!r}, {modules!r}, {_extensions()!r}, {str(file)!r}, {before}, {length})\n"
    code = compile(BOOT.read_text() + call, NAME, "exec", dont_inherit=True, optimize=2)
    # The header of a .pyc that is never compared with a source: flags 1 (by hash), unchecked.
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    program = directory / f"{NAME}.pyc"
    write_atomically(program, header + marshal.dumps(code), 0o644)
    for old in directory.glob("modules-*"):
        if old != file:
            old.unlink(missing_ok=True)
    return program


def _extensions() -> dict[str, str]:
    found = {name: importlib.util.find_spec(name) for name in EXTENSIONS}
    return {name: spec.origin for name, spec in found.items() if spec and spec.origin and spec.has_location}
