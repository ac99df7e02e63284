"""Generate the out-of-line ABI cffi modules, then build the emulator's native library.

Out-of-line ABI mode: the declarations are compiled, here and once, into a Python module that needs nothing but
`_cffi_backend` at run time. That costs 2 ms at import, against 47 ms for parsing the declarations in every process,
and it needs no compiler on a Windows node. The generated modules are committed; a test shows that generating them
again changes nothing.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent

# The declarations, and the module that is made of them.
MODULES = [
    ("shim/hcs_bindings/hcs.h", "shim/hcs_bindings/_hcs_cffi.py"),
    ("shim/platform/libc.h", "shim/platform/_libc_cffi.py"),
    ("shim/platform/windows/system.h", "shim/platform/windows/_system_cffi.py"),
    ("shim/platform/windows/jobs.h", "shim/platform/windows/_jobs_cffi.py"),
    ("shim/platform/windows/etw.h", "shim/platform/windows/_etw_cffi.py"),
]


def generate(declarations: Path, module: Path) -> None:
    ffi = FFI()
    ffi.cdef(declarations.read_text(encoding="ascii"))
    ffi.set_source(module.stem, None)
    ffi.emit_python_code(str(module))


def build_native_library() -> None:
    """Run the emulator's own build script, by path: the emulator need not be importable to be built."""
    script = ROOT / "hcs_emulator" / "native" / "build.py"
    if sys.platform == "win32" or not script.exists():
        return
    spec = importlib.util.spec_from_file_location("hcs_emulator_native_build", script)
    assert spec is not None and spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    build.build()


def main() -> None:
    for declarations, module in MODULES:
        generate(ROOT / declarations, ROOT / module)
    build_native_library()


if __name__ == "__main__":
    main()
