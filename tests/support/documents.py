"""Base documents for tests of the service."""

from __future__ import annotations

from typing import Any

VERSION = {"Major": 2, "Minor": 1}


def container(**members: Any) -> dict[str, Any]:
    """A container document; keyword arguments are members of Container."""
    return {"SchemaVersion": VERSION, "Owner": "tests", "Container": members}


def terminates_on_last_handle(**members: Any) -> dict[str, Any]:
    """A container that terminates with its last handle."""
    return container(**members) | {"ShouldTerminateOnLastHandleClosed": True}


def virtual_machine(**members: Any) -> dict[str, Any]:
    """A utility VM; keyword arguments are members of VirtualMachine.Devices."""
    return {
        "SchemaVersion": VERSION,
        "Owner": "tests",
        "VirtualMachine": {
            "StopOnReset": True,
            "Chipset": {"Uefi": {"BootThis": {"DeviceType": "VmbFs", "DevicePath": "\\EFI\\Boot\\bootx64.efi"}}},
            "ComputeTopology": {"Memory": {"SizeInMB": 1024, "AllowOvercommit": True}, "Processor": {"Count": 2}},
            "Devices": members,
        },
    }


def echo(text: str = "hello") -> dict[str, Any]:
    return {"CommandLine": f"cmd /c echo {text}", "CreateStdOutPipe": True}


def sleeper(seconds: int = 600) -> dict[str, Any]:
    return {"CommandLine": f"sleep {seconds}"}
