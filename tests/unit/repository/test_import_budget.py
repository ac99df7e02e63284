"""What the daemon loads before its first answer and before its first Create: time that somebody waits for."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Each of them, or what it brings along, costs more than the code that would use it.
HEAVY = {
    "threading", "functools", "collections", "json", "re", "typing", "enum", "dataclasses", "logging", "subprocess",
    "asyncio", "socket", "selectors", "contextlib", "inspect", "google.protobuf", "os", "stat", "termios",
    "_collections_abc", "shim.api.task_more", "shim.api.events_more", "shim.api.types_more",
}  # fmt: skip


@pytest.mark.parametrize("module", ["shim.task.service", "shim.task.create"])
def test_nothing_heavy_is_loaded(module: str) -> None:
    paths = [str(ROOT), sysconfig.get_paths()["platlib"]]
    code = f"import sys; sys.path[:0] = {paths!r}; import {module}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(result.stdout.split())


def test_the_service_does_not_load_what_only_a_task_needs() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import shim.task.service; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.split())
    later = {"shim.task.create", "shim.task.task", "shim.task.stats.collect", "shim.hcs_bindings", "shim.oci"}
    assert not later & loaded
