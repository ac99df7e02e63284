"""HCS process parameters as the fields of the silo's SPAWN request."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hcs_emulator.service.silo.channel import LONGEST_STRINGS
from hcs_emulator.service.silo.command_line import command_tail, program_candidates, split_arguments
from hcs_emulator.service.silo.process import E_INVALID_ARGUMENT, E_TOO_LONG, LaunchError

# Accounts that every Windows container has. They own everything in the container, as root does in the silo.
_BUILT_IN_USERS = frozenset(
    ("", "containeradministrator", "containeruser", "system", "local service", "network service", "administrator")
)
_DEFAULT_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/",
    "ComSpec": r"C:\Windows\System32\cmd.exe",
    "OS": "Windows_NT",
    "SystemDrive": "C:",
    "SystemRoot": r"C:\Windows",
    "windir": r"C:\Windows",
    "TEMP": r"C:\Windows\Temp",
}


class SpawnRequest:
    """HCS process parameters as the fields of the silo's SPAWN request."""

    def __init__(self, parameters: Mapping[str, Any], hostname: str) -> None:
        command_line: str = parameters.get("CommandLine") or ""
        self.arguments = split_arguments(command_line)
        self.programs = program_candidates(command_line)
        self.tail = command_tail(command_line)
        if parameters.get("ApplicationName"):
            self.programs = [parameters["ApplicationName"]]
            self.arguments = self.arguments or self.programs
        if not self.programs:
            raise LaunchError(E_INVALID_ARGUMENT, "the process parameters have no CommandLine")
        self.directory: str = parameters.get("WorkingDirectory") or ""
        self.user, account = _user(parameters.get("User") or "")
        self.console = bool(parameters.get("EmulateConsole"))
        height, width = parameters.get("ConsoleSize") or (25, 80)
        self.console_size = (int(height) & 0xFFFF, int(width) & 0xFFFF)
        # A console has no separate error stream.
        names = {"stdin": "CreateStdInPipe", "stdout": "CreateStdOutPipe", "stderr": "CreateStdErrPipe"}
        self.pipes = [name for name, member in names.items() if parameters.get(member)]
        environment = _environment(parameters, hostname, account, self.console)
        self.environment = [f"{name}={value}" for name, value in environment.items()]
        self.counts = (len(self.programs), len(self.arguments), len(self.environment))
        lists = (*self.programs, *self.arguments, *self.environment)
        self.strings = [self.directory, self.user, self.tail, *lists]
        if sum(len(os.fsencode(text)) + 1 for text in self.strings) > LONGEST_STRINGS:
            raise LaunchError(E_TOO_LONG, "the command line and the environment are too long for a process")
        if any("\0" in text for text in self.strings):
            raise LaunchError(E_INVALID_ARGUMENT, "the process parameters hold a NUL character")


def _user(name: str) -> tuple[str, str]:
    """The name to look up in the silo's passwd file ("" for Windows' built-in accounts), and the name to display."""
    account = name.rpartition("\\")[2]
    return ("" if account.lower() in _BUILT_IN_USERS else account), account or "ContainerAdministrator"


def _environment(parameters: Mapping[str, Any], hostname: str, account: str, console: bool) -> dict[str, str]:
    """The environment of the process: Windows' defaults, overridden by the given variables, names in any case."""
    given = {str(name): str(value) for name, value in (parameters.get("Environment") or {}).items()}
    defaults = {**_DEFAULT_ENVIRONMENT, "COMPUTERNAME": hostname.upper(), "USERNAME": account}
    if console:
        defaults["TERM"] = "xterm"
    overridden = {name.upper() for name in given}
    return {name: value for name, value in defaults.items() if name.upper() not in overridden} | given
