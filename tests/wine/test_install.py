"""`runhcs install` of the unpacked zip: files, containerd's configuration, the event log's source."""

from __future__ import annotations

import stat
import tomllib
from typing import Any

import pytest

from tests.wine.conftest import Machine


@pytest.fixture
def drive(machine: Machine) -> Any:
    return lambda scenario: machine.drive_shim(scenario, script="install_driver.py")


def test_install_twice_and_uninstall(drive: Any) -> None:
    found = drive("installed")
    changes = ["create", "create", "install files", "write", "register event source", "write runtimes", "back up",
               "add import"]  # fmt: skip
    assert (found["planned"], found["untouched"], found["first"], found["second"]) == (changes, True, changes, [])
    assert found["config"].startswith("version = 2\r\nimports = ['C:\\work\\")
    section = tomllib.loads(found["runtimes"])["plugins"]["io.containerd.grpc.v1.cri"]
    assert section["cni"] == {"bin_dir": "C:\\cni"}, "containerd 1.x replaces the section by that of the import"
    assert section["containerd"]["runtimes"]["runhcs-wcow-process"]["runtime_path"] == found["shim"]
    assert "containerd-shim-runhcs-v1" in found["version"] and found["tool"]
    registry_expandable_text, registry_number = 2, 4
    message_file = r"%SystemRoot%\System32\EventCreate.exe"
    assert found["source"] == [message_file, registry_expandable_text, 7, registry_number]
    assert found["last"] == [["remove import", "remove", "remove event source", "remove"], ["remove"] * 3]
    assert found["kept"] == ["remove"], "until containerd is restarted"
    assert found["restored"] and found["remaining"] == [False, ["config.toml", "config.toml.runhcs-backup"], []]


def test_upgrade_while_a_shim_runs(drive: Any) -> None:
    found = drive("upgraded")
    assert found["new"] and found["kept"] == ["remove"] and found["both"]
    assert (found["status"], found["same_daemon"], found["exited"]) == (7, True, True)
    assert found["kept_by_uninstall"] == [["remove", "remove"], ["remove"]]
    assert found["removed"] == ["remove"] and found["remaining"]


def test_installed_files_have_the_access_control_list(drive: Any, machine: Machine) -> None:
    """Wine converts it to a mode: Administrators are the group, Users the others, who may read and execute."""
    shim = machine.drive / drive("protected").removeprefix("C:\\").replace("\\", "/")
    version = shim.parent
    for path in (version.parent.parent, version.parent, version, *version.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o775, path


def test_restart_on_request_restarts_the_service_once(drive: Any) -> None:
    found = drive("restarted")
    assert found["starts"] == 2, "started by the test, then by the first run"
    assert found["reports"] == [True, False]
    assert "runhcs-missing cannot be restarted" in found["missing"]
