"""Runtime options: what is read from protobuf and from TOML, what each of them does, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim import logs
from shim.api.cri_pod import PodSandboxConfig
from shim.api.packing import pack
from shim.api.runhcs_options import Options as Message
from shim.api.runtimeoptions import Options as GenericOptions
from shim.api.sandbox import CreateSandboxRequest
from shim.api.wellknown import Any as Packed
from shim.commands import Flags, bootstrap
from shim.container.layers import WindowsLayers, plan
from shim.oci.annotations import container as names
from shim.oci.annotations import table
from shim.oci.errors import INVALID_ARGUMENT, UNIMPLEMENTED, InvalidSpec
from shim.oci.normalize import normalize_spec
from shim.oci.option_table import OPTIONS
from shim.oci.options import Options, decode, from_toml
from shim.oci.spec import Spec
from shim.task.sandbox_spec import sandbox_spec


@pytest.fixture(autouse=True)
def nothing_logged() -> Iterator[None]:
    """What a shim says once, it may say once per test here."""
    table._logged.clear()
    yield
    table._logged.clear()


def windows(**more: Any) -> dict[str, Any]:
    return {"process": {"args": ["cmd"]}, "windows": {}, **more}


def refusal(call: Callable[..., Any], *arguments: Any) -> InvalidSpec:
    with pytest.raises(InvalidSpec) as caught:
        call(*arguments)
    return caught.value


def normalized(*, isolated: bool = True, annotations: dict[str, str] | None = None, **fields: Any) -> Spec:
    """A spec that went through the prelude with these options."""
    spec = Spec(windows(annotations=annotations or {}))
    normalize_spec(spec, decode(pack(Message(sandbox_isolation=int(isolated), **fields))))
    return spec


# The table.


def test_table_has_every_field_of_the_message() -> None:
    assert [option.field for option in OPTIONS if option.number] == list(Message.__slots__)
    assert [option.number for option in OPTIONS] == [*range(1, 21), 0, 0]
    assert [option.key for option in OPTIONS if not option.number] == ["SandboxOsVersion", "ShimScope"]


def test_option_key_is_field_without_underscores() -> None:
    for option in OPTIONS:
        assert option.key.lower() == option.field.replace("_", "").lower()


# What each does. A row of the table without a test here is an error.


def boot(**fields: Any) -> Any:
    flags = Flags()
    flags.id, flags.namespace, flags.debug = "c1", "k8s.io", False
    return bootstrap.read(pack(Message(**fields)).encode(), flags)


def log_level(**fields: Any) -> int:
    level = boot(**fields).log_level
    assert isinstance(level, int)
    return level


def annotation(key: str, **fields: Any) -> str:
    return normalized(**fields).annotations.text(key)


def only_windows() -> bool:
    options = Options(Message(sandbox_platform="linux/amd64"))
    return "sandbox platform" in str(refusal(normalize_spec, Spec(windows()), options))


def scratch_size() -> int:
    spec = Spec({"windows": {"layerFolders": ["/base", "/scratch"]}})
    normalize_spec(spec, Options(Message(default_container_scratch_size_in_gb=50)))
    made = plan(spec, [], "/bundle")
    assert isinstance(made, WindowsLayers)
    return made.new_scratch_gb


def boots_from() -> str:
    request = CreateSandboxRequest(sandbox_id="p1", bundle_path="/no/bundle")
    options = Options(Message(sandbox_isolation=1, boot_files_root_path="/boot"))
    return sandbox_spec(request, options, PodSandboxConfig(), "windows").windows.texts("layerFolders")[0]


EFFECTS: dict[str, tuple[Callable[[], object], object]] = {
    "debug": (lambda: log_level(debug=True), logs.DEBUG),
    "debug_type": (lambda: boot(debug_type=2).log_text, False),
    "sandbox_platform": (only_windows, True),
    "sandbox_isolation": (lambda: (normalized().is_isolated, normalized(isolated=False).is_isolated), (True, False)),
    "boot_files_root_path": (boots_from, "/boot"),
    "vm_processor_count": (lambda: annotation(names.VM_PROCESSOR_COUNT, vm_processor_count=4), "4"),
    "vm_memory_size_in_mb": (lambda: annotation(names.VM_MEMORY_SIZE_IN_MB, vm_memory_size_in_mb=512), "512"),
    "scale_cpu_limits_to_sandbox": (
        lambda: normalized(scale_cpu_limits_to_sandbox=True).options.scale_cpu_limits_to_sandbox,
        True,
    ),
    "default_container_scratch_size_in_gb": (scratch_size, 50),
    "NCProxyAddr": (lambda: refusal(lambda: normalized(NCProxyAddr="\\\\.\\pipe\\x")).kind, UNIMPLEMENTED),
    "log_level": (lambda: log_level(debug=True, log_level="Error"), logs.ERROR),
    "io_retry_timeout_in_sec": (lambda: normalized(io_retry_timeout_in_sec=7).options.io_retry_timeout_in_sec, 7),
    "default_container_annotations": (lambda: annotation("a", default_container_annotations={"a": "b"}), "b"),
    "no_inherit_host_timezone": (lambda: annotation(names.NO_TIME_ZONE, no_inherit_host_timezone=True), "true"),
    "scrub_logs": (lambda: (boot(scrub_logs=False).scrub, boot(debug=True).scrub), (False, True)),
    "shim_scope": (lambda: from_toml(b'shimscope = "Node"', "it").shim_scope, "node"),
    "sandbox_os_version": (lambda: _by_toml('SandboxOsVersion = "ltsc2022"'), "ltsc2022"),
}


def _by_toml(text: str) -> str:
    spec = Spec(windows())
    normalize_spec(spec, from_toml(text.encode(), "it"))
    return spec.annotations.text(names.SANDBOX_OS_VERSION)


@pytest.mark.parametrize("option", [option for option in OPTIONS if not option.unused], ids=lambda option: option.key)
def test_option_has_its_effect(option: Any) -> None:
    found, expected = EFFECTS[option.field]
    assert found() == expected


SET = {bool: True, int: 2, str: "x", dict: {"a": "b"}}


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.unused], ids=lambda option: option.key)
def test_option_without_effect_warns_once(option: Any) -> None:
    fields = {option.field: SET[option.kind]}
    (sentence,) = normalized(**fields).annotations.warnings
    assert sentence == f"option {option.key} has no effect. {option.effect}"
    assert normalized(**fields).annotations.warnings == [], "a second container of the same shim"


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.needs_vm], ids=lambda option: option.key)
def test_vm_option_without_vm_warns(option: Any) -> None:
    spec = normalized(isolated=False, **{option.field: SET[option.kind]})
    assert spec.annotations.warnings == [
        f"option {option.key} has no effect: it is about utility VMs, and there is none"
    ]


def test_option_at_default_does_not_warn() -> None:
    assert normalized().annotations.warnings == []


# Precedence: annotation, option, field of the spec, default.


def test_annotation_overrides_option() -> None:
    given = {names.VM_PROCESSOR_COUNT: "4", "mine": "kept", names.NO_TIME_ZONE: "false"}
    spec = normalized(
        annotations=given,
        vm_processor_count=2,
        vm_memory_size_in_mb=512,
        no_inherit_host_timezone=True,
        default_container_annotations={"mine": "default", "other": "", names.VM_MEMORY_SIZE_IN_MB: "2048"},
    )
    assert spec.annotations.text(names.VM_PROCESSOR_COUNT) == "4"
    assert spec.annotations.text(names.NO_TIME_ZONE) == "false"
    assert spec.annotations.text("mine") == "kept" and "other" in spec.annotations
    assert spec.annotations.text(names.VM_MEMORY_SIZE_IN_MB) == "512", "an option beats a default annotation"


def test_sandbox_os_version_annotation_overrides_option() -> None:
    key = names.SANDBOX_OS_VERSION
    assert annotation(key, default_container_annotations={key: "20348"}) == "20348"
    assert annotation(key, annotations={key: "17763"}, default_container_annotations={key: "20348"}) == "17763"
    spec = Spec(windows(annotations={key: "17763"}))
    normalize_spec(spec, from_toml(b"SandboxOsVersion = 20348", "it"))
    assert spec.annotations.text(key) == "17763"
    error = refusal(lambda: normalized(annotations={key: "windows"}))
    assert str(error).startswith(f"annotation {key} is 'windows': give a build (20348)")


# Reading.


def test_absent_and_default_options_are_empty() -> None:
    assert decode(None).is_empty
    assert decode(pack(Message())).is_empty
    assert not decode(pack(Message(scrub_logs=False))).is_empty
    assert not from_toml(b"SandboxOsVersion = 20348", "it").is_empty


def test_type_url_with_host_is_accepted() -> None:
    packed = pack(Message(debug=True))
    packed.type_url = f"type.googleapis.com/{packed.type_url}"
    assert decode(packed).values.debug


def test_unknown_fields_are_ignored() -> None:
    newer = pack(Message(debug=True))
    newer.value += b"\xa2\x06\x03new"  # field 100, text
    assert decode(newer).values == Message(debug=True)


def test_toml_keys_are_case_insensitive() -> None:
    body = b"""
        TypeUrl = "kept by CRI, and not ours"
        SandboxIsolation = 1
        vmmemorysizeinmb = 2048
        GPUVHDPath = "C:\\\\gpu"
        ScrubLogs = false
        SANDBOXOSVERSION = "10.0.20348.2031"
        [DefaultContainerAnnotations]
        "io.microsoft.x" = "y"
    """
    options = decode(pack(GenericOptions(config_body=body)))
    assert options.values == Message(
        sandbox_isolation=1,
        vm_memory_size_in_mb=2048,
        GPUVHDPath="C:\\gpu",
        scrub_logs=False,
        default_container_annotations={"io.microsoft.x": "y"},
    )
    assert options.os_version == "10.0.20348.2031"


def test_toml_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "options.toml"
    path.write_text("Debug = true")
    assert decode(pack(GenericOptions(config_path=str(path)))).values.debug
    assert decode(pack(GenericOptions())).is_empty
    error = refusal(decode, pack(GenericOptions(config_path=str(tmp_path / "none"))))
    assert "cannot be read" in str(error)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("= 1", "it is not TOML"),
        ("Debug = 1", "Debug in it is 1: allowed is true or false"),
        ("VmProcessorCount = true", "VmProcessorCount in it is true: allowed is a whole number from 0 to 2147483647"),
        ("VmProcessorCount = 99999999999", "is 99999999999: allowed is a whole number from 0 to 2147483647"),
        ("VmMemorySizeInMb = -1", "VmMemorySizeInMb in it is -1: allowed is a whole number from 0"),
        ("DefaultVmScratchSizeInGb = 65537", "is 65537: allowed is a whole number from 0 to 65536"),
        ("SandboxIsolation = 2", "SandboxIsolation in it is 2: allowed is 0 (process), 1 (hypervisor)"),
        ('SandboxIsolation = "hypervisor"', "is 'hypervisor': allowed is 0 (process), 1 (hypervisor)"),
        ("DebugType = 1", "DebugType in it is 1: allowed is 0 (NPIPE), 2 (ETW)"),
        ('LogLevel = "loud"', "LogLevel in it is 'loud': allowed is panic, fatal"),
        ('SandboxPlatform = "plan9/mips"', "is 'plan9/mips': allowed is windows/… or linux/…"),
        ("SandboxOsVersion = 1", "SandboxOsVersion in it is '1': give a build (20348)"),
        ("SandboxOsVersion = [1]", "SandboxOsVersion in it is a list: give a build (20348)"),
        ("[DefaultContainerAnnotations]\na = 1", "DefaultContainerAnnotations.a in it is 1: allowed is text"),
        ("DefaultContainerAnnotations = 1", "DefaultContainerAnnotations in it is 1: allowed is a table of texts"),
        ("Mine = 'x'", "Mine in it, set to 'x', is no option: options are Debug, DebugType, "),
        ("vm_processor_count = 2", "vm_processor_count in it, set to 2, is no option: did you mean VmProcessorCount?"),
        ("[BinaryName]\na = 1", "BinaryName in it, set to a table, is no option"),
    ],
)
def test_invalid_toml_error_names_key_value_and_allowed_values(text: str, message: str) -> None:
    error = refusal(from_toml, text.encode(), "it")
    assert message in str(error) and error.kind == INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sandbox_isolation": 7}, "SandboxIsolation in the runtime options is 7: allowed is 0 (process)"),
        ({"debug_type": 3}, "DebugType in the runtime options is 3"),
        ({"vm_processor_count": -2}, "VmProcessorCount in the runtime options is -2"),
        ({"sandbox_platform": "darwin"}, "SandboxPlatform in the runtime options is 'darwin'"),
        ({"io_retry_timeout_in_sec": -1}, "IoRetryTimeoutInSec in the runtime options is -1"),
    ],
)
def test_message_fields_have_the_limits_of_toml(fields: dict[str, Any], message: str) -> None:
    assert message in str(refusal(decode, pack(Message(**fields))))


def test_other_type_or_broken_bytes_are_rejected() -> None:
    assert "not understood" in str(refusal(decode, Packed(type_url="some.Options")))
    assert "cannot be decoded" in str(refusal(decode, Packed(type_url="containerd.runhcs.v1.Options", value=b"\xff")))
    assert decode(Packed(type_url="containerd.runc.v1.Options", value=b"\xff")).is_empty
    assert "is not TOML" in str(refusal(decode, pack(GenericOptions(config_body=b"\xff"))))


@given(st.text(max_size=60))
def test_any_text_decodes_or_raises_invalid_option(text: str) -> None:
    try:
        from_toml(text.encode(), "it")
    except InvalidSpec as error:
        assert str(error)


# Isolation and platform, which options and spec must agree on.


def test_isolation_of_option_and_spec() -> None:
    isolated = {"windows": {"hyperv": {}}}
    normalize_spec(Spec(isolated), Options())
    assert "SandboxIsolation = 1" in str(refusal(normalize_spec, Spec(isolated), Options(Message(debug=True))))


@pytest.mark.parametrize(
    ("platform", "sections", "good"),
    [
        ("windows/amd64", {"windows": {}}, True),
        ("linux/amd64", {"linux": {}}, True),
        ("windows/amd64", {"linux": {}}, False),
        ("linux/amd64", {"windows": {}}, False),
    ],
)
def test_platform_option_must_match_spec(platform: str, sections: dict[str, Any], good: bool) -> None:
    isolation = Message.SandboxIsolation.HYPERVISOR  # Linux containers are always in a utility VM
    options = Options(Message(sandbox_platform=platform, sandbox_isolation=isolation))
    if good:
        normalize_spec(Spec(sections), options)
    else:
        assert f"sandbox platform: {platform}" in str(refusal(normalize_spec, Spec(sections), options))


def test_spec_without_os_section_is_rejected() -> None:
    assert "neither a windows nor a linux section" in str(refusal(normalize_spec, Spec({"process": {}}), Options()))


def test_disable_unsafe_sets_four_annotations() -> None:
    spec = Spec(windows(annotations={names.DISABLE_UNSAFE: "true"}))
    normalize_spec(spec, Options())
    assert all(spec.annotations.text(key) == "true" for key in names.UNSAFE)
    assert spec.annotations.warnings == []
    contradiction = windows(annotations={names.DISABLE_UNSAFE: "true", names.GMSA_DISABLED: "True"})
    assert "annotation expansion conflict" in str(refusal(normalize_spec, Spec(contradiction), Options()))


def test_disabled_host_process_is_rejected() -> None:
    both = windows(annotations={names.HOST_PROCESS: "1", names.HOST_PROCESS_DISABLED: "t"})
    assert "forbidden here" in str(refusal(normalize_spec, Spec(both), Options()))


@pytest.mark.parametrize("text", [b"a = " + b"[" * 3000, b"a = " + b"{b=" * 3000])
def test_options_nested_too_deeply_are_refused(text: bytes) -> None:
    with pytest.raises(InvalidSpec, match="nested too deeply"):
        from_toml(text, "options.toml")
