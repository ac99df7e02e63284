"""What the texts of runc's errors mean for the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from hcs_emulator.vm.linux.agent import errors, runc


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("container does not exist", errors.SYSTEM_NOT_FOUND, "container does not exist"),
        ('container "x" does not exist', errors.SYSTEM_NOT_FOUND, "container does not exist"),
        ('time="now" level=error msg="container not running"', errors.SYSTEM_ALREADY_STOPPED, "container not running"),
        ("cannot delete container x that is not stopped: running", errors.INVALID_STATE, "container not stopped"),
        ("container with given ID already exists", errors.SYSTEM_ALREADY_EXISTS, "container already exist"),
        ("invalid container ID format", errors.INVALID_ARGUMENT, "invalid container ID"),
        ("something else", errors.E_FAIL, "something else"),
    ],
)
def test_meaning_of_text(text: str, code: int, words: str) -> None:
    error = runc.meaning(text)
    assert error.hresult == code and str(error).endswith(words)


def test_last_error_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "runc.log"
    assert runc.last_error(str(path)) is None
    lines = [
        '{"level":"error","msg":"first"}',
        '{"level":"error","msg":"exec failed"}',
        '{"level":"warning","msg":"w"}',
    ]
    path.write_text("\n".join(lines) + "\n")
    assert str(runc.last_error(str(path))) == "exec failed"
