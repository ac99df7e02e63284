"""The linters are part of the tests: a change that does not pass them is not finished."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("command", [["ruff", "check", "."], ["mypy"]], ids=["ruff", "mypy"])
def test_linter_is_content(command: list[str]) -> None:
    program = Path(sys.executable).with_name(command[0])
    result = subprocess.run([str(program), *command[1:]], cwd=ROOT, capture_output=True, text=True, timeout=380)
    assert result.returncode == 0, result.stdout + result.stderr
