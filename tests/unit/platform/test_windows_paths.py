"""The final path of a file on Windows: volumes, network shares, shares whose parents cannot be listed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from shim.platform.windows import _system_cffi

BY_VOLUME, AS_OPENED = 1, 8
PATH_NOT_FOUND, ACCESS_DENIED, NOT_SUPPORTED = 3, 5, 50
VOLUME = "\\\\?\\Volume{8a25748f-cf34-4ac6-9ee2-c89400e886db}\\data"
Answer = str | int


class Ffi:
    def __init__(self, answer: Callable[[int], Answer]) -> None:
        self._answer = answer
        self._error = 0
        self.asked: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(_system_cffi.ffi, name)

    def dlopen(self, path: str) -> Any:
        return SimpleNamespace(GetFinalPathNameByHandleW=self._path)

    def _path(self, handle: Any, buffer: Any, size: int, flags: int) -> int:
        self.asked.append(flags)
        answer = self._answer(flags)
        if isinstance(answer, int):
            self._error = answer
            return 0
        for at, character in enumerate(answer):
            buffer[at] = character
        return len(answer)

    def getwinerror(self) -> tuple[int, str]:
        return self._error, "message"


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[dict[int, Answer]], tuple[str, list[int]]]]:
    winapi: Any = ModuleType("_winapi")
    winapi.CreateFile, winapi.CloseHandle = lambda *_: 1, lambda handle: None
    nt: Any = ModuleType("nt")
    nt.__getattr__ = lambda name: 0
    monkeypatch.setitem(sys.modules, "_winapi", winapi)
    monkeypatch.setitem(sys.modules, "nt", nt)
    import shim.platform.windows as package

    before = set(sys.modules)
    from shim.platform.windows import paths

    def run(answers: dict[int, Answer]) -> tuple[str, list[int]]:
        ffi = Ffi(lambda flags: answers[flags])
        monkeypatch.setattr(paths, "ffi", ffi)
        return paths.final_path("C:\\link"), ffi.asked

    yield run
    for name in set(sys.modules) - before:
        del sys.modules[name]
        if hasattr(package, name.rpartition(".")[2]):
            delattr(package, name.rpartition(".")[2])


@pytest.mark.parametrize(
    ("answers", "path"),
    [
        ({BY_VOLUME: VOLUME}, VOLUME),
        ({BY_VOLUME: PATH_NOT_FOUND, 0: "\\\\?\\UNC\\server\\share\\dir"}, "\\\\server\\share\\dir"),
        ({BY_VOLUME: PATH_NOT_FOUND, 0: "\\\\?\\C:\\mnt\\dir"}, "\\\\?\\C:\\mnt\\dir"),
        (
            {BY_VOLUME: PATH_NOT_FOUND, 0: ACCESS_DENIED, AS_OPENED: "\\\\?\\UNC\\server\\share\\dir"},
            "\\\\server\\share\\dir",
        ),
        (
            {BY_VOLUME: ACCESS_DENIED, BY_VOLUME | AS_OPENED: PATH_NOT_FOUND, AS_OPENED: "\\\\?\\UNC\\s\\x"},
            "\\\\s\\x",
        ),
    ],
)
def test_final_path(
    resolve: Callable[[dict[int, Answer]], tuple[str, list[int]]], answers: dict[int, Answer], path: str
) -> None:
    assert resolve(answers) == (path, list(answers))


@pytest.mark.parametrize(
    "answers",
    [{BY_VOLUME: NOT_SUPPORTED}, {BY_VOLUME: PATH_NOT_FOUND, 0: ACCESS_DENIED, AS_OPENED: ACCESS_DENIED}],
)
def test_final_path_that_cannot_be_determined(
    resolve: Callable[[dict[int, Answer]], tuple[str, list[int]]], answers: dict[int, Answer]
) -> None:
    with pytest.raises(OSError, match="final path"):
        resolve(answers)
