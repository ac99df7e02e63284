"""containerd finds the shim binary by the name of the runtime, starts it, and understands its responses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.containerd.daemon import RUNTIME, Containerd

# A spec that cannot run: it has neither a root file system nor layers.
EMPTY_SPEC = {"ociVersion": "1.0.2", "process": {"args": ["cmd", "/c", "exit"], "cwd": "C:\\"}, "windows": {}}


@pytest.fixture
def empty_spec(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(EMPTY_SPEC))
    return str(path)


def test_failed_create_leaks_nothing(containerd: Containerd, empty_spec: str) -> None:
    result = containerd.ctr("run", "--runtime", RUNTIME, "--config", empty_spec, "c1", check=False)
    assert result.returncode == 1
    # The error is the shim's response to Create, not a failure to start the shim or to connect to it.
    _, found, error = result.stderr.rpartition("failed to create shim task: ")
    assert found and error.strip(), result.stderr
    assert "ttrpc" not in error and "closed" not in error and "dial" not in error, result.stderr
    containerd.ctr("container", "rm", "c1")
    containerd.expect_clean()


def test_shim_log_reaches_containerd_log(containerd: Containerd, empty_spec: str) -> None:
    containerd.ctr("run", "--runtime", RUNTIME, "--config", empty_spec, "c1", check=False)
    line = containerd.expect_log('msg="starting containerd-shim-runhcs-v1"')
    assert "level=info" in line and "tid=c1" in line


def test_failed_start_reports_the_reason(containerd: Containerd, tmp_path: Path) -> None:
    spec = {**EMPTY_SPEC, "annotations": {"io.kubernetes.cri.container-type": "sandbox"}}
    (tmp_path / "config.json").write_text(json.dumps(spec))
    result = containerd.ctr("run", "--runtime", RUNTIME, "--config", str(tmp_path / "config.json"), "c1", check=False)
    assert result.returncode == 1
    assert "io.kubernetes.cri.sandbox-id: give both or none" in result.stderr
    containerd.ctr("container", "rm", "c1")
    containerd.expect_clean()


@pytest.mark.parametrize("version", ["2.3"])
def test_inspect_runtime(containerd: Containerd) -> None:
    result = containerd.ctr("plugins", "inspect-runtime", "--runtime", RUNTIME)
    info = json.loads(result.stdout)
    assert info["Name"] == "containerd-shim-runhcs-v1"
    assert info["Version"]["Version"]


def test_shim_under_another_runtime_name(containerd: Containerd) -> None:
    """From 2.3 on containerd uses another protocol on stdin for binaries whose name it does not know."""
    (containerd.directory / "bin" / "containerd-shim-other-v1").symlink_to(containerd.launcher)
    assert containerd.run("c1", "/bin/echo", "hi", runtime="com.example.other.v1").stdout == "hi\n"
    containerd.expect_clean()


def test_config_path_as_options(containerd: Containerd, tmp_path: Path) -> None:
    """`ctr` passes only the path of the file to runtimes that it does not know."""
    (tmp_path / "options.toml").write_text('LogLevel = "debug"\n')
    flags = ("--rm", "--runtime-config-path", str(tmp_path / "options.toml"))
    assert containerd.run("c1", "/bin/echo", "hi", flags=flags).stdout == "hi\n"
    containerd.expect_clean()
