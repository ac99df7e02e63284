"""Documents of processes: parameters, modify requests, signals."""

from __future__ import annotations

from typing import Any

from hcs_emulator.service.errors import HCS_E_INVALID_JSON, HcsError
from hcs_emulator.service.schema.common import LTSC2022
from hcs_emulator.service.schema.shapes import (
    Bool,
    Enum,
    Int,
    ListOf,
    MapOf,
    Record,
    SchemaError,
    Shape,
    Str,
    check,
    since,
)


def _console(parameters: dict[str, Any], path: str) -> None:
    if parameters.get("EmulateConsole") and parameters.get("CreateStdErrPipe"):
        raise SchemaError(
            f"{path}.CreateStdErrPipe", "a console has no standard error of its own: EmulateConsole excludes it"
        )


PROCESS_PARAMETERS = Record(
    {
        "ApplicationName": Str(),
        "CommandLine": Str(),
        "CommandArgs": ListOf(Str()),
        "User": Str(),
        "WorkingDirectory": Str(),
        "Environment": MapOf(Str()),
        "RestrictedToken": Bool(),
        "EmulateConsole": Bool(),
        "CreateStdInPipe": Bool(),
        "CreateStdOutPipe": Bool(),
        "CreateStdErrPipe": Bool(),
        "ConsoleSize": ListOf(Int(0, 65535), length=2),
        "UseExistingLogin": Bool(),
        "UseLegacyConsole": Bool(),
        "SecurityDescriptor": since(LTSC2022, Str()),
    },
    rule=_console,
)

SIGNAL = Record({"Signal": Enum("CtrlC", "CtrlBreak", "CtrlClose", "CtrlLogOff", "CtrlShutdown")}, required=("Signal",))

_CONSOLE_SIZE = Record({"Height": Int(0, 65535), "Width": Int(0, 65535)})
_CLOSE_HANDLE = Record({"Handle": Enum("StdIn", "StdOut", "StdErr", "All")}, required=("Handle",))
MODIFY_PROCESS = Record(
    {"Operation": Enum("ConsoleSize", "CloseHandle"), "ConsoleSize": _CONSOLE_SIZE, "CloseHandle": _CLOSE_HANDLE},
    required=("Operation",),
)


def check_parameters(document: Any, build: int) -> dict[str, Any]:
    check(PROCESS_PARAMETERS, document, "Create process", build)
    assert isinstance(document, dict)
    if not document.get("CommandLine") and not document.get("ApplicationName"):
        raise HcsError(
            HCS_E_INVALID_JSON,
            "[Create process] no command line at $.CommandLine",
            data="$.CommandLine",
            operation="Construct",
        )
    return document


def check_modify(document: Any, build: int) -> dict[str, Any]:
    check(MODIFY_PROCESS, document, "Modify process", build)
    assert isinstance(document, dict)
    operation = document["Operation"]
    if operation not in document:
        raise HcsError(
            HCS_E_INVALID_JSON,
            f"[Modify process] missing member at $.{operation}",
            data=f"$.{operation}",
            operation="Construct",
        )
    return document


def check_signal(document: Any, build: int) -> str:
    check(SIGNAL, document, "Signal process", build)
    return str(document["Signal"])


# Every options document may be absent; one with members is valid only for calls that name its shape.
NO_OPTIONS: Shape = Record({})
