"""A failed launch reports its step and removes what it created: with fork, and with a spawned process.

The platform is a fake, since a real one cannot be made to fail at each of these steps.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from shim.commands import Bootstrap, CommandError, Flags, spawned, start
from shim.platform import files

ADVICE = "try again, and see whether memory or disk space is short"


def fail(*_: object) -> None:
    raise OSError(12, "Cannot allocate memory")


class Child:
    pid = 4711
    problem = "died as it started"

    def __init__(self) -> None:
        self.is_ready = True
        self.killed = False

    def send_input(self, data: bytes) -> None: ...

    def wait_ready(self) -> bool:
        return self.is_ready

    def kill(self) -> None:
        self.killed = True


class Launch:
    def __init__(self, patch: pytest.MonkeyPatch, bundle: Path, forks: bool) -> None:
        self.patch = patch
        self.bundle = bundle
        self.child = Child()
        make = lambda *_: self.child  # noqa: E731
        self.daemon = SimpleNamespace(
            FORKS=forks, SYSTEM_LOG="the log", fork=make, spawn=make, neutral_directory=lambda: "/",
            standby_path=lambda: "",
        )  # fmt: skip
        patch.setattr(start, "daemon", self.daemon)
        patch.setattr(spawned, "daemon", self.daemon)
        listener = SimpleNamespace(close=lambda: None)
        patch.setattr(start, "endpoint", SimpleNamespace(listen=lambda _: listener, remove=lambda _: None))

    def error(self) -> str:
        with pytest.raises(CommandError) as caught:
            start._launch(Flags(), Bootstrap(), "unix:///s", str(self.bundle), False, "unix:///s")
        assert list(self.bundle.iterdir()) == []
        return str(caught.value)


@pytest.fixture(params=[True, False], ids=["forked", "spawned"])
def launch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Launch:
    return Launch(monkeypatch, tmp_path, request.param)


def test_failed_spawn_undoes_start(launch: Launch) -> None:
    launch.daemon.fork = launch.daemon.spawn = fail
    assert launch.error() == f"cannot start the daemon: Cannot allocate memory; {ADVICE}"


def test_full_disk_undoes_start(launch: Launch) -> None:
    """An error of `write` does not name the file."""
    launch.patch.setattr(files, "write_all", fail)
    assert launch.error() == f"cannot write into the bundle: Cannot allocate memory; {ADVICE}"


def test_closed_stdout_undoes_start(launch: Launch) -> None:
    launch.patch.setattr(files, "write_stdout", fail)
    assert launch.error() == f"cannot print the address: Cannot allocate memory; {ADVICE}"
    assert launch.child.killed


def test_daemon_that_dies_silently_undoes_start(launch: Launch) -> None:
    launch.child.is_ready = False
    expected = "the daemon died as it started: it said nothing; try again, and look into the log if it persists"
    assert launch.error() == expected
    assert launch.child.killed
