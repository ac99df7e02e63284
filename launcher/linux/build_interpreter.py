"""Link an interpreter for the shim: `embedded/interpreter.c` and the static library of this very Python.

Whoever distributes Python decides whether there is such a library, and headers (on Debian: libpython3-dev). Without
them, without a compiler, or when the result does not do what the real interpreter does, there is none, and the real one
is used: everything works, a start takes longer.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import marshal
import os
import shlex
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from launcher.linux.build import HERE, keep
from launcher.linux.bundle import compile_lean

SOURCE = HERE / "embedded" / "interpreter.c"
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-s", "-no-pie"]
# What every interpreter loads first, and where it is in the standard library.
BOOTSTRAP = {"_frozen_importlib": "importlib._bootstrap", "_frozen_importlib_external": "importlib._bootstrap_external"}
# What it loads next; of the rest, what a daemon may load with some tasks.
FROZEN = (
    "abc", "codecs", "io", "encodings", "encodings.aliases", "encodings.utf_8",
    "os", "stat", "genericpath", "posixpath", "_collections_abc",
)  # fmt: skip
NOTHING = Path(os.devnull)
ASK = """
import sys, json, posix
print(json.dumps([sys.version, sys.path, sys.prefix, sys.exec_prefix, sys._stdlib_dir, sys.platlibdir]))
"""
# What a daemon loads, compared between the two interpreters.
TRY = """
import sys, _socket, _json, os, threading, select, fcntl, _signal
print([sys.version, sys.path, sys.prefix, sys.flags.isolated, sys.flags.no_site, sys.getfilesystemencoding(),
       sys.argv[1:], sys._xoptions, _signal.getsignal(_signal.SIGPIPE), _signal.getsignal(_signal.SIGINT)])
"""


class NoInterpreterError(Exception):
    """None can be linked here. The message says why."""


@functools.cache  # tests install often
def linked(python: str) -> bytes:
    """The interpreter; `python` is the one it stands for."""
    facts = _facts(python)
    library = Path(sysconfig.get_config_var("LIBPL") or "", sysconfig.get_config_var("LIBRARY") or "")
    if library.suffix != ".a" or not library.is_file():
        raise NoInterpreterError("this Python comes without a static library")
    state = (library.stat().st_mtime_ns, library.stat().st_size, FLAGS)
    stamp = hashlib.sha256(SOURCE.read_bytes() + facts.encode() + repr(state).encode()).hexdigest()[:16]
    kept = HERE / "build" / f"interpreter-{stamp}"
    try:
        return kept.read_bytes()
    except OSError:
        pass
    with tempfile.TemporaryDirectory(prefix="runhcs-interpreter-") as directory:
        program = Path(directory, "interpreter")
        Path(directory, "facts.h").write_text(facts)
        _link(program, library, Path(directory))
        _compare(python, program, Path(directory))
        keep(program, kept)
        return program.read_bytes()


def _facts(python: str) -> str:
    """What the interpreter would find out, as C."""
    done = subprocess.run([python, "-IS", "-c", ASK], capture_output=True, text=True, timeout=60, check=True)
    version, path, prefix, exec_prefix, stdlib, platlibdir = json.loads(done.stdout)
    lines = [f"/* {version.splitlines()[0]} */".replace("*/ */", "*/")]
    texts = {"PREFIX": prefix, "EXEC_PREFIX": exec_prefix, "STDLIB": stdlib, "PLATLIBDIR": platlibdir}
    lines += [f"#define {name} L{json.dumps(text)}" for name, text in texts.items()]
    lines.append(f"#define SEARCH_PATH {', '.join('L' + json.dumps(place) for place in path)}")
    magic = "".join(f"\\x{byte:02x}" for byte in importlib.util.MAGIC_NUMBER)
    lines.append(f'#define MAGIC "{magic}"')
    if any(Path(place).is_file() for place in path):
        raise NoInterpreterError("this Python's library is an archive, which takes zipimport to read")
    bootstrap = {name: (original, _source(stdlib, original)) for name, original in BOOTSTRAP.items()}
    lines += ["#include <stdbool.h>", *_frozen("bootstrap_modules", {"zipimport": ("nothing", NOTHING)} | bootstrap)]
    lines += _frozen("frozen_modules", {name: (name, _source(stdlib, name)) for name in FROZEN})
    aliases = "".join(f'{{"{name}", "{original}"}}, ' for name, original in BOOTSTRAP.items())
    lines.append(f"#define ALIASES {aliases}{{NULL, NULL}}")
    return "\n".join(lines) + "\n"


def _source(stdlib: str, name: str) -> Path:
    path = Path(stdlib, *name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _frozen(table: str, modules: dict[str, tuple[str, Path]]) -> list[str]:
    """A table of modules, as C. Each has a name for tracebacks, and a file."""
    codes = compile_lean([(file, f"<frozen {shown}>") for shown, file in modules.values()])
    lines, entries = [], []
    for (name, (_, file)), code in zip(modules.items(), codes, strict=True):
        constant = f"code_{name.replace('.', '_')}"
        lines.append(f"static const unsigned char {constant}[] = {{{','.join(map(str, code))}}};")
        is_package = "true" if file.name == "__init__.py" else "false"
        entries.append(f'{{.name = "{name}", .code = {constant}, .size = {len(code)}, .is_package = {is_package}}}')
    entries.append("{.name = NULL}")
    return [*lines, f"static const struct _frozen {table}[] = {{{', '.join(entries)}}};"]


def _link(program: Path, library: Path, facts: Path) -> None:
    variable = sysconfig.get_config_var
    command = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS, f"-I{facts}", f"-I{variable('INCLUDEPY')}"]
    command += [str(SOURCE), str(library), "-o", str(program)]
    for name in ("LIBS", "SYSLIBS", "LINKFORSHARED"):
        command += shlex.split(variable(name) or "")
    command += ["-lpthread", "-lutil"]
    try:
        for more in ([], ["-lexpat", "-lz"]):  # Debian's has modules that need them
            done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=120)
            if done.returncode == 0:
                return
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoInterpreterError(str(error)) from None
    raise NoInterpreterError(done.stderr.strip().rpartition("\n")[2] or f"{command[0]} failed")


def _compare(python: str, program: Path, directory: Path) -> None:
    """Both must say the same of themselves."""
    file = directory / "try.pyc"
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    file.write_bytes(header + marshal.dumps(compile(TRY, "try", "exec", dont_inherit=True)))
    said = []
    for interpreter in (python, str(program)):
        command = [interpreter, "-IS", "-X", "a=b", str(file), "word", "ä"]
        environment = {"LC_ALL": "C.UTF-8", "PYTHONPATH": "/nowhere"}
        try:
            done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoInterpreterError(str(error)) from None
        said.append((done.returncode, done.stdout, done.stderr))
    if said[0] != said[1] or said[0][0] != 0:
        raise NoInterpreterError(f"the linked interpreter differs: {said[1]!r} for {said[0]!r}")
