"""The event that a debugger signals, on fake libraries of Windows."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from shim.platform import host
from shim.platform.windows import _system_cffi

MODULE = "shim.platform.windows.debugger_event"


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def info(self, message: str, **fields: Any) -> None:
        self.lines.append((message, fields["event"]))

    warning = info


class Windows:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.created: list[tuple[int, str]] = []
        self.waited: list[tuple[int, int]] = []
        self.closed: list[int] = []
        self.handle, self.result = 9, 0
        winapi: Any = ModuleType("_winapi")
        winapi.WaitForSingleObject, winapi.CloseHandle = self._wait, self.closed.append
        nt: Any = ModuleType("nt")
        nt.getpid = lambda: 4711
        monkeypatch.setitem(sys.modules, "_winapi", winapi)
        monkeypatch.setitem(sys.modules, "nt", nt)
        debugger_event = importlib.import_module(MODULE)
        del sys.modules[MODULE]  # it was imported with fakes
        ffi = SimpleNamespace(
            dlopen=lambda path: SimpleNamespace(CreateEventW=self._create),
            cast=_system_cffi.ffi.cast,
            NULL=_system_cffi.ffi.NULL,
        )
        monkeypatch.setattr(debugger_event, "ffi", ffi)
        monkeypatch.setattr(debugger_event, "administrators_only", lambda: 0x5D)
        self.wait = debugger_event.wait

    def _create(self, attributes: Any, manual: int, initial: int, name: str) -> Any:
        assert (manual, initial) == (0, 0)
        self.created.append((int(_system_cffi.ffi.cast("uintptr_t", attributes)), name))
        return _system_cffi.ffi.cast("void *", self.handle)

    def _wait(self, handle: int, milliseconds: int) -> int:
        self.waited.append((handle, milliseconds))
        return self.result


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Windows:
    return Windows(monkeypatch)


def test_wait_for_debugger_is_bounded_and_logged(windows: Windows) -> None:
    log = Log()
    windows.wait(log)
    assert log.lines == [("Halting until signalled", "Global\\debugger-4711")]
    assert windows.created == [(0x5D, "Global\\debugger-4711")] and windows.waited == [(9, 3_600_000)]
    assert windows.closed == [9]
    windows.result = 258
    windows.wait(log)
    assert len(log.lines) == 3 and "continues" in log.lines[-1][0]


def test_event_that_cannot_be_created_is_ignored(windows: Windows) -> None:
    windows.handle = 0
    windows.wait(Log())
    assert windows.waited == []


def test_variable_has_no_effect_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTAINERD_SHIM_RUNHCS_V1_WAIT_DEBUGGER", "1")
    log: Any = Log()
    host.wait_for_debugger(log)
    assert log.lines == []
