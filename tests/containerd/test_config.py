"""The output of `runhcs config containerd` in real containerds: they accept it, and the CRI plugin has every runtime
with its options and its pass-through annotations."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from runhcs.config.containerd import FORMATS
from runhcs.config.runtimes import DEFAULTS, runtimes
from runhcs.install.containerd_config import effective_section, load, runtimes_text, with_import
from tests.containerd.daemon import VERSIONS, Containerd

STATUS = "/runtime.v1.RuntimeService/Status"


# Keys of a runtime that containerd 1.6 does not know.
SINCE_1_7 = ("snapshotter", "sandbox_mode")


def printed(version: str, *arguments: str) -> tuple[str, str]:
    """The configuration for this version of containerd, and the name of the CRI plugin in it."""
    major = int(version.partition(".")[0])
    command = [sys.executable, "-m", "runhcs", "config", "containerd", "--version", str(major), *arguments]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return text, FORMATS[major][1]


def runtimes_in(text: str, plugin: str) -> dict[str, Any]:
    section = tomllib.loads(text)["plugins"][plugin]["containerd"]
    assert section["default_runtime_name"] == "runhcs-wcow-process"
    found: dict[str, Any] = section["runtimes"]
    return found


def test_containerd_accepts_generated_config(version: str, tmp_path: Path) -> None:
    text, plugin = printed(version)
    (tmp_path / "config.toml").write_text(text)
    command = [str(VERSIONS[version] / "containerd"), "--config", str(tmp_path / "config.toml"), "config", "dump"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    dumped = runtimes_in(result.stdout, plugin)
    for name, expected in runtimes_in(text, plugin).items():
        for key, value in expected.items():
            if version != "1.6" or key not in SINCE_1_7:
                assert dumped[name][key] == value, (name, key)
    if version.startswith("2"):
        images = "io.containerd.cri.v1.images"
        expected = tomllib.loads(text)["plugins"][images]["runtime_platforms"]
        assert "runhcs-lcow" in expected
        assert tomllib.loads(result.stdout)["plugins"][images]["runtime_platforms"] == expected


def cri_config(containerd: Containerd) -> dict[str, Any]:
    """The configuration that the CRI plugin reports: StatusResponse.info["config"]."""
    file = descriptor_pb2.FileDescriptorProto(name="status.proto", package="status", syntax="proto3")
    response = file.message_type.add(name="StatusResponse")
    entry = response.nested_type.add(name="InfoEntry", options={"map_entry": True})
    for number, name in ((1, "key"), (2, "value")):
        entry.field.add(name=name, number=number, type="TYPE_STRING", label="LABEL_OPTIONAL")
    response.field.add(
        name="info", number=2, type="TYPE_MESSAGE", type_name=".status.StatusResponse.InfoEntry", label="LABEL_REPEATED"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("status.StatusResponse"))()
    with grpc.insecure_channel(f"unix://{containerd.address}") as channel:
        verbose = b"\x08\x01"
        message.ParseFromString(channel.unary_unary(STATUS)(verbose, timeout=30))
    config: dict[str, Any] = json.loads(message.info["config"])
    return config


@pytest.mark.parametrize("version", ["1.7", "2.3"])
def test_cri_plugin_lists_every_runtime(version: str, start_containerd: Callable[..., Containerd]) -> None:
    text, plugin = printed(version, "--emulator")
    version_line = next(line for line in text.splitlines() if line.startswith("version"))
    containerd = start_containerd(cri=True, config=text.replace(version_line, "", 1))
    section = cri_config(containerd)["containerd"]
    assert section["defaultRuntimeName"] == "runhcs-wcow-process"
    expected = runtimes_in(text, plugin)
    assert set(DEFAULTS) <= set(section["runtimes"])
    for name in DEFAULTS:
        actual = section["runtimes"][name]
        assert actual["runtimeType"] == "io.containerd.runhcs.v1"
        assert actual["PodAnnotations"] == expected[name]["pod_annotations"]
        assert actual["ContainerAnnotations"] == expected[name]["container_annotations"]
        assert (actual["options"] or {}) == expected[name].get("options", {})
        if "lcow" in name:
            assert actual["sandboxMode" if version == "1.7" else "sandboxer"] == "shim"


@pytest.mark.parametrize(("version", "config_version"), [("1.6", 2), ("1.7", 2), ("2.3", 2), ("2.3", 3)])
def test_containerd_merges_the_file_of_runhcs_install(version: str, config_version: int, tmp_path: Path) -> None:
    """The settings of the main file and of other imports stay, and the runtimes have the path of the shim."""
    plugin = FORMATS[config_version - 1][1]
    main, ours, shim = tmp_path / "config.toml", tmp_path / "runhcs.toml", "/opt/containerd-shim-runhcs-v1"
    main.write_text(
        f"version = {config_version}\nimports = ['other.toml']\n"
        f"[plugins.'{plugin}'.cni]\n  conf_dir = '/main'\n"
        f"[plugins.'{plugin}'.containerd.runtimes.runhcs-wcow-process.options]\n  Debug = true\n"
    )
    (tmp_path / "other.toml").write_text(f"version = {config_version}\n[timeouts]\n  'a' = '7s'\n")
    section = effective_section(load(main, str(ours)), config_version)
    ours.write_text(runtimes_text(runtimes(["runhcs-wcow-process"]), config_version, shim, section))
    main.write_text(with_import(main.read_text(), str(ours)))

    command = [str(VERSIONS[version] / "containerd"), "--config", str(main), "config", "dump"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    dumped = tomllib.loads(result.stdout)
    cri = dumped["plugins"]["io.containerd.cri.v1.runtime" if version == "2.3" else plugin]
    runtime = cri["containerd"]["runtimes"]["runhcs-wcow-process"]
    assert (runtime["runtime_path"], runtime["runtime_type"]) == (shim, "io.containerd.runhcs.v1")
    assert runtime["options"] == {"Debug": True} and cri["cni"]["conf_dir"] == "/main"
    assert cri["containerd"]["default_runtime_name"] == "runhcs-wcow-process" and dumped["timeouts"]["a"] == "7s"
