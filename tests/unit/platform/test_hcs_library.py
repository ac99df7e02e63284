"""Which libraries of HCS are loaded on Windows, and what must happen before."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from shim.platform import hcs_library


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Windows, and the calls that limit faulthandler to crashes."""
    calls: list[str] = []
    daemon = ModuleType("shim.platform.windows.daemon")
    daemon.limit_fault_handler = lambda: calls.append("limited")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, daemon.__name__, daemon)
    monkeypatch.setattr(hcs_library.sys, "platform", "win32")
    monkeypatch.setenv("SYSTEMROOT", r"D:\Windows")
    return calls


def test_library_is_of_system32_whatever_the_environment_says(
    limited: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HCS_LIBRARY_PATH", r"C:\others")
    assert hcs_library.hcs_library("computecore") == r"D:\Windows\System32\computecore.dll"


def test_fault_handler_is_limited_before_a_library_of_hcs_is_loaded(limited: list[str]) -> None:
    """Their RPC raises exceptions and handles them: panic.log must stay empty."""
    hcs_library.hcs_library("vmcompute")
    assert limited == ["limited"]
