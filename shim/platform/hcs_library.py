"""Where the Host Compute Service's libraries are, and how a handle they gave is closed.

On Windows they are DLLs of System32. Elsewhere one shared library, the emulator's, stands in for all of them. It is
found by path, never by importing the emulator: the shim does not know the emulator's code, only its C interface.
"""

from __future__ import annotations

import sys

from shim.platform import files


def hcs_library(name: str) -> str:
    """What to load for the DLL `name` (`computecore`, `vmcompute`, `kernel32` …)."""
    if sys.platform == "win32":
        directory = files.environment("HCS_LIBRARY_PATH")
        if directory and name not in ("kernel32", "ole32", "ntdll"):
            return rf"{directory}\{name}.dll"
        return system_library(name)
    return f"{files.environment('HCS_LIBRARY_PATH') or _emulator_directory()}/libcomputecore.so"


def system_library(name: str) -> str:
    """A DLL of Windows, by its full path: one of that name beside the executable must not be taken for it."""
    root = files.environment("SYSTEMROOT") or r"C:\Windows"
    return rf"{root}\System32\{name}.dll"


def _emulator_directory() -> str:
    """The emulator's build directory, beside the package `shim`."""
    root = __file__.rsplit("/", 3)[0]
    return f"{root}/hcs_emulator/native/build"


def close_handle(handle: int) -> None:
    """Close a stdio handle that HCS gave: a pipe handle on Windows, a file descriptor elsewhere."""
    if sys.platform == "win32":
        import _winapi

        _winapi.CloseHandle(handle)
    else:
        files.close(handle)
