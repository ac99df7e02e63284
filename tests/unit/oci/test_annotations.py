"""Every row of the annotation table: it has the effect that it promises, or the refusal, or the line in the log. A row
without a case here is an error."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.commands import Bootstrap
from shim.commands.start import choose_scope
from shim.container import credentials, document, mounts
from shim.hcs_bindings import windows_version
from shim.hostprocess import identity, paths
from shim.oci.annotations import container as names
from shim.oci.annotations import table, unsupported, values
from shim.oci.annotations.schema import LINUX_VM, NO_EFFECT, REFUSED, VM, WINDOWS_VM, Annotation
from shim.oci.errors import UNIMPLEMENTED, InvalidSpec
from shim.oci.normalize import normalize_spec
from shim.oci.options import Options
from shim.oci.spec import Spec
from shim.platform.job_types import INHERIT
from shim.uvm.windows import hostprocess as host_process_in_vm

CONTAINER_ROWS = [row for row in table.module_rows(names).values() if row.scope not in (VM, WINDOWS_VM, LINUX_VM)]
OTHER_ROWS = list(table.module_rows(unsupported).values())


@pytest.fixture(autouse=True)
def nothing_logged() -> Iterator[None]:
    table._logged.clear()
    yield
    table._logged.clear()


def normalized(annotations: dict[str, str], **windows: Any) -> Spec:
    spec = Spec({"process": {"args": ["cmd"]}, "windows": windows, "annotations": annotations})
    normalize_spec(spec, Options())
    return spec


def container(annotations: dict[str, str], **windows: Any) -> dict[str, Any]:
    """The document of a container without a VM."""
    spec = normalized(annotations, **windows)
    warned: list[str] = []
    return document.draft("c1", spec, mounts.from_spec(spec), 8, warned.append)


def refusal(annotations: dict[str, str], **windows: Any) -> InvalidSpec:
    with pytest.raises(InvalidSpec) as caught:
        spec = normalized(annotations, **windows)
        credentials.from_spec(spec)
        document.draft("c1", spec, mounts.from_spec(spec), 8, lambda sentence: None)
    return caught.value


def registry(document: dict[str, Any]) -> dict[str, Any]:
    """Values by their names."""
    return {
        value["Name"]: value.get("StringValue", value.get("DWordValue"))
        for value in document["RegistryChanges"]["AddValues"]
    }


# One case for each row.


def container_type() -> None:
    pod = {names.CONTAINER_TYPE: "container", names.SANDBOX_ID: "p"}
    assert normalized(pod).pod_role == "container"
    assert "it must be" in str(refusal({**pod, names.CONTAINER_TYPE: "pod"}))


def sandbox_id() -> None:
    assert normalized({names.CONTAINER_TYPE: "sandbox", names.SANDBOX_ID: "p"}).sandbox_id == "p"
    assert "set both or neither" in str(refusal({names.SANDBOX_ID: "p"}))


def os_version() -> None:
    assert normalized({names.SANDBOX_OS_VERSION: "ltsc2022"}).requested_build == 20348
    assert "give a build" in str(refusal({names.SANDBOX_OS_VERSION: ""}))


def memory() -> None:
    document = container({names.MEMORY_SIZE_IN_MB: "64"}, resources={"memory": {"limit": 32 << 20}})
    assert document["Memory"] == {"SizeInMB": 64}


def processor_count() -> None:
    document = container({names.PROCESSOR_COUNT: "3"}, resources={"cpu": {"count": 2}})
    assert document["Processor"] == {"Count": 3}


def processor_limit() -> None:
    document = container({names.PROCESSOR_LIMIT: "5000"}, resources={"cpu": {"maximum": 100}})
    assert document["Processor"] == {"Maximum": 5000}


def processor_weight() -> None:
    document = container({names.PROCESSOR_WEIGHT: "500"}, resources={"cpu": {"shares": 100}})
    assert document["Processor"] == {"Weight": 500}
    assert "mutually exclusive" in str(refusal({names.PROCESSOR_WEIGHT: "5", names.PROCESSOR_COUNT: "1"}))


def storage_bandwidth() -> None:
    document = container({names.STORAGE_BANDWIDTH: "7"}, resources={"storage": {"bps": 5}})
    assert document["Storage"]["QoS"] == {"BandwidthMaximum": 7}


def storage_iops() -> None:
    document = container({names.STORAGE_IOPS: "7"}, resources={"storage": {"iops": 5}})
    assert document["Storage"]["QoS"] == {"IopsMaximum": 7}


def dump_location() -> None:
    values = registry(container({names.DUMP_LOCATION: r"C:\dumps\{container_id}"}))
    assert (values["DumpFolder"], values["DumpType"], values["DumpCount"]) == (r"C:\dumps\c1", 2, 10)


def dump_type() -> None:
    given = {names.DUMP_LOCATION: "C:\\d", names.DUMP_TYPE: "mini"}
    assert registry(container(given))["DumpType"] == 1
    assert 'valid values are "mini" or "full"' in str(refusal({**given, names.DUMP_TYPE: "tiny"}))
    container({names.DUMP_TYPE: "tiny"})  # without a location it does not matter


def dump_count() -> None:
    given = {names.DUMP_LOCATION: "C:\\d", names.DUMP_COUNT: "3"}
    assert registry(container(given))["DumpCount"] == 3
    assert "above zero" in str(refusal({**given, names.DUMP_COUNT: "-1"}))


def device_extensions() -> None:
    assert "AdditionalDeviceNamespace" not in container({names.DEVICE_EXTENSIONS: ""})
    given = {names.DEVICE_EXTENSIONS: "/no/such/file"}
    assert "failed to find path to driver extensions at /no/such/file" in str(refusal(given))


def extra_registry() -> None:
    value = {"Key": {"Hive": "Software", "Name": "Mine"}, "Name": "x", "Type": "String", "StringValue": "y"}
    assert registry(container({names.EXTRA_REGISTRY: json.dumps([value])}))["x"] == "y"


def gmsa_disabled() -> None:
    assert "gMSA credentials are disabled" in str(refusal({names.GMSA_DISABLED: "true"}, credentialSpec="{}"))


def host_process() -> None:
    assert normalized({names.HOST_PROCESS: "true"}).is_host_process
    assert not normalized({names.HOST_PROCESS: "True"}).is_host_process
    document: dict[str, Any] = {"Storage": {}}
    host_process_in_vm.set_isolation(normalized({names.HOST_PROCESS: "true"}), document)
    assert document["IsolationType"] == "HostProcess"
    assert normalized({names.HOST_PROCESS: "false"}).annotations.warnings == []


def host_process_user() -> None:
    both = {names.HOST_PROCESS: "true", names.HOST_PROCESS_INHERIT_USER: "true"}
    parameters = {"CommandLine": "CMD.exe /c x", "User": "me"}
    adapted = host_process_in_vm.wrap_command(normalized(both), dict(parameters))
    assert adapted == {"CommandLine": "CMD.exe /c x", "User": "NT AUTHORITY\\SYSTEM"}
    adapted = host_process_in_vm.wrap_command(normalized({names.HOST_PROCESS: "true"}), dict(parameters))
    assert adapted == parameters
    assert identity.from_spec(normalized(both), "c1", lambda name: False).kind == INHERIT
    with pytest.raises(InvalidSpec, match="needs a user"):
        identity.from_spec(normalized({}), "c1", lambda name: False)


def host_process_root() -> None:
    spec = normalized({names.HOST_PROCESS: "true", names.HOST_PROCESS_ROOT: "D:\\x"})
    document: dict[str, Any] = {"Storage": {}}
    host_process_in_vm.set_isolation(spec, document)
    assert document["Storage"] == {"PrivilegedContainerRootPath": "D:\\x"}
    assert paths.root(spec, "c1", True) == "D:\\x\\"
    assert paths.root(spec, "c1", False) == "D:\\x\\c1\\"


def host_process_disabled() -> None:
    assert "forbidden here" in str(refusal({names.HOST_PROCESS_DISABLED: "true", names.HOST_PROCESS: "1"}))


def disable_unsafe() -> None:
    spec = normalized({names.DISABLE_UNSAFE: "true"})
    assert all(spec.annotations.flag(key) for key in names.UNSAFE)


def shim_scope() -> None:
    given = {names.SHIM_SCOPE: "node"}
    assert choose_scope(dict(given), Bootstrap()) == "node"
    assert normalized(given).annotations.warnings == []


CASES = {
    names.SHIM_SCOPE: shim_scope,
    names.CONTAINER_TYPE: container_type,
    names.SANDBOX_ID: sandbox_id,
    names.SANDBOX_OS_VERSION: os_version,
    names.MEMORY_SIZE_IN_MB: memory,
    names.PROCESSOR_COUNT: processor_count,
    names.PROCESSOR_LIMIT: processor_limit,
    names.PROCESSOR_WEIGHT: processor_weight,
    names.STORAGE_BANDWIDTH: storage_bandwidth,
    names.STORAGE_IOPS: storage_iops,
    names.DUMP_LOCATION: dump_location,
    names.DUMP_TYPE: dump_type,
    names.DUMP_COUNT: dump_count,
    names.DEVICE_EXTENSIONS: device_extensions,
    names.EXTRA_REGISTRY: extra_registry,
    names.GMSA_DISABLED: gmsa_disabled,
    names.HOST_PROCESS: host_process,
    names.HOST_PROCESS_INHERIT_USER: host_process_user,
    names.HOST_PROCESS_ROOT: host_process_root,
    names.HOST_PROCESS_DISABLED: host_process_disabled,
    names.DISABLE_UNSAFE: disable_unsafe,
}


@pytest.mark.parametrize("row", [row for row in CONTAINER_ROWS if row.outcome != NO_EFFECT])
def test_container_annotation_has_its_effect(row: Annotation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_version, "_build", 20348)
    CASES[row]()


def isolated(annotations: dict[str, str]) -> Spec:
    return normalized(annotations, hyperv={})


@pytest.mark.parametrize("row", [row for row in OTHER_ROWS + CONTAINER_ROWS if row.outcome == NO_EFFECT])
def test_annotation_without_effect_warns_once(row: Annotation) -> None:
    assert isolated({row: "x"}).annotations.warnings == [f"annotation {row} has no effect. {row.effect}"]
    assert isolated({row: "x"}).annotations.warnings == [], "a second container of the same shim"


@pytest.mark.parametrize("row", [row for row in OTHER_ROWS if row.outcome == REFUSED])
def test_unsupported_security_annotation_is_rejected(row: Annotation) -> None:
    with pytest.raises(InvalidSpec, match="cannot be followed") as caught:
        isolated({row: "true"})
    assert caught.value.kind == UNIMPLEMENTED
    off = "false" if row.default == "false" else ""
    assert isolated({row: off}).annotations.warnings == []


def test_every_row_has_a_test() -> None:
    assert not [row for row in OTHER_ROWS if row.outcome not in (NO_EFFECT, REFUSED)]
    assert set(CASES) == {row for row in CONTAINER_ROWS if row.outcome != NO_EFFECT}


# Whatever the row.


def test_unknown_key_warns() -> None:
    (sentence,) = isolated({"io.microsoft.virtualmachine.wcow.virtualsmb.nodirectmap": "true"}).annotations.warnings
    assert "virtualsmb.nodirectmap is not known to this shim" in sentence


def test_key_of_other_namespace_is_ignored() -> None:
    given = {"example.com/x": "y", "io.kubernetes.cri.sandbox-name": "z", "io.containerd.runc.v2.group": "g"}
    assert normalized(given).annotations.warnings == []


def test_vm_annotation_without_vm_warns() -> None:
    (sentence,) = normalized({names.VM_PROCESSOR_COUNT: "4"}).annotations.warnings
    assert sentence.endswith("it is about a utility VM, and this container has none")
    assert isolated({names.VM_PROCESSOR_COUNT: "4"}).annotations.warnings == []


@pytest.mark.parametrize(
    ("build", "content", "message"),
    [
        (19045, "{}", "not supported on this build (19045)"),
        (20348, "[]", "is not a JSON object"),
        (20348, None, "failed to find path to driver extensions at "),
        (19045, None, "failed to find path to driver extensions at "),
    ],
)
def test_invalid_device_extension_fails_the_create(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: int, content: str | None, message: str
) -> None:
    monkeypatch.setattr(windows_version, "_build", build)
    if content is not None:
        (tmp_path / "a.json").write_text(content)
    assert message in str(refusal({names.DEVICE_EXTENSIONS: str(tmp_path / "a.json")}))


def test_device_extensions_are_in_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_version, "_build", 20348)
    for name in "ab":
        (tmp_path / name).write_text(json.dumps({"namespace": name}))
    document = container({names.DEVICE_EXTENSIONS: f"{tmp_path}/a,{tmp_path}/b"})
    assert document["AdditionalDeviceNamespace"] == {"device_extension": [{"namespace": "a"}, {"namespace": "b"}]}


def test_many_unknown_annotations_cause_few_warnings_in_linear_time() -> None:
    begun = time.process_time()
    warnings = normalized({f"io.microsoft.unknown.{number}": "x" for number in range(50_000)}).annotations.warnings
    assert time.process_time() - begun < 10, "quadratic: a minute"
    assert len(warnings) == values.MAX_WARNINGS + 1
    assert warnings[-1] == f"{50_000 - values.MAX_WARNINGS} more annotations are ignored or have no effect"
    assert len(table._logged) <= table._MAX_LOGGED
