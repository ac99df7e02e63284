"""`runhcs node-install`: what a pass does, with the real installer and the calls into the system replaced, and killed
after each of its steps."""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runhcs.install import files, installer, options, windows
from runhcs.install.installer import Installer
from runhcs.install.interfaces import InstallError
from runhcs.node.host import HostError, Installation, installation
from runhcs.node.reconcile import (
    FAILED,
    INSTALLING,
    READY,
    REJECTED,
    REMOVED,
    ROLLED_BACK,
    UNHEALTHY,
    Reconciler,
    Status,
)
from runhcs.node.record import FIRST_DELAY, LONGEST_DELAY, Record
from tests.unit.runhcs.test_install_windows import Node

RUNTIME = "runhcs-wcow-process"


class Killed(BaseException):
    """The process was killed."""


class Commands:
    """The commands of a node, in this process: the installer of Windows with its calls into Windows replaced."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.calls: list[str] = []
        self.selftest_error: HostError | None = None
        self.doctor_error: HostError | None = None

    def install(self, *arguments: str) -> Installation:
        self.calls.append("install " + " ".join(arguments))
        parser = argparse.ArgumentParser()
        options.configure(parser, str(self.node.root), str(self.node.config), default_directory=True)
        args = parser.parse_args(["--runtime", RUNTIME, *arguments])
        one = Installer(args, self.node.system, windows.WindowsLayout(), self.node.zip)
        try:
            command = one.uninstall if args.uninstall else one.rollback if args.rollback else one.install
            command()
        except (InstallError, OSError) as error:
            raise HostError(str(error)) from None
        from attrs import asdict

        return installation(asdict(one.report))

    def selftest(self, found: Installation) -> None:
        self.calls.append("selftest")
        assert Path(found.shim).exists(), "the selftest runs the staged version"
        if self.selftest_error is not None:
            raise self.selftest_error

    def doctor(self, found: Installation) -> None:
        self.calls.append("doctor")
        if self.doctor_error is not None:
            raise self.doctor_error


class Cluster:
    """A node and its agent. The time is set by the test."""

    def __init__(self, directory: Path) -> None:
        self.node = Node(directory)
        self.commands = Commands(self.node)
        self.now = 1000.0
        self.reported: list[Status] = []

    def reconciler(self, retry: str = "") -> Reconciler:
        record = Record(self.node.root, lambda: self.now)
        return Reconciler(self.commands, record, self.reported.append, runtimes=[RUNTIME], retry=retry)

    def install(self, retry: str = "") -> Status:
        self.commands.calls.clear()
        return self.reconciler(retry).install()

    @property
    def restarts(self) -> int:
        return len(self.node.system.restarts)

    def active(self) -> str:
        """The version that containerd's configuration names; "" if it names none. Its shim exists."""
        settings = tomllib.loads(self.node.config.read_text())
        if str(self.node.imported) not in settings.get("imports", []):
            return ""
        text = tomllib.loads(self.node.imported.read_text())
        plugins = text["plugins"].values()
        shim = Path(next(iter(plugins))["containerd"]["runtimes"][RUNTIME]["runtime_path"])
        assert shim.exists(), f"containerd runs {shim}, which does not exist"
        return shim.parent.name


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(installer, "STANDBY_SECONDS", 0.1)
    monkeypatch.setattr(installer, "POLL_SECONDS", 0.01)
    return Cluster(tmp_path)


def test_first_pass_tests_the_version_before_containerd_uses_it(cluster: Cluster) -> None:
    status = cluster.install()
    assert status == Status(READY, cluster.active()) and status.is_done and status.is_usable
    assert [call.split(" --")[0] for call in cluster.commands.calls] == [
        "install", "install", "selftest", "install", "doctor", "install",
    ]  # fmt: skip
    assert cluster.commands.calls.index("selftest") == 2, "before the switch"
    assert cluster.restarts == 1
    assert [one.state for one in cluster.reported] == [INSTALLING]


def test_further_passes_restart_nothing(cluster: Cluster) -> None:
    cluster.install()
    for _ in range(2):
        assert cluster.install().state == READY
        assert "selftest" not in cluster.commands.calls
    assert cluster.restarts == 1


def test_changed_configuration_is_repaired_and_containerd_restarted(cluster: Cluster) -> None:
    cluster.install()
    version = cluster.active()
    cluster.node.imported.unlink()
    assert cluster.install() == Status(READY, version)
    assert cluster.active() == version and cluster.restarts == 2


def test_failed_selftest_leaves_containerd_alone(cluster: Cluster) -> None:
    cluster.install()
    first = cluster.active()
    before = cluster.node.config.read_text(), cluster.node.imported.read_text()
    cluster.node.change_zip()
    cluster.commands.selftest_error = HostError("selftest: vm: no Hyper-V", "install it")
    status = cluster.install()
    assert status == Status(REJECTED, first, "selftest: vm: no Hyper-V", "install it")
    assert status.is_usable and not status.is_done, "pods run with the previous version"
    assert (cluster.node.config.read_text(), cluster.node.imported.read_text()) == before and cluster.restarts == 1


def test_rejected_version_is_tried_again_later_and_less_often(cluster: Cluster) -> None:
    cluster.commands.selftest_error = HostError("no image")
    delay = FIRST_DELAY
    for _ in range(6):
        assert cluster.install().state == REJECTED and "selftest" in cluster.commands.calls
        cluster.now += delay - 1
        assert cluster.install().state == REJECTED and "selftest" not in cluster.commands.calls
        cluster.now += 1
        delay = min(2 * delay, LONGEST_DELAY)
    cluster.commands.selftest_error = None
    assert cluster.install().state == READY
    assert not (cluster.node.root / "node.json").exists()


@pytest.mark.parametrize("has_previous", [True, False], ids=["upgrade", "first"])
@pytest.mark.parametrize("failing", ["doctor", "restart"])
def test_failure_after_the_switch_is_rolled_back(cluster: Cluster, failing: str, has_previous: bool) -> None:
    if has_previous:
        cluster.install()
        cluster.node.change_zip()
    first = cluster.active()
    if failing == "doctor":
        cluster.commands.doctor_error = HostError("doctor: hcs: no answer", "start it")
    else:
        _fail_next_restart(cluster)
    status = cluster.install()
    assert (status.state, status.version, status.is_usable) == (ROLLED_BACK, first, has_previous)
    assert status.reason and status.next_step and cluster.active() == first
    restarts = cluster.restarts
    cluster.commands.doctor_error = None
    cluster.now += 10 * LONGEST_DELAY
    assert cluster.install() == status and cluster.restarts == restarts, "each attempt would restart containerd"
    assert cluster.install(retry="again").state == READY and cluster.active() != first


def _fail_next_restart(cluster: Cluster) -> None:
    system = cluster.node.system
    restart = system.restart

    def fail(service: str) -> None:
        system.restart = restart  # type: ignore[method-assign]
        raise InstallError("containerd cannot be restarted")

    system.restart = fail  # type: ignore[method-assign]


def test_failed_rollback_is_tried_again(cluster: Cluster) -> None:
    cluster.install()
    first = cluster.active()
    cluster.node.change_zip()
    cluster.node.system.restart_error = "the service hangs"
    status = cluster.install()
    assert status.state == FAILED and "the rollback failed, too" in status.reason
    cluster.node.system.restart_error = ""
    assert cluster.install().state == ROLLED_BACK and cluster.active() == first


def test_node_that_fails_later_is_unhealthy(cluster: Cluster) -> None:
    cluster.install()
    cluster.commands.doctor_error = HostError("doctor: vmcompute: stopped", "start it")
    status = cluster.install()
    assert status.state == UNHEALTHY and not status.is_usable and cluster.active() == status.version
    assert cluster.restarts == 1


def test_newer_version_during_an_unconfirmed_one_keeps_the_last_good(cluster: Cluster) -> None:
    cluster.install()
    first = cluster.active()
    cluster.node.change_zip()
    cluster.commands.install("--upgrade", "--keep-previous", "--restart-containerd")  # then it was killed
    (cluster.node.zip / "LICENSE").write_text("a third version")
    cluster.commands.doctor_error = HostError("doctor: it fails")
    assert cluster.install() == Status(ROLLED_BACK, first, "doctor: it fails", cluster.install().next_step)
    assert cluster.active() == first


def test_uninstall_reports_versions_that_pods_use(cluster: Cluster) -> None:
    cluster.install()
    bundle = cluster.node.add_pod(cluster.node.root / "versions" / cluster.active())
    status = cluster.reconciler().uninstall()
    assert status.state == REMOVED and status.is_done and not status.is_usable and "pods" in status.reason
    assert cluster.active() == ""
    bundle.unlink()
    assert cluster.reconciler().uninstall() == Status(REMOVED) and not cluster.node.root.exists()


# -- Killed after each step.


class Killer:
    """Kills the process after a number of changes to the node."""

    def __init__(self, patch: pytest.MonkeyPatch, cluster: Cluster) -> None:
        self.left = -1
        places: list[tuple[Any, str]] = [(files, "replace"), (files, "remove_directory"), (Path, "rename")]
        for owner, name in (*places, (Path, "unlink"), (cluster.node.system, "restart")):
            self._wrap(patch, owner, name)

    def _wrap(self, patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def wrapped(*args: Any, **named: Any) -> Any:
            result = original(*args, **named)
            self.left -= 1
            if self.left == 0:
                raise Killed
            return result

        patch.setattr(owner, name, wrapped)


FIRST, UPGRADE, ROLLBACK, REMOVAL = "first", "upgrade", "rollback", "removal"


@pytest.mark.parametrize("what", [FIRST, UPGRADE, ROLLBACK, REMOVAL])
def test_pass_that_is_killed_after_each_step_is_completed_by_the_next(tmp_path: Path, what: str) -> None:
    """Each step on a node of its own, until a pass has no more steps."""
    for step in range(1, 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(installer, "STANDBY_SECONDS", 0.1)
            patch.setattr(installer, "POLL_SECONDS", 0.01)
            (tmp_path / f"{what}-{step}").mkdir()
            if not _is_completed(Cluster(tmp_path / f"{what}-{step}"), patch, what, step):
                break
    assert step > 5


def _is_completed(cluster: Cluster, patch: pytest.MonkeyPatch, what: str, step: int) -> bool:
    """Kill a pass after this step and verify the next ones. False if the pass has fewer steps."""
    first = ""
    if what != FIRST:
        assert cluster.install().state == READY
        first = cluster.active()
    if what in (UPGRADE, ROLLBACK):
        cluster.node.change_zip()
    if what == ROLLBACK:
        cluster.commands.doctor_error = HostError("doctor: it fails")
    run = cluster.reconciler().uninstall if what == REMOVAL else cluster.install
    killer = Killer(patch, cluster)
    killer.left = step
    try:
        run()
        return False
    except Killed:
        killer.left = -1
    assert cluster.active() or what in (FIRST, REMOVAL), "containerd has a version at any time"
    restarts = cluster.restarts
    run()
    status = run()
    assert cluster.restarts <= restarts + 2, "the change, and its rollback"
    expected = {FIRST: READY, UPGRADE: READY, ROLLBACK: ROLLED_BACK, REMOVAL: REMOVED}[what]
    assert status.state == expected, f"killed after step {step}: {status}"
    if what == REMOVAL:
        assert cluster.active() == "" and not cluster.node.root.exists() and cluster.restarts >= 2
        return True
    assert cluster.active() != first or what == ROLLBACK
    state = json.loads((cluster.node.root / "installation.json").read_text())
    assert state["pending_pid"] is None and state["previous"] is None and cluster.restarts >= 1
    assert [path.name for path in cluster.node.versions()] == [cluster.active()], "old versions are removed"
    return True
