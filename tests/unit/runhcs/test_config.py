"""`runhcs config`: names of runtimes, and the generated TOML and YAML."""

from __future__ import annotations

import io
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest
import yaml

from runhcs.__main__ import main
from runhcs.config.containerd import FORMATS
from runhcs.config.containerd import text as containerd_text
from runhcs.config.runtimes import DEFAULTS, Runtime, UnknownRuntime, runtime
from shim.oci.annotations import container as names
from shim.oci.annotations.vm import PHYSICALLY_BACKED
from shim.oci.normalize import normalize_spec
from shim.oci.options import Options, from_toml
from shim.oci.spec import Spec
from shim.uvm.windows.settings import WindowsVmSettings
from tests.support import runtime_class_schema


def run(*arguments: str) -> tuple[int, str, str]:
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        try:
            code = main(["config", *arguments])
        except SystemExit as error_exit:
            code = int(error_exit.code or 0)
    return code, out.getvalue(), error.getvalue()


def printed(*arguments: str) -> str:
    code, out, error = run(*arguments)
    assert (code, error) == (0, ""), error
    return out


# Names.


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("runhcs-wcow-process", (False, 0, 0, 0, False)),
        ("runhcs-wcow-process-ltsc2022", (False, 20348, 0, 0, False)),
        ("runhcs-wcow-hypervisor", (True, 0, 0, 0, False)),
        ("runhcs-wcow-hypervisor-1809", (True, 17763, 0, 0, False)),
        ("runhcs-wcow-hypervisor-26100", (True, 26100, 0, 0, False)),
        ("runhcs-wcow-hypervisor-20348-1vp2gb", (True, 20348, 1, 2048, False)),
        ("runhcs-wcow-hypervisor-3vp5gb", (True, 0, 3, 5120, False)),
        ("runhcs-wcow-hypervisor-20348-reserve-4core", (True, 20348, 4, 8192, True)),
        ("runhcs-wcow-hypervisor-reserve-1core", (True, 0, 1, 2048, True)),
        ("runhcs-lcow", (True, 0, 0, 0, False, True)),
        ("runhcs-lcow-2vp4gb", (True, 0, 2, 4096, False, True)),
        ("runhcs-lcow-reserve-2core", (True, 0, 2, 4096, True, True)),
    ],
)
def test_runtime_name_is_parsed(name: str, meaning: tuple[Any, ...]) -> None:
    assert runtime(name) == Runtime(name, *meaning)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("runc", "is not the name of a runtime: try"),
        ("runhcs-wcow-hypervisor-", "is not the name of a runtime"),
        ("runhcs-wcow-hypervisor-0vp2gb", "is not the name of a runtime"),
        ("runhcs-wcow-hypervisor-10.0.20348", "is not the name of a runtime"),
        ("runhcs-wcow-hypervisor-20349x", "give a build"),
        ("runhcs-wcow-process-2vp2gb", "only VMs have a size, so use runhcs-wcow-process, or runhcs"),
        ("runhcs-lcow-20348", "a Linux guest has no build of Windows, so use runhcs-lcow"),
        ("runhcs-wcow-hypervisor-20348-" + "1" * 60 + "vp2gb", "is not the name of a runtime"),
    ],
)
def test_invalid_runtime_name_is_rejected(name: str, message: str) -> None:
    with pytest.raises(UnknownRuntime, match=message):
        runtime(name)
    code, out, error = run("containerd", name)
    assert (code, out) == (2, "") and message in error


def test_list_prints_the_defaults() -> None:
    for name in (
        "runhcs-wcow-process", "runhcs-wcow-hypervisor", "runhcs-wcow-hypervisor-17763", "runhcs-wcow-hypervisor-1809",
        "runhcs-wcow-hypervisor-20348", "runhcs-wcow-hypervisor-26100", "runhcs-wcow-hypervisor-20348-1vp2gb",
        "runhcs-wcow-hypervisor-20348-reserve-4core", "runhcs-lcow", "runhcs-lcow-2vp4gb",
    ):  # fmt: skip
        assert name in DEFAULTS
    assert [line.split()[0] for line in printed("list").splitlines()] == list(DEFAULTS)


def test_help_has_examples() -> None:
    code, out, _ = run("--help")
    assert code == 0 and "runhcs-wcow-hypervisor-20348-1vp2gb" in out and "docs/how-to/runtimeclasses.md" in out
    for what in ("containerd", "runtimeclass"):
        assert "Example: runhcs config" in run(what, "--help")[1]


# TOML.


def runtimes(major: int, *chosen: str) -> dict[str, Any]:
    config = tomllib.loads(printed("containerd", "--version", str(major), *chosen))
    version, plugin = FORMATS[major]
    assert config.keys() == {"version", "plugins"} and config["version"] == version
    if major == 1:
        assert config["plugins"].keys() == {plugin}
    section: dict[str, Any] = config["plugins"][plugin]["containerd"]
    if "runhcs-wcow-process" in section["runtimes"]:
        assert section["default_runtime_name"] == "runhcs-wcow-process"
    else:
        assert "default_runtime_name" not in section
    found: dict[str, Any] = section["runtimes"]
    return found


@pytest.mark.parametrize("major", [1, 2])
def test_containerd_config_has_all_default_runtimes(major: int) -> None:
    found = runtimes(major)
    assert list(found) == list(DEFAULTS)
    for name, section in found.items():
        assert section["runtime_type"] == "io.containerd.runhcs.v1"
        assert "io.microsoft.container.*" in section["container_annotations"]
        own = "io.microsoft.lcow.*" if "lcow" in name else "io.microsoft.wcow.*"
        assert own in section["container_annotations"]
        wanted = names.SANDBOX_OS_VERSION if "process" in name else "io.microsoft.virtualmachine.*"
        assert wanted in section["pod_annotations"]


def test_containerd_config_has_named_runtimes_once() -> None:
    assert list(runtimes(2, "runhcs-wcow-hypervisor-20348", "runhcs-wcow-hypervisor-20348")) == [
        "runhcs-wcow-hypervisor-20348"
    ]


def vm(name: str) -> tuple[Spec, WindowsVmSettings]:
    """The VM that the shim makes of a runtime's options, on a host with 8 processors."""
    options = runtimes(2, name)[name]["options"]
    spec = Spec({"windows": {}})
    normalize_spec(spec, from_toml(_toml(options), name))
    assert spec.is_isolated
    return spec, WindowsVmSettings(spec, 8, 26100, lambda sentence: None)


def _toml(options: dict[str, Any]) -> bytes:
    lines = [f"{key} = {str(value).lower()}" for key, value in options.items() if not isinstance(value, dict)]
    lines.append("[DefaultContainerAnnotations]")
    lines += [f'"{key}" = "{value}"' for key, value in options.get("DefaultContainerAnnotations", {}).items()]
    return "\n".join(lines).encode()


def test_shim_applies_the_generated_options() -> None:
    spec, sized = vm("runhcs-wcow-hypervisor-20348-1vp2gb")
    assert (spec.requested_build, sized.processors, sized.memory_mb) == (20348, 1, 2048)
    assert sized.allow_overcommit and spec.options.scale_cpu_limits_to_sandbox
    spec, reserved = vm("runhcs-wcow-hypervisor-17763-reserve-4core")
    assert (spec.requested_build, reserved.processors, reserved.memory_mb) == (17763, 4, 8192)
    assert reserved.physically_backed and not reserved.allow_overcommit and reserved.no_direct_map
    assert spec.annotations.text(PHYSICALLY_BACKED) == "true"
    spec, plain = vm("runhcs-wcow-hypervisor")
    assert (spec.requested_build, plain.processors, plain.memory_mb) == (0, 2, 1024)


def test_process_runtime_of_a_build_sets_its_version() -> None:
    section = runtimes(2, "runhcs-wcow-process-20348")["runhcs-wcow-process-20348"]
    spec = Spec({"windows": {}})
    normalize_spec(spec, from_toml(_toml(section["options"]), "it"))
    assert spec.requested_build == 20348 and not spec.is_isolated
    normalize_spec(Spec({"windows": {}}), Options())


def test_linux_runtime_has_snapshotter_sandboxer_and_platform() -> None:
    config = tomllib.loads(printed("containerd", "runhcs-lcow-2vp4gb", "runhcs-wcow-process"))
    found = config["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]["runhcs-lcow-2vp4gb"]
    assert (found["snapshotter"], found["sandboxer"]) == ("windows-lcow", "shim")
    assert found["options"] == {
        "SandboxIsolation": 1, "SandboxPlatform": "linux/amd64", "VmProcessorCount": 2, "VmMemorySizeInMb": 4096
    }  # fmt: skip
    assert config["plugins"]["io.containerd.cri.v1.images"] == {
        "runtime_platforms": {"runhcs-lcow-2vp4gb": {"platform": "linux/amd64", "snapshotter": "windows-lcow"}}
    }


def test_linux_runtime_for_containerd_1_has_snapshotter_and_sandbox_mode() -> None:
    found = runtimes(1, "runhcs-lcow")["runhcs-lcow"]
    assert (found["snapshotter"], found["sandbox_mode"]) == ("windows-lcow", "shim") and "sandboxer" not in found


def test_linux_runtime_on_the_emulator_uses_the_default_snapshotter() -> None:
    config = tomllib.loads(printed("containerd", "--emulator", "runhcs-lcow"))
    assert config["plugins"].keys() == {"io.containerd.cri.v1.runtime"}
    found = config["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]["runhcs-lcow"]
    assert "snapshotter" not in found and found["sandboxer"] == "shim"


def test_linux_runtime_with_a_path_on_the_emulator_has_a_sandbox_of_containerd() -> None:
    """containerd starts the shim of a sandbox of its own by that path, and one of the shim by its PATH only."""
    text = containerd_text([runtime("runhcs-lcow")], 2, "/opt/shim", emulator=True)
    (found,) = tomllib.loads(text)["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"].values()
    assert found["runtime_path"] == "/opt/shim" and "sandboxer" not in found


# YAML.


def classes(*arguments: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(printed("runtimeclass", *arguments)))


def test_every_runtime_class_is_valid() -> None:
    found = classes()
    assert [one["metadata"]["name"] for one in found] == list(DEFAULTS)
    for one in found:
        runtime_class_schema.check(one)
        assert one["handler"] == one["metadata"]["name"]
        assert one["scheduling"]["nodeSelector"]["kubernetes.io/os"] == "windows"
        assert one["scheduling"]["tolerations"][0]["effect"] == "NoSchedule"
        assert ("cpu" in one["overhead"]["podFixed"]) == ("process" not in one["handler"])


def test_runtime_class_has_node_selector_and_overhead() -> None:
    one, reserved = classes("runhcs-wcow-hypervisor-1809", "runhcs-wcow-hypervisor-20348-reserve-2core")
    assert one["scheduling"]["nodeSelector"]["node.kubernetes.io/windows-build"] == "10.0.17763"
    assert one["overhead"]["podFixed"] == {"memory": "512Mi", "cpu": "100m"}
    assert reserved["overhead"]["podFixed"]["memory"] == "4096Mi"
    (linux,) = classes("runhcs-lcow-2vp4gb")
    assert linux["overhead"]["podFixed"] == {"memory": "128Mi", "cpu": "100m"}
    assert "node.kubernetes.io/windows-build" not in linux["scheduling"]["nodeSelector"]
    (plain,) = classes("runhcs-wcow-process")
    assert "node.kubernetes.io/windows-build" not in plain["scheduling"]["nodeSelector"]


def test_runtime_class_for_the_emulator_selects_linux_nodes() -> None:
    for one in classes("--emulator", "runhcs-lcow-2vp4gb", "runhcs-wcow-process-20348"):
        runtime_class_schema.check(one)
        assert one["scheduling"] == {"nodeSelector": {"kubernetes.io/os": "linux"}}


def test_node_build_overrides_the_node_selector() -> None:
    (newer,) = classes("--node-build", "ltsc2025", "runhcs-wcow-hypervisor-20348")
    assert newer["scheduling"]["nodeSelector"]["node.kubernetes.io/windows-build"] == "10.0.26100"
    for name, build, message in (
        ("runhcs-wcow-hypervisor-26100", "20348", "a VM's Windows is not newer than its host's"),
        ("runhcs-wcow-process-17763", "20348", "without a VM they run images of build 20348 to 20348"),
        ("runhcs-wcow-process", "tomorrow", "--node-build is 'tomorrow': give a build"),
    ):
        code, out, error = run("runtimeclass", "--node-build", build, name)
        assert (code, out) == (2, "") and message in error


@pytest.mark.parametrize(
    "change",
    [
        {"handler": "Runhcs"},
        {"apiVersion": "node.k8s.io/v1beta1"},
        {"extra": 1},
        {"scheduling": {"nodeSelector": {"node.kubernetes.io/windows-build": 10.0}}},
        {"scheduling": {"tolerations": [{"key": "os", "operator": "Exists", "value": "x"}]}},
        {"overhead": {"podFixed": {"memory": "lots"}}},
    ],
)
def test_schema_rejects_invalid_runtime_classes(change: dict[str, Any]) -> None:
    (good,) = classes("runhcs-wcow-hypervisor")
    with pytest.raises(AssertionError):
        runtime_class_schema.check(good | change)


def test_output_is_ascii() -> None:
    """It may be piped through consoles of any code page."""
    for text in (printed("containerd"), printed("runtimeclass"), printed("list")):
        text.encode("ascii")
    assert sys.version_info >= (3, 11)
