"""`runhcs install` of a Windows node, with the calls into Windows replaced."""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from runhcs.install import installer, windows
from runhcs.install.interfaces import InstallError
from runhcs.install.windows import LIBRARY, PROGRAM, TOOL

CONFIG = "version = 2\n\n[grpc]\n  address = 'x'\n"


class FakeWindows:
    """What the calls have changed."""

    def __init__(self) -> None:
        self.administrator = True
        self.protected: set[Path] = set()
        self.in_use: set[Path] = set()
        self.event_source = False
        self.major = 2
        self.restarts: list[str] = []
        self.restart_error = ""
        self.pid: int | None = 100

    def is_administrator(self) -> bool:
        return self.administrator

    def is_protected(self, path: Path) -> bool:
        return path in self.protected

    def protect(self, path: Path) -> None:
        self.protected.add(path)
        # A version is renamed after its files are protected.
        versions = path.parts.index("versions") + 1 if "versions" in path.parts else len(path.parts)
        names = [name.removeprefix(".").removesuffix(".partial") for name in path.parts[versions:]]
        self.protected.add(Path(*path.parts[:versions], *names))

    def is_in_use(self, path: Path) -> bool:
        return any(one in path.parents for one in self.in_use)

    def has_event_source(self) -> bool:
        return self.event_source

    def add_event_source(self) -> None:
        self.event_source = True

    def remove_event_source(self) -> None:
        self.event_source = False

    def containerd_major(self, config: Path) -> int:
        return self.major

    def restart(self, service: str) -> None:
        if self.restart_error:
            raise InstallError(self.restart_error)
        self.restarts.append(service)
        self.pid = 100 + len(self.restarts)

    def service_pid(self, service: str) -> int | None:
        return self.pid


class Node:
    def __init__(self, directory: Path) -> None:
        self.system = FakeWindows()
        self.zip = directory / "unpacked"
        self.root = directory / "installed"
        self.config = directory / "containerd" / "config.toml"
        self.imported = self.config.with_name("runhcs.toml")
        self.state = directory / "state"
        (self.zip / LIBRARY / "lib").mkdir(parents=True)
        self.config.parent.mkdir()
        self.config.write_text(f"state = '{self.state}'\n{CONFIG}")
        for name in (PROGRAM, TOOL, "LICENSE", f"{LIBRARY}/python313.dll", f"{LIBRARY}/lib/modules.bin"):
            (self.zip / name).write_text(f"{name} of the first version")

    def change_zip(self) -> None:
        (self.zip / LIBRARY / "lib" / "modules.bin").write_text("the second version")

    def run(self, *arguments: str) -> int:
        parser = argparse.ArgumentParser()
        windows.configure(parser)
        options = ["--directory", str(self.root), "--config", str(self.config), "--runtime", "runhcs-wcow-process"]
        return windows.run(parser.parse_args([*options, *arguments]), self.system, self.zip)

    def report(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
        assert self.run("--json", *arguments) == 0, capsys.readouterr().err
        report: dict[str, Any] = json.loads(capsys.readouterr().out)
        return report

    def versions(self) -> list[Path]:
        return sorted(self.root.glob("versions/*"))

    def add_pod(self, version: Path) -> Path:
        bundle = self.state / "io.containerd.runtime.v2.task" / "k8s.io" / "pod"
        bundle.mkdir(parents=True)
        (bundle / "shim-binary-path").write_text(str(version / PROGRAM))
        return bundle / "shim-binary-path"

    def files(self) -> dict[Path, bytes]:
        directories = (self.root, self.config.parent)
        return {path: path.read_bytes() for one in directories for path in one.rglob("*") if path.is_file()}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(installer, "STANDBY_SECONDS", 0.1)
    monkeypatch.setattr(installer, "POLL_SECONDS", 0.01)
    return Node(tmp_path)


def outcomes(report: dict[str, Any]) -> set[str]:
    return {action["outcome"] for action in report["actions"]}


def test_install_copies_files_and_adds_runtimes(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    before = node.config.read_text()
    report = node.report(capsys)
    (version,) = node.versions()
    assert report["changed"] and report["restart_needed"] and report["shim"] == str(version / PROGRAM)
    assert windows.files_of(version) == windows.files_of(node.zip)
    assert tomllib.loads(node.config.read_text())["imports"] == [str(node.imported)]
    section = tomllib.loads(node.imported.read_text())["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]
    assert section["runtimes"]["runhcs-wcow-process"]["runtime_path"] == report["shim"]
    assert node.config.with_name("config.toml.runhcs-backup").read_text() == before
    assert version.name in (node.root / "runhcs.cmd").read_text()
    assert node.system.event_source and node.system.restarts == []


def test_installed_files_are_protected_before_they_are_used(node: Node) -> None:
    assert node.run() == 0
    (version,) = node.versions()
    expected = {node.root, node.root / "versions", version, *version.rglob("*")}
    assert expected <= node.system.protected


def test_second_install_changes_nothing(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.report(capsys)
    before = node.files()
    report = node.report(capsys)
    assert not report["changed"] and outcomes(report) == {"unchanged"} and report["restart_needed"]
    assert node.files() == before


def test_dry_run_changes_nothing(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    before = node.files()
    node.system.administrator = False
    report = node.report(capsys, "--dry-run")
    assert report["changed"] and outcomes(report) == {"planned"}
    assert node.files() == before and not node.root.exists() and not node.system.event_source


def test_restart_on_request_happens_once(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.report(capsys)
    assert not node.report(capsys, "--restart-containerd")["restart_needed"], "the change of the first run is pending"
    node.report(capsys, "--restart-containerd")
    assert node.system.restarts == ["containerd"]


def test_failed_restart_is_repeated(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.system.restart_error = "the service cannot be restarted"
    assert node.run("--restart-containerd") == 1
    assert node.system.restart_error in capsys.readouterr().err
    node.system.restart_error = ""
    node.report(capsys, "--restart-containerd")
    assert node.system.restarts == ["containerd"]


def test_other_version_needs_upgrade(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.report(capsys)
    node.change_zip()
    assert node.run() == 1
    assert "use --upgrade" in capsys.readouterr().err


@pytest.mark.parametrize("has_process", [True, False], ids=["process", "bundle"])
def test_upgrade_keeps_versions_in_use(node: Node, has_process: bool, capsys: pytest.CaptureFixture[str]) -> None:
    node.report(capsys, "--restart-containerd")
    (first,) = node.versions()
    os.utime(first / PROGRAM, (1, 1))
    bundle = None
    if has_process:
        node.system.in_use.add(first)
    else:
        bundle = node.add_pod(first)
    node.change_zip()
    report = node.report(capsys, "--upgrade", "--restart-containerd")
    second = Path(report["shim"]).parent
    assert node.versions() == sorted([first, second])
    assert {"action": "remove", "target": str(first), "outcome": "kept"} in report["actions"]
    assert (first / PROGRAM).stat().st_mtime > 1, "its standby exits when the time of its program changes"
    assert str(second).replace("\\", "\\\\") in node.imported.read_text()
    node.system.in_use.clear()
    if bundle is not None:
        bundle.unlink()
    node.report(capsys, "--upgrade", "--restart-containerd")
    assert node.versions() == [second]


def test_upgrade_keeps_the_version_that_containerd_uses(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """Until it is restarted, by us or by an administrator."""
    node.report(capsys, "--restart-containerd")
    (first,) = node.versions()
    node.change_zip()
    for _ in range(2):
        report = node.report(capsys, "--upgrade")
        assert report["restart_needed"] and first in node.versions()
    node.system.pid = 200
    report = node.report(capsys, "--upgrade")
    assert not report["restart_needed"] and node.versions() == [Path(report["shim"]).parent]


def test_stopped_service_needs_no_restart(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.system.pid = 0
    assert not node.report(capsys, "--restart-containerd")["restart_needed"]
    assert node.system.restarts == []


def test_containerd_without_service_is_restarted_by_the_administrator(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether it was cannot be seen: the next run assumes it."""
    node.system.pid = None
    assert node.report(capsys)["restart_needed"]
    assert not node.report(capsys)["restart_needed"]


def test_other_configuration_needs_uninstall(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.report(capsys)
    other = node.config.with_name("other.toml")
    other.write_text(CONFIG)
    assert node.run("--config", str(other)) == 1
    assert "--uninstall first" in capsys.readouterr().err and other.read_text() == CONFIG


def test_modified_files_are_installed_again(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.report(capsys)
    (version,) = node.versions()
    (version / "version.dll").write_text("planted beside the program")
    (version / LIBRARY / "python313.dll").write_text("other")
    node.system.in_use.add(version)
    assert node.run() == 1 and "was modified" in capsys.readouterr().err
    node.system.in_use.clear()
    node.report(capsys)
    assert not (version / "version.dll").exists()
    assert windows.version_name(version) == version.name


def test_uninstall_restores_the_previous_state(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    before = node.files()
    node.report(capsys)
    assert "kept" in outcomes(node.report(capsys, "--uninstall")), "until containerd is restarted"
    node.system.pid = 200
    report = node.report(capsys, "--uninstall")
    after = node.files()
    assert after.pop(node.config.with_name("config.toml.runhcs-backup")) == before[node.config]
    assert after == before and not node.root.exists() and not node.system.event_source
    assert not report["restart_needed"]
    assert not node.report(capsys, "--uninstall")["changed"]


def test_uninstall_keeps_versions_in_use_and_removes_them_later(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node.report(capsys)
    (version,) = node.versions()
    bundle = node.add_pod(version)
    report = node.report(capsys, "--uninstall", "--restart-containerd")
    assert "kept" in outcomes(report) and (version / PROGRAM).exists() and not node.imported.exists()
    bundle.unlink()
    node.report(capsys, "--uninstall")
    assert not node.root.exists()


def test_missing_configuration_is_created_and_removed(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.config.unlink()
    node.report(capsys)
    assert tomllib.loads(node.config.read_text()) == {"version": 3, "imports": [str(node.imported)]}
    node.report(capsys)
    node.report(capsys, "--uninstall", "--restart-containerd")
    assert list(node.config.parent.iterdir()) == []


def test_missing_configuration_and_containerd_is_an_error(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.config.unlink()
    node.system.major = 0
    assert node.run() == 1
    assert "see --config" in capsys.readouterr().err


def test_user_without_rights_is_refused(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.system.administrator = False
    assert node.run() == 1
    assert "elevated" in capsys.readouterr().err and not node.root.exists()


def test_directory_without_the_zip_is_refused(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    (node.zip / PROGRAM).unlink()
    assert node.run() == 1
    assert "run runhcs.exe of the zip" in capsys.readouterr().err


def test_files_of_other_programs_are_not_installed(node: Node) -> None:
    """The zip may be unpacked beside containerd.exe."""
    (node.zip / "containerd.exe").write_text("another program")
    assert node.run() == 0
    assert not list(node.root.rglob("containerd.exe"))
