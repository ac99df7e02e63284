"""The command `runhcs install`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runhcs.__main__ import main
from runhcs.installation import NAME, library


def test_install_creates_missing_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bindir = tmp_path / "opt" / "bin"
    assert main(["install", "--bindir", str(bindir)]) == 0
    assert str(bindir / NAME) in capsys.readouterr().out
    done = subprocess.run([bindir / NAME, "-v"], capture_output=True, text=True, timeout=60, check=True)
    assert NAME in done.stdout


def test_install_to_unwritable_directory_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("no directory")
    assert main(["install", "--bindir", str(tmp_path / "file" / "bin")]) == 1
    assert "choose a writable directory with --bindir" in capsys.readouterr().err


def test_install_without_linked_interpreter_removes_it(tmp_path: Path) -> None:
    """Both installations run the shim; the second uses Python itself."""
    for option in ("--link-interpreter", "--no-link-interpreter"):
        assert main(["install", "--bindir", str(tmp_path / "bin"), option]) == 0
        done = subprocess.run([tmp_path / "bin" / NAME, "-v"], capture_output=True, text=True, timeout=60, check=True)
        assert NAME in done.stdout
    assert list(library(tmp_path / "bin").glob("python-*")) == []
    assert b"/python-" not in (tmp_path / "bin" / NAME).read_bytes()
