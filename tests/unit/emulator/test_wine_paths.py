"""Windows paths of a Wine prefix as Linux paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hcs_emulator.service.transport.wire import Request
from hcs_emulator.service.wine.paths import WindowsPaths


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    (tmp_path / "drive_c" / "ProgramData" / "layers").mkdir(parents=True)
    (tmp_path / "dosdevices").mkdir()
    (tmp_path / "dosdevices" / "c:").symlink_to("../drive_c")
    (tmp_path / "dosdevices" / "z:").symlink_to("/")
    return tmp_path


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (r"C:\ProgramData\layers", "drive_c/ProgramData/layers"),
        (r"c:\programdata\LAYERS\new", "drive_c/ProgramData/layers/new"),
        (r"\\?\C:\ProgramData", "drive_c/ProgramData"),
        ("C:/ProgramData//layers/", "drive_c/ProgramData/layers"),
        ("C:", "drive_c"),
        (r"\\?\Volume{00000000-0000-0000-0000-000000000043}\ProgramData", "drive_c/ProgramData"),
    ],
)
def test_drive_path_is_translated_to_the_prefix(prefix: Path, given: str, expected: str) -> None:
    assert WindowsPaths(str(prefix)).linux(given) == str(prefix.resolve() / expected)


@pytest.mark.parametrize("given", ["\\\\?\\Volume{5c8ae2a0-65fd-4c9b-9b0b-2f0a6c6f1a01}\\", r"\\.\pipe\x", "web1", ""])
def test_other_paths_are_unchanged(prefix: Path, given: str) -> None:
    assert WindowsPaths(str(prefix)).translate(Request("ActivateLayer", 0, 0, [given])).strings == [given]


def test_only_host_path_members_of_documents_are_translated(prefix: Path) -> None:
    document = {
        "Storage": {"Layers": [{"Id": "x", "Path": r"C:\ProgramData"}]},
        "MappedDirectories": [{"HostPath": r"Z:\tmp", "ContainerPath": r"C:\data"}],
        "CommandLine": r"C:\ProgramData\x.exe",
    }
    request = Request("HcsCreateComputeSystem", 0, 0, ["id", json.dumps(document), None])
    translated = WindowsPaths(str(prefix)).translate(request)
    assert translated.strings[0] == "id" and translated.strings[2] is None
    assert json.loads(translated.strings[1] or "") == {
        "Storage": {"Layers": [{"Id": "x", "Path": str(prefix.resolve() / "drive_c" / "ProgramData")}]},
        "MappedDirectories": [{"HostPath": "/tmp", "ContainerPath": r"C:\data"}],
        "CommandLine": r"C:\ProgramData\x.exe",
    }
