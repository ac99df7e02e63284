"""The directory of the boot files of Linux utility VMs, where nothing else names one."""

from __future__ import annotations

import sys

from shim.platform import files, host

NAME = "LinuxBootFiles"


def default() -> str:
    """`LinuxBootFiles` beside the shim if it exists. Else that of Windows, or of the emulator."""
    beside = host.beside_program(NAME)
    if host.is_directory(beside):
        return beside
    if sys.platform == "win32":
        programs = files.environment("ProgramFiles") or "C:\\Program Files"
        return f"{programs}\\Linux Containers"
    from shim.platform.linux.hvsocket import directory

    return f"{directory()}/{NAME}"
