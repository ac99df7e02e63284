"""Link an interpreter for the shim from `embedded/interpreter.c` and the static library of this Python.

It needs the static library and the headers of Python (on Debian: libpython3-dev) and a C compiler. The result is
compared with the real interpreter; if they differ, or if it cannot be linked, the real one is used.
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

from launcher.linux.build import BUILD_DIRECTORY, HERE, store_in_cache
from launcher.linux.bundle import compile_files

SOURCE = HERE / "embedded" / "interpreter.c"
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-s", "-no-pie"]
# The modules that every interpreter loads first, and their sources in the standard library.
BOOTSTRAP = {"_frozen_importlib": "importlib._bootstrap", "_frozen_importlib_external": "importlib._bootstrap_external"}
# The modules that it loads next, and those that a daemon loads for some tasks.
FROZEN = (
    "abc", "codecs", "io", "encodings", "encodings.aliases", "encodings.utf_8",
    "os", "stat", "genericpath", "posixpath", "_collections_abc",
)  # fmt: skip
EMPTY_MODULE = Path(os.devnull)
CONFIGURATION_SCRIPT = """
import sys, json, posix
print(json.dumps([sys.version, sys.path, sys.prefix, sys.exec_prefix, sys._stdlib_dir, sys.platlibdir]))
"""
# Run by both interpreters to compare them: what a daemon imports and depends on.
COMPARISON_SCRIPT = """
import sys, _socket, _json, os, threading, select, fcntl, _signal
print([sys.version, sys.path, sys.prefix, sys.flags.isolated, sys.flags.no_site, sys.getfilesystemencoding(),
       sys.argv[1:], sys._xoptions, _signal.getsignal(_signal.SIGPIPE), _signal.getsignal(_signal.SIGINT)])
"""


class NoInterpreterError(Exception):
    """No interpreter can be linked here. The message has the reason."""


@functools.cache  # for tests, which install often
def link_interpreter(python: str) -> bytes:
    """The interpreter that replaces `python`."""
    configuration = _configuration(python)
    library = Path(sysconfig.get_config_var("LIBPL") or "", sysconfig.get_config_var("LIBRARY") or "")
    if library.suffix != ".a" or not library.is_file():
        raise NoInterpreterError("this Python has no static library")
    state = (library.stat().st_mtime_ns, library.stat().st_size, FLAGS)
    stamp = hashlib.sha256(SOURCE.read_bytes() + configuration.encode() + repr(state).encode()).hexdigest()[:16]
    cached = BUILD_DIRECTORY / f"interpreter-{stamp}"
    try:
        return cached.read_bytes()
    except OSError:
        pass
    with tempfile.TemporaryDirectory(prefix="runhcs-interpreter-") as directory:
        program = Path(directory, "interpreter")
        Path(directory, "configuration.h").write_text(configuration)
        _link(program, library, Path(directory))
        _compare(python, program, Path(directory))
        store_in_cache(program, cached)
        return program.read_bytes()


def _configuration(python: str) -> str:
    """What the interpreter would compute at its start (configuration.h), as C."""
    command = [python, "-IS", "-c", CONFIGURATION_SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    version, path, prefix, exec_prefix, stdlib, platlibdir = json.loads(done.stdout)
    lines = [f"/* {version.splitlines()[0]} */".replace("*/ */", "*/")]
    texts = {"PREFIX": prefix, "EXEC_PREFIX": exec_prefix, "STDLIB": stdlib, "PLATLIBDIR": platlibdir}
    lines += [f"#define {name} L{json.dumps(text)}" for name, text in texts.items()]
    lines.append(f"#define SEARCH_PATH {', '.join('L' + json.dumps(place) for place in path)}")
    magic = "".join(f"\\x{byte:02x}" for byte in importlib.util.MAGIC_NUMBER)
    lines.append(f'#define MAGIC "{magic}"')
    if any(Path(place).is_file() for place in path):
        raise NoInterpreterError("this Python's standard library is an archive, which needs zipimport")
    bootstrap = {name: (original, _source(stdlib, original)) for name, original in BOOTSTRAP.items()}
    lines += ["#include <stdbool.h>", *_frozen("bootstrap_modules", {"zipimport": ("empty", EMPTY_MODULE)} | bootstrap)]
    lines += _frozen("frozen_modules", {name: (name, _source(stdlib, name)) for name in FROZEN})
    aliases = "".join(f'{{"{name}", "{original}"}}, ' for name, original in BOOTSTRAP.items())
    lines.append(f"#define ALIASES {aliases}{{NULL, NULL}}")
    return "\n".join(lines) + "\n"


def _source(stdlib: str, name: str) -> Path:
    path = Path(stdlib, *name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _frozen(table: str, modules: dict[str, tuple[str, Path]]) -> list[str]:
    """A table of frozen modules as C. Each module has a name for tracebacks and a file."""
    codes = compile_files([(file, f"<frozen {shown}>") for shown, file in modules.values()])
    lines, entries = [], []
    for (name, (_, file)), code in zip(modules.items(), codes, strict=True):
        constant = f"code_{name.replace('.', '_')}"
        lines.append(f"static const unsigned char {constant}[] = {{{','.join(map(str, code))}}};")
        is_package = "true" if file.name == "__init__.py" else "false"
        entries.append(f'{{.name = "{name}", .code = {constant}, .size = {len(code)}, .is_package = {is_package}}}')
    entries.append("{.name = NULL}")
    return [*lines, f"static const struct _frozen {table}[] = {{{', '.join(entries)}}};"]


def _link(program: Path, library: Path, include: Path) -> None:
    variable = sysconfig.get_config_var
    command = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS, f"-I{include}", f"-I{variable('INCLUDEPY')}"]
    command += [str(SOURCE), str(library), "-o", str(program)]
    for name in ("LIBS", "SYSLIBS", "LINKFORSHARED"):
        command += shlex.split(variable(name) or "")
    command += ["-lpthread", "-lutil"]
    try:
        for more in ([], ["-lexpat", "-lz"]):  # Debian's library has built-in modules that need them
            done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=120)
            if done.returncode == 0:
                return
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoInterpreterError(str(error)) from None
    raise NoInterpreterError(done.stderr.strip().rpartition("\n")[2] or f"{command[0]} failed")


def _compare(python: str, program: Path, directory: Path) -> None:
    """Both interpreters must print the same."""
    file = directory / "compare.pyc"
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    file.write_bytes(header + marshal.dumps(compile(COMPARISON_SCRIPT, "compare", "exec", dont_inherit=True)))
    results = []
    for interpreter in (python, str(program)):
        command = [interpreter, "-IS", "-X", "a=b", str(file), "word", "ä"]
        environment = {"LC_ALL": "C.UTF-8", "PYTHONPATH": "/nowhere"}
        try:
            done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoInterpreterError(str(error)) from None
        results.append((done.returncode, done.stdout, done.stderr))
    if results[0] != results[1] or results[0][0] != 0:
        raise NoInterpreterError(f"the linked interpreter differs: {results[1]!r} instead of {results[0]!r}")
