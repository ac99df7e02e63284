"""The paths of the Host Compute Service's libraries, and how to close a handle that they returned.

On Windows they are DLLs of System32, whatever the environment says: the shim runs as SYSTEM, and a variable must not
make it load other code. Elsewhere the emulator's shared library implements all of them; the variable HCS_LIBRARY_PATH
names its directory. It is found by path and not by an import: the shim depends on the emulator's C interface only, not
on its code.
"""

from __future__ import annotations

import sys

from shim.platform import files


def hcs_library(name: str) -> str:
    """The path to load for the DLL `name` (`computecore`, `vmcompute`, `kernel32` …)."""
    if sys.platform == "win32":
        from shim.platform.windows.daemon import limit_fault_handler

        limit_fault_handler()
        return system_library(name)
    return f"{files.environment('HCS_LIBRARY_PATH') or _emulator_directory()}/libcomputecore.so"


def system_library(name: str) -> str:
    """The full path of a system DLL, so that a DLL of that name beside the executable is not loaded instead."""
    root = files.environment("SYSTEMROOT") or r"C:\Windows"
    return rf"{root}\System32\{name}.dll"


def _emulator_directory() -> str:
    """The emulator's build directory, beside the package `shim`."""
    root = __file__.rsplit("/", 3)[0]
    return f"{root}/hcs_emulator/native/build"


def close_handle(handle: int) -> None:
    """Close a stdio handle that HCS returned: a pipe handle on Windows, a file descriptor elsewhere."""
    if sys.platform == "win32":
        import _winapi

        _winapi.CloseHandle(handle)
    else:
        files.close(handle)
