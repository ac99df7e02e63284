"""Stripped bytecode: no docstrings, annotations and column numbers."""

from __future__ import annotations

import inspect
import marshal
import subprocess
import sys
import traceback
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from launcher.common import bytecode
from launcher.linux.bundle import compile_files

SOURCE = '''"""A module."""
from __future__ import annotations
from typing import NamedTuple
import dataclasses

total: int = 3
later: Undefined


def fail(first: int, *rest: str, key: Undefined = None, **others: int) -> Undefined:
    """Fails."""
    raise ValueError(first)


def nothing() -> None:
    """Nothing else."""


class Plain:
    """A class."""

    size: int
    colour: str = "red"

    def method(self, x: int) -> int:
        return x + 1


class Pair(NamedTuple):
    left: int
    right: int = 2


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0
'''


@pytest.fixture
def names() -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "stripped_example"}
    sys.modules["stripped_example"] = type(sys)("stripped_example")  # dataclasses look it up
    exec(bytecode.compile_stripped(SOURCE.encode(), "/a/stripped_example.py"), namespace)
    del sys.modules["stripped_example"]
    return namespace


def test_docstrings_and_annotations_are_removed(names: dict[str, Any]) -> None:
    assert names.get("__doc__") is None and "annotations" not in names and "__annotations__" not in names
    assert names["fail"].__doc__ is None and names["fail"].__annotations__ == {}
    assert names["nothing"].__doc__ is None and names["nothing"]() is None
    assert names["Plain"].__doc__ is None and not inspect.get_annotations(names["Plain"])
    assert names["Plain"].method.__annotations__ == {}


def test_values_signatures_and_dataclasses_are_kept(names: dict[str, Any]) -> None:
    assert names["total"] == 3 and names["Plain"].colour == "red" and names["Plain"]().method(4) == 5
    assert names["Pair"](1) == (1, 2) and names["Pair"]._fields == ("left", "right")
    assert names["Point"](5) == names["Point"](5, 0)
    assert str(inspect.signature(names["fail"])) == "(first, *rest, key=None, **others)"


def test_tracebacks_keep_line_numbers(names: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="7") as caught:
        names["fail"](7)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.lineno) == ("/a/stripped_example.py", SOURCE[: SOURCE.index("raise")].count("\n") + 1)


def test_column_numbers_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(SOURCE)
    (data,) = compile_files([(path, "shown")])
    code = marshal.loads(data)
    assert code.co_filename == "shown"
    functions = [code, *(constant for constant in code.co_consts if isinstance(constant, CodeType))]
    assert len(functions) == 6
    for function in functions:
        positions = list(function.co_positions())
        assert any(line for line, *_ in positions)
        assert all(begin is None and end is None for _, _, begin, end in positions)


def test_syntax_error_raises(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("def\n")
    with pytest.raises(subprocess.CalledProcessError):
        compile_files([(path, str(path))])
