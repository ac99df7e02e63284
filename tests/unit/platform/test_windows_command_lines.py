"""Windows command lines, against the rules and against the library that writes them."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcs_emulator.service.silo.command_line import command_tail, program_candidates, split_arguments
from shim.container.process_document import quote

ARGUMENTS = st.lists(st.text(st.sampled_from("ab \"\\\t'&%$"), max_size=12), max_size=6)
PROGRAM = st.text(st.sampled_from("ab\\:. "), min_size=1, max_size=8).filter(lambda name: name.strip() == name)


@given(PROGRAM, ARGUMENTS)
def test_quoted_arguments_split_to_the_same(program: str, arguments: list[str]) -> None:
    line = " ".join(quote(argument) for argument in [program, *arguments])
    if not program.endswith("\\") or " " not in program:  # a program's name has no escapes
        assert split_arguments(line) == [program, *arguments]


@given(ARGUMENTS)
def test_quoting_of_python_is_parsed(arguments: list[str]) -> None:
    assert split_arguments(subprocess.list2cmdline(["program", *arguments])) == ["program", *arguments]


@given(st.text())
def test_any_command_line_is_parsed(line: str) -> None:
    split_arguments(line)
    command_tail(line)
    assert all(candidate for candidate in program_candidates(line))


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("", []),
        ("a", ["a"]),
        ('a ""', ["a", ""]),
        ("a  b\tc ", ["a", "b", "c"]),
        (r'a "b c" d', ["a", "b c", "d"]),
        (r'a b"c d"e', ["a", "bc de"]),
        (r"a \\\b d\"e", ["a", r"\\\b", 'd"e']),
        (r"a a\\\"b c", ["a", r"a\"b", "c"]),
        (r'a "a\\" b', ["a", "a\\", "b"]),
        (r'a a\\\\"b c" d', ["a", r"a\\b c", "d"]),
        ('a "b""c d', ["a", 'b"c', "d"]),
        ('a """b"""', ["a", '"b"']),
        (r'"C:\Program Files\x.exe" y', [r"C:\Program Files\x.exe", "y"]),
        (r"C:\dir\x\ y", ["C:\\dir\\x\\", "y"]),
        (r'"C:\dir\" y', ["C:\\dir\\", "y"]),
        ('cmd /c "dir C:\\"', ["cmd", "/c", 'dir C:"']),
    ],
)
def test_command_line_to_argv(line: str, arguments: list[str]) -> None:
    assert split_arguments(line) == arguments


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("", []),
        ('""', []),
        ("a b c", ["a", "a b", "a b c"]),
        ('"a b" c', ["a b"]),
        ('"a b', ["a b"]),
        (r"C:\Program Files\x.exe /y", [r"C:\Program", r"C:\Program Files\x.exe", r"C:\Program Files\x.exe /y"]),
        (" a  b ", ["a", "a  b"]),
    ],
)
def test_program_candidates(line: str, candidates: list[str]) -> None:
    assert program_candidates(line) == candidates


def test_program_candidates_are_bounded() -> None:
    assert len(program_candidates(" ".join("abcdefghijklmnop"))) <= 8


@pytest.mark.parametrize(
    ("line", "tail"),
    [("", ""), ("cmd", ""), ("cmd  /c echo  x", "/c echo  x"), ('"c m d" /c "a"', '/c "a"'), ('"open', "")],
)
def test_command_tail(line: str, tail: str) -> None:
    assert command_tail(line) == tail
