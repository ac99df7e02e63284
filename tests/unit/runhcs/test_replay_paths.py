"""Host paths of a recording, and where they are while it is replayed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runhcs.replay.paths import HostPaths


@pytest.mark.parametrize(
    "path", ["C:\\layers\\1", "C:\\Program Files\\Linux Containers\\kernel", "D:\\", "/run/layers/a b", "/"]
)
def test_path_is_translated_back(tmp_path: Path, path: str) -> None:
    paths = HostPaths(str(tmp_path))
    local = paths.local(path)
    assert local.startswith(str(tmp_path)) and paths.recorded({"a": [local]}) == {"a": [path]}


def test_path_in_a_text_is_translated_back(tmp_path: Path) -> None:
    paths = HostPaths(str(tmp_path))
    text = f"open '{paths.local('C:/a/b')}': not found"
    assert paths.recorded(text) == "open 'C:\\a\\b': not found"


def test_directory_with_a_place_of_its_own(tmp_path: Path) -> None:
    paths = HostPaths(str(tmp_path))
    paths.set_alias(f"{tmp_path}/hcs/Boot", "C:\\Program Files\\Linux Containers")
    local = paths.local("C:\\Program Files\\Linux Containers\\rootfs.vhd")
    assert local == f"{tmp_path}/hcs/Boot/rootfs.vhd"
    assert paths.recorded(local) == "C:\\Program Files\\Linux Containers\\rootfs.vhd"


def test_files_exist_as_recorded(tmp_path: Path) -> None:
    paths = HostPaths(str(tmp_path))
    paths.create({
        "C:\\a": "directory", "C:\\a\\layer.vhd": 1 << 33, "C:\\b": "missing", "C:\\s.vhdx": 7,
        "C:\\a\\link.vhdx": {"link": "C:\\s.vhdx"},
    })  # fmt: skip
    assert os.stat(paths.local("C:\\a\\layer.vhd")).st_size == 1 << 33
    assert os.stat(paths.local("C:\\a\\layer.vhd")).st_blocks == 0, "a disk takes no space"
    assert not paths.exists("C:\\b")
    assert os.path.realpath(paths.local("C:\\a\\link.vhdx")) == os.path.realpath(paths.local("C:\\s.vhdx"))


def test_network_namespace_of_the_host_is_translated_if_it_existed(tmp_path: Path) -> None:
    paths = HostPaths(str(tmp_path))
    spec = {
        "linux": {"namespaces": [{"type": "network", "path": "/run/netns/a"}, {"type": "ipc", "path": "/proc/7/ns"}]}
    }
    found = paths.spec(spec, {"/run/netns/a": 0, "/proc/7/ns": "missing"})["linux"]["namespaces"]
    assert [one["path"] for one in found] == [paths.local("/run/netns/a"), "/proc/7/ns"]
