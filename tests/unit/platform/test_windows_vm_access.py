"""Access of utility VMs to a directory, on fake libraries of Windows."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import pytest

from shim.platform.windows import _system_cffi

MODULE = "shim.platform.windows.vm_access"
GENERIC_ALL, INHERIT = 0x10000000, 3


class Ffi:
    def __init__(self, library: Any) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(_system_cffi.ffi, name)

    def dlopen(self, path: str) -> Any:
        return self._library

    def getwinerror(self, code: int = 0) -> tuple[int, str]:
        return code or 5, "Access is denied."


class Library:
    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.groups: list[str] = []
        self.entries: list[tuple[int, int, int]] = []
        self.set: list[tuple[str, int]] = []
        self.freed: list[int] = []

    def _number(self, pointer: Any) -> int:
        return int(_system_cffi.ffi.cast("uintptr_t", pointer))

    def _give(self, place: Any, number: int) -> None:
        place[0] = _system_cffi.ffi.cast("void *", number)

    def ConvertStringSidToSidW(self, text: str, sid: Any) -> int:
        self.groups.append(text)
        self._give(sid, 1)
        return 1

    def GetNamedSecurityInfoW(self, name: str, kind: int, which: int, *places: Any) -> int:
        assert (kind, which) == (1, 4)
        self._give(places[2], 2)  # in the descriptor
        self._give(places[4], 3)
        return 0

    def SetEntriesInAclW(self, count: int, entry: Any, old: Any, created: Any) -> int:
        assert count == 1 and self._number(old) == 2 and self._number(entry.Trustee.Name) == 1
        self.entries.append((entry.Permissions, entry.Mode, entry.Inheritance))
        self._give(created, 4)
        return 0

    def SetNamedSecurityInfoW(self, name: str, kind: int, which: int, *parts: Any) -> int:
        if self.refused:
            return 5
        self.set.append((name, self._number(parts[2])))
        return 0

    def LocalFree(self, memory: Any) -> None:
        self.freed.append(self._number(memory))


def module(monkeypatch: pytest.MonkeyPatch, library: Library) -> Any:
    nt: Any = ModuleType("nt")
    nt.__getattr__ = lambda name: 0
    monkeypatch.setitem(sys.modules, "nt", nt)
    monkeypatch.setitem(sys.modules, "_winapi", ModuleType("_winapi"))
    before = set(sys.modules)
    found = importlib.import_module(MODULE)
    for name in set(sys.modules) - before:  # imported with fakes
        del sys.modules[name]
    monkeypatch.setattr(found, "ffi", Ffi(library))
    return found


def test_vm_group_gets_full_inherited_access(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    module(monkeypatch, library).grant("C:\\dumps")
    assert library.groups == ["S-1-5-83-0"]
    assert library.entries == [(GENERIC_ALL, 1, INHERIT)] and library.set == [("C:\\dumps", 4)]
    assert sorted(library.freed) == [1, 3, 4]


def test_everyone_may_run_a_shared_program(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    access = module(monkeypatch, library)
    access.grant("C:\\pause", access.EVERYONE, access.GENERIC_READ_EXECUTE)
    assert library.groups == ["S-1-1-0"] and library.entries == [(0xA0000000, 1, INHERIT)]


def test_access_that_cannot_be_granted_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library("refused")
    with pytest.raises(OSError, match="dumps"):
        module(monkeypatch, library).grant("C:\\dumps")
    assert sorted(library.freed) == [1, 3, 4]


def test_structures_have_the_layout_of_windows() -> None:
    ffi: Any = _system_cffi.ffi
    assert (ffi.sizeof("EXPLICIT_ACCESS"), ffi.offsetof("EXPLICIT_ACCESS", "Trustee")) == (48, 16)
    assert ffi.offsetof("TRUSTEE", "Name") == 24
