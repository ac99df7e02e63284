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

from runhcs.launcher.build import HERE, keep

SOURCE = HERE / "embedded" / "interpreter.c"
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-s", "-no-pie"]
# Read from files by every interpreter before anything else.
FROZEN = ("encodings", "encodings.aliases", "encodings.utf_8")
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
    entries = []
    for name in FROZEN:
        file = Path(stdlib, *name.split("."))
        file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
        code = marshal.dumps(compile(file.read_bytes(), str(file), "exec", dont_inherit=True, optimize=0))
        identifier = name.replace(".", "_")
        lines.append(f"static const unsigned char code_{identifier}[] = {{{','.join(map(str, code))}}};")
        is_package = "true" if file.name == "__init__.py" else "false"
        entries.append(f'{{"{name}", code_{identifier}, {len(code)}, {is_package}, NULL}}')
    entries.append("{NULL, NULL, 0, false, NULL}")
    lines += ["#include <stdbool.h>", f"static const struct _frozen frozen_modules[] = {{{', '.join(entries)}}};"]
    return "\n".join(lines) + "\n"


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
