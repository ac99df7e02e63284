"""`runhcs node-install` as the DaemonSet runs it, with a real containerd: install, upgrade, rollback, removal.

The program runs from the files of the image. A thread restarts containerd when it exits, as systemd does.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runhcs.config.containerd import FORMATS
from runhcs.install.linux import python
from runhcs.node.reconcile import READY, REJECTED, REMOVED, ROLLED_BACK
from tests.containerd.node import Node
from tests.support.eventually import eventually
from tests.support.node_image import build_context, derived

RUNTIME = "runhcs-wcow-process"
PASS_TIMEOUT = 600.0
# A version whose Create fails. It must not fail in the import of the module: if the shim's warm-up thread runs that
# import, Python gives a Create that waits for it the unfinished module, without an error.
BROKEN_CREATE = """

def create_task(*_: object) -> None:
    raise RuntimeError("a broken version")
"""

# Each pass starts up to ten Pythons.
pytestmark = pytest.mark.timeout(1500)


class Supervisor:
    """Starts containerd again whenever it exits, and counts."""

    def __init__(self, node: Node) -> None:
        self.restarts = 0
        self._containerd = node.containerd
        self._is_stopped = False
        self.pid_file = node.directory / "containerd.pid"
        self.restart_script = node.directory / "restart"
        self.fails = node.directory / "restart-fails"
        self.restart_script.write_text(
            f"#!/bin/sh\nif [ -e {self.fails} ]; then rm {self.fails}; echo refused >&2; exit 1; fi\n"
            f"kill $(cat {self.pid_file})\n"
        )
        self.restart_script.chmod(0o755)
        self._write_pid()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _write_pid(self) -> None:
        assert self._containerd.process is not None
        self.pid_file.write_text(str(self._containerd.process.pid))

    def _run(self) -> None:
        while True:
            process = self._containerd.process
            assert process is not None
            process.wait()
            if self._is_stopped:
                return
            self.restarts += 1
            self._containerd.start()
            self._write_pid()

    def stop(self) -> None:
        self._is_stopped = True
        assert self._containerd.process is not None
        self._containerd.process.terminate()
        self._thread.join(60)


class NodeInstall:
    def __init__(self, node: Node, context: Path) -> None:
        self.node = node
        self.context = context
        self.supervisor = Supervisor(node)
        self.directory = node.directory / "installed"
        self.config = node.containerd.config_path
        self.original = self.config.read_text()

    def image(self, name: str, file: str = "bench/__init__.py", text: str = "") -> Path:
        return derived(self.context, self.node.directory / name, file, text or f"\n# {name}\n")

    def run(self, image: Path, *options: str) -> str:
        """One pass; the state that it logged last."""
        command = [
            python(), "-sPB", str(image / "node.py"), "--once", "--no-report", "--directory", str(self.directory),
            "--config", str(self.config), "--runtime", RUNTIME, "--selftest-step", "container-lifecycle",
            "--restart-command", shlex.join([str(self.supervisor.restart_script)]), *options,
        ]  # fmt: skip
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PASS_TIMEOUT, check=False
        )
        assert done.stdout, done.stderr
        self.log = done.stdout
        state = done.stdout.splitlines()[-1].split("node-install: ")[1].split(":")[0].split()[0]
        assert done.returncode == (0 if state in (READY, REMOVED) else 1), done.stdout + done.stderr
        return state

    def shim(self) -> Path:
        """The shim that containerd's configuration names."""
        settings = tomllib.loads(self.config.with_name("runhcs.toml").read_text())
        plugin = FORMATS[2 if self.node.version.startswith("2") else 1][1]
        return Path(settings["plugins"][plugin]["containerd"]["runtimes"][RUNTIME]["runtime_path"])

    def versions(self) -> list[str]:
        return sorted(path.name for path in (self.directory / "versions").glob("*"))

    def start_container(self) -> str:
        """A container of the installed version."""
        name = self.node.name()
        config = self.node.config(self.node.spec("ping", "-t", "localhost"))
        self.node.ctr("run", "-d", "--null-io", "--runtime", str(self.shim()), "--config", config, name)
        return name


class RunningContainer:
    """A container that must not notice anything: the same shim, the same process, and it takes execs."""

    def __init__(self, installed: NodeInstall) -> None:
        self._node = installed.node
        self.id = installed.start_container()
        self._before = self._processes()

    def _processes(self) -> tuple[int, str]:
        row = next(line.split() for line in self._node.ctr("task", "ls").stdout.splitlines() if self.id in line.split())
        return self._node.shim_pid(self.id), row[1]

    def expect_undisturbed(self) -> None:
        assert self._processes() == self._before
        assert self._node.status(self.id) == "RUNNING"
        done = self._node.exec(self.id, f"e{os.urandom(4).hex()}", "cmd", "/c", "echo alive")
        assert done.returncode == 0 and "alive" in done.stdout, done.stderr

    def remove(self) -> None:
        self._node.remove(self.id)


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_context(tmp_path_factory.mktemp("image"))


@pytest.fixture
def installed(version: str, context: Path) -> Iterator[NodeInstall]:
    node = Node(version, cri=True)
    try:
        one = NodeInstall(node, context)
        try:
            yield one
        finally:
            one.supervisor.stop()
    finally:
        node.stop()


def expect_released(installed: NodeInstall, image: Path, mode: str, condition: Callable[[], bool]) -> None:
    """Passes remove versions as soon as the last process of them has exited."""
    eventually(lambda: installed.run(image, "--mode", mode) in (READY, REMOVED) and condition(), "removal", 120)


@pytest.mark.parametrize("version", ["1.7", "2.3"])
def test_install_upgrade_and_removal_do_not_interrupt_containers(installed: NodeInstall) -> None:
    first_image, second_image = installed.image("first"), installed.image("second")
    assert installed.run(first_image) == READY, installed.log
    assert installed.supervisor.restarts == 1
    first = installed.shim()
    container = RunningContainer(installed)

    assert installed.run(first_image) == READY
    assert installed.supervisor.restarts == 1, "nothing has changed"

    assert installed.run(second_image) == READY, installed.log
    assert installed.supervisor.restarts == 2
    second = installed.shim()
    assert second != first and len(installed.versions()) == 2, "the version of a running container is kept"
    container.expect_undisturbed()
    other = RunningContainer(installed)

    container.remove()
    expect_released(installed, second_image, "install", lambda: installed.versions() == [second.parents[1].name])
    assert installed.supervisor.restarts == 2
    other.expect_undisturbed()

    assert installed.run(second_image, "--mode", "uninstall") == REMOVED, installed.log
    assert installed.supervisor.restarts == 3
    assert installed.config.read_text() == installed.original
    assert second.exists(), "a running container needs its shim"
    other.expect_undisturbed()
    other.remove()
    expect_released(installed, second_image, "uninstall", lambda: not installed.directory.exists())
    assert installed.supervisor.restarts == 3


@pytest.mark.parametrize("version", ["2.3"])
def test_version_that_fails_the_selftest_is_rejected(installed: NodeInstall) -> None:
    """containerd is not restarted for it."""
    good = installed.image("good")
    assert installed.run(good) == READY, installed.log
    shim, config = installed.shim(), installed.config.read_text()
    container = RunningContainer(installed)
    bad = installed.image("bad", "shim/task/create.py", BROKEN_CREATE)
    assert installed.run(bad) == REJECTED, installed.log
    assert "container-lifecycle" in installed.log and "a broken version" in installed.log
    assert installed.run(bad) == REJECTED, "it is not tried again at once"
    assert installed.shim() == shim and installed.config.read_text() == config
    assert installed.supervisor.restarts == 1
    container.expect_undisturbed()
    assert installed.run(good) == READY
    container.remove()


@pytest.mark.parametrize("version", ["2.3"])
def test_version_that_fails_after_the_switch_is_rolled_back(installed: NodeInstall) -> None:
    """Here containerd cannot be restarted at first."""
    good, other = installed.image("good"), installed.image("other")
    assert installed.run(good) == READY, installed.log
    shim = installed.shim()
    container = RunningContainer(installed)
    installed.supervisor.fails.touch()
    assert installed.run(other) == ROLLED_BACK, installed.log
    assert "cannot be restarted" in installed.log and "refused" in installed.log
    assert installed.shim() == shim and installed.supervisor.restarts == 2, "one restart, with the previous runtimes"
    container.expect_undisturbed()
    assert installed.run(other) == ROLLED_BACK and installed.supervisor.restarts == 2, "it is not tried again"
    state = json.loads((installed.directory / "installation.json").read_text())
    assert state["previous"] is None and state["version"] == shim.parents[1].name
    assert installed.run(other, "--retry", "2") == READY, "another value of `retry` tries it again"
    assert installed.shim() != shim
    container.expect_undisturbed()
    container.remove()
