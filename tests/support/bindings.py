"""Helpers of the tests of the bindings: they load the library into the test process, with a private emulator."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from shim.hcs_bindings import library, network, windows_version
from tests.support.emulator import Emulator

BUILD = Path(__file__).resolve().parents[2] / "hcs_emulator" / "native" / "build"


def reset_libraries() -> None:
    """Reset the loaded libraries, so that the next call loads them from HCS_LIBRARY_PATH."""
    for name in ("computecore", "computestorage", "computenetwork", "vmcompute", "cimfs", "kernel32", "ole32", "ntdll"):
        loaded = getattr(library, name)
        vars(loaded).clear()
        loaded.__init__(name)
    windows_version._build = 0


def use(emulator: Emulator, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Point this process's bindings at the emulator, with a copy of the library that no other test has used."""
    shutil.copy(BUILD / "libcomputecore.so", directory)
    monkeypatch.setenv("HCS_EMULATOR_DIR", str(emulator.directory))
    monkeypatch.setenv("HCS_LIBRARY_PATH", str(directory))
    reset_libraries()


def container(**members: Any) -> dict[str, Any]:
    """A document of a process-isolated container."""
    version = {"Major": 2, "Minor": 1}
    return {
        "SchemaVersion": version,
        "Owner": "tests",
        "ShouldTerminateOnLastHandleClosed": True,
        "Container": {},
        **members,
    }


def command(line: str, *pipes: str) -> dict[str, Any]:
    """Process parameters: a command line, and the pipes to create (`In`, `Out`, `Err`)."""
    return {"CommandLine": line, **{f"CreateStd{pipe}Pipe": True for pipe in pipes}}


def read_all(descriptor: int | None) -> str:
    assert descriptor is not None
    with os.fdopen(descriptor, "rb") as file:
        return file.read().decode()


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def create_endpoint() -> str:
    """Create an endpoint in a new network, and return its id."""
    created = network.create_network({"Name": "n", "Type": "NAT", "SchemaVersion": network.SCHEMA_VERSION})
    endpoint = network.create_endpoint(created["ID"], {"Name": "eth0", "SchemaVersion": network.SCHEMA_VERSION})
    return str(endpoint["ID"])
