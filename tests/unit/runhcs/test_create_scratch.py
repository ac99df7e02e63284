"""`runhcs create-scratch`: its arguments, as containerd gives them, its log, and copies from a cache."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from runhcs.__main__ import main
from runhcs.scratch import command
from runhcs.scratch.command import Request
from runhcs.scratch.log import open_log
from shim.logs import Log


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests that reach `create`, which does nothing."""
    found: list[Request] = []
    monkeypatch.setattr(command, "create", lambda request, log: found.append(request))
    return found


def run(*arguments: str) -> tuple[int, str]:
    error = io.StringIO()
    with redirect_stderr(error), redirect_stdout(io.StringIO()):
        try:
            code = main(list(arguments))
        except SystemExit as error_exit:
            code = int(error_exit.code or 0)
    return code, error.getvalue()


def test_arguments_of_the_snapshotter_are_accepted(tmp_path: Path, requests: list[Request]) -> None:
    log, disk = tmp_path / "runhcs-scratch.log", str(tmp_path / "scratch-tmp.vhdx")
    given = ["--debug", "--log", str(log), "--log-format", "json", "--owner", "containerd"]
    assert run(*given, "create-scratch", "--destpath", disk, "--sizeGB", "30") == (0, "")
    assert requests == [Request(disk, 30, "", False, "containerd")]
    assert log.exists()


def test_arguments_have_defaults(requests: list[Request]) -> None:
    assert run("create-scratch", "--destpath", "x.vhdx") == (0, "")
    assert requests == [Request("x.vhdx", 20, "", False, "runhcs")]


def test_all_options_of_the_command_are_accepted(requests: list[Request]) -> None:
    given = ["--sizeGB=0", "--cache-path", "c.vhdx", "--use-virtual-memory", "--destpath=x.vhdx"]
    assert run("--root", "default", "create-scratch", *given) == (0, "")
    assert requests == [Request("x.vhdx", 20, "c.vhdx", True, "runhcs")]


def test_value_of_a_global_option_is_not_taken_for_the_command(tmp_path: Path, requests: list[Request]) -> None:
    assert run("--owner", "ps", "create-scratch", "--destpath", "x.vhdx") == (0, "")
    assert requests[0].owner == "ps"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create-scratch", "--destpath", "x", "--sizeGB", "-1"], "is not a size in GB"),
        (["create-scratch", "--destpath", "x", "--sizeGB", "65537"], "is not a size in GB"),
        (["create-scratch", "--destpath", "x", "--sizeGB", "x"], "is not a size in GB"),
        (["--log-format", "xml", "create-scratch", "--destpath", "x"], "invalid choice: 'xml'"),
    ],
)
def test_invalid_arguments_are_rejected(arguments: list[str], message: str, requests: list[Request]) -> None:
    code, error = run(*arguments)
    assert (code, requests) == (2, []) and message in error


def test_destination_is_required(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code, error = run("--log", str(log), "--log-format", "json", "create-scratch")
    assert code == 1 and "'destpath' is required" in error
    (entry,) = map(json.loads, log.read_text().splitlines())
    assert (entry["level"], entry["msg"]) == ("error", "create-scratch failed") and "destpath" in entry["error"]


def test_existing_destination_is_rejected(tmp_path: Path) -> None:
    disk = tmp_path / "x.vhdx"
    disk.write_text("data")
    code, error = run("create-scratch", "--destpath", str(disk))
    assert code == 1 and f"{disk} exists" in error and disk.read_text() == "data"


def test_unwritable_log_is_an_error(tmp_path: Path, requests: list[Request]) -> None:
    code, error = run("--log", str(tmp_path / "none" / "log"), "create-scratch", "--destpath", "x")
    assert (code, requests) == (1, []) and "cannot be written: No such file or directory" in error


def test_log_is_appended_with_level_and_fields(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for debug in (False, True):
        log = open_log(str(path), "json", debug)
        log.bind(vm="v").debug("a", size=3, msg="renamed")
        log.info("b", error=ValueError("why"))
        log.close()
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [entry["msg"] for entry in entries] == ["b", "a", "b"]
    assert entries[1]["fields.msg"] == "renamed" and (entries[1]["vm"], entries[1]["size"]) == ("v", 3)
    assert entries[2]["error"] == "why" and entries[2]["time"].endswith("Z")
    log = open_log(str(path), "text", False)
    log.warning("as text")
    log.close()
    assert 'level=warning msg="as text"' in path.read_text().splitlines()[-1]


@pytest.fixture
def formatted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The disks that a VM would format."""
    from runhcs.scratch import vm

    found: list[str] = []

    def create(path: str, size_gb: int, virtual_memory: bool, owner: str, log: Log) -> None:
        found.append(path)
        Path(path).write_text(f"{size_gb} GB")

    monkeypatch.setattr(vm, "create_formatted", create)
    monkeypatch.setattr(command, "windows_build", lambda: 20348)
    return found


def test_cache_is_filled_and_used(tmp_path: Path, formatted: list[str]) -> None:
    cache, first, second, large = (str(tmp_path / name) for name in ("cache", "first", "second", "large"))
    for disk in (first, second):
        assert run("create-scratch", "--destpath", disk, "--cache-path", cache) == (0, "")
        assert Path(disk).read_text() == Path(cache).read_text() == "20 GB"
    assert formatted == [first]
    assert run("create-scratch", "--destpath", large, "--cache-path", cache, "--sizeGB", "30") == (0, "")
    assert formatted == [first, large] and Path(cache).read_text() == "20 GB"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "first", "large", "second"]


def test_old_build_is_rejected(tmp_path: Path, formatted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "windows_build", lambda: 17134)
    code, error = run("create-scratch", "--destpath", str(tmp_path / "x"))
    assert (code, formatted) == (1, []) and "LCOW is not supported pre-RS5" in error
