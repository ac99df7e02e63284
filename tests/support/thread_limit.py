"""No more threads: in this process, by a patch; in another process, by a limit of its own cgroup."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shim import threads

CGROUPS = Path("/sys/fs/cgroup")


class ThreadLimit:
    """`refuse` lets `run_soon` fail to start threads, until `allow`. The keeper is a thread that exists already."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused = 0
        self.waiting: list[str] = []
        self._left = 0
        self._woken = threading.Event()
        self._closed = False
        monkeypatch.setattr(threads, "RETRY_SECONDS", 0.01)
        monkeypatch.setattr(threads, "start_new_thread", self._start)
        threads.set_keeper(self._woken.set)
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()

    def refuse(self, count: int = 1 << 60) -> None:
        """Refuse the next `count` threads."""
        self._left = count

    def allow(self) -> None:
        self._left = 0

    def _start(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> int:
        if self._left > 0:
            self._left -= 1
            self.refused += 1
            raise RuntimeError("can't start new thread")
        return _thread.start_new_thread(function, arguments)

    def _keep(self) -> None:
        while not self._closed:
            self._woken.wait()
            self._woken.clear()
            self.waiting += threads.start_waiting(lambda: self._closed)

    def close(self) -> None:
        self.allow()
        self._closed = True
        self._woken.set()
        self._keeper.join(60)
        threads.set_keeper(None)
        assert not self._keeper.is_alive()


class PidsCgroup:
    """A cgroup with a limit on the number of tasks, for running processes."""

    def __init__(self, name: str) -> None:
        v1 = CGROUPS / "pids"
        if not v1.is_dir():
            (CGROUPS / "cgroup.subtree_control").write_text("+pids")
        self._parent = v1 if v1.is_dir() else CGROUPS
        self.path = self._parent / name
        self.path.mkdir()

    def add(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))

    def refuse(self) -> None:
        """No process in it can start a thread or a process."""
        (self.path / "pids.max").write_text("1")

    def allow(self) -> None:
        (self.path / "pids.max").write_text("max")

    def close(self) -> None:
        """Move what is left to the parent, and remove it."""
        self.allow()
        for pid in (self.path / "cgroup.procs").read_text().split():
            try:
                (self._parent / "cgroup.procs").write_text(pid)
            except ProcessLookupError:
                pass  # it has exited
        self.path.rmdir()
