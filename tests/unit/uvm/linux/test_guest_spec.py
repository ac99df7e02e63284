"""The spec that a Linux guest gets, and process documents."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from shim.oci.errors import InvalidSpec
from shim.oci.section import Section
from shim.oci.spec import Spec
from shim.uvm.linux import devices, process_parameters
from shim.uvm.linux.container_plan import LinuxContainerPlan
from shim.uvm.linux.guest_spec import guest_spec, ineffective
from tests.unit.uvm.linux.fakes import FakeContainer, FakeVm

ROOT = "/run/gcs/c/c1/rootfs"


def of(values: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return guest_spec(Spec({"linux": {}, **values}), ROOT, [], **arguments)


def test_windows_section_has_only_network_and_devices() -> None:
    windows = {"layerFolders": ["a"], "hyperv": {}, "network": {"networkNamespace": "n", "endpointList": ["e"]}}
    assert "windows" not in of({"windows": windows})
    device = {"id": "g", "idType": "vpci-instance-id"}
    found = of({"windows": windows}, namespace="n", devices=[device])
    assert found["windows"] == {"layerFolders": None, "network": {"networkNamespace": "n"}, "devices": [device]}


def test_hooks_and_cgroups_of_the_host_are_removed() -> None:
    resources = {
        "memory": {"limit": 1}, "devices": [{"allow": False}], "pids": {"limit": 1}, "blockIO": {}, "network": {},
        "hugepageLimits": [], "unified": {"memory.high": "1"},
    }  # fmt: skip
    given = {"hooks": {"prestart": []}, "linux": {"cgroupsPath": "/default/c1", "resources": resources}}
    assert of(given) == {
        "linux": {"resources": {"memory": {"limit": 1}, "unified": {"memory.high": "1"}}}, "root": {"path": ROOT},
    }  # fmt: skip
    assert given["linux"]["cgroupsPath"] == "/default/c1"  # type: ignore[index]  # the spec itself is not changed


def test_empty_members_are_left_out_as_go_does() -> None:
    given: dict[str, Any] = {
        "hostname": "", "domainname": None, "annotations": {"source": ""}, "root": {"path": "", "readonly": False},
        "process": {
            "terminal": False, "noNewPrivileges": False, "args": ["", "x"], "env": [], "cwd": "",
            "user": {"uid": 0, "gid": 0, "username": "", "additionalGids": []}, "rlimits": [{"type": "", "hard": 0}],
        },
        "linux": {"sysctl": {}, "devices": [], "seccomp": {}, "resources": {"unified": {}, "memory": {}}},
    }  # fmt: skip
    assert of(given) == {
        "annotations": {"source": ""}, "root": {"path": ROOT},
        "process": {
            "args": ["", "x"], "cwd": "", "user": {"uid": 0, "gid": 0}, "rlimits": [{"type": "", "hard": 0}]
        },
        "linux": {"seccomp": {}, "resources": {"memory": {}}},
    }  # fmt: skip


def test_settings_that_the_guest_does_not_get_are_named() -> None:
    resources = {"devices": [{"allow": False}], "pids": {"limit": 9}, "blockIO": {}}
    spec = Spec({"linux": {"resources": resources}, "hooks": {"createRuntime": [{"path": "/bin/x"}], "poststop": []}})
    hooks, pids = ineffective(spec)
    assert hooks.startswith("hooks of the spec have no effect") and pids.startswith(
        "linux.resources.pids has no effect"
    )
    assert ineffective(Spec({"linux": {"resources": {"memory": {"limit": 1}}}, "hooks": {"poststop": []}})) == []


@pytest.mark.parametrize(
    ("cpu", "sent"),
    [
        ({"period": 0, "quota": 0, "shares": 2}, {"period": 100000, "quota": -1, "shares": 2}),
        ({"period": 5000, "quota": 100}, {"period": 5000, "quota": 100}),
        ({"shares": 2}, {"shares": 2}),
    ],
)
def test_cpu_limits_of_zero_are_the_defaults(cpu: dict[str, int], sent: dict[str, int]) -> None:
    assert of({"linux": {"resources": {"cpu": cpu}}})["linux"]["resources"]["cpu"] == sent


@pytest.mark.parametrize(("value", "kept"), [("true", False), ("1", False), ("false", True), ("maybe", True)])
def test_seccomp_of_a_privileged_container_is_removed(value: str, kept: bool) -> None:
    annotations = {"io.microsoft.virtualmachine.lcow.privileged": value}
    found = of({"linux": {"seccomp": {"defaultAction": "SCMP_ACT_ERRNO"}}, "annotations": annotations})
    assert ("seccomp" in found["linux"]) is kept
    assert found["annotations"] == annotations


def test_annotations_that_the_shim_has_set_are_sent() -> None:
    spec = Spec({"linux": {}})
    spec.annotations.set("io.microsoft.cri.skip-pod-networking", "true")
    assert guest_spec(spec, ROOT, [])["annotations"] == {"io.microsoft.cri.skip-pod-networking": "true"}


def test_root_keeps_its_flags_and_gets_the_path_of_the_guest() -> None:
    assert of({"root": {"path": "rootfs", "readonly": True}})["root"] == {"path": ROOT, "readonly": True}


def test_exec_has_its_oci_process_and_the_requested_pipes() -> None:
    process = Section({"args": ["sh"], "cwd": "/", "terminal": False, "user": {"username": "daemon"}}, "process")
    found = process_parameters.exec_parameters(process, stdin=True, stdout=True, stderr=False, terminal=True)
    user = {"uid": 0, "gid": 0, "username": "daemon"}
    assert found == {
        "CreateStdInPipe": True,
        "CreateStdOutPipe": True,
        "OciProcess": {"args": ["sh"], "cwd": "/", "terminal": True, "user": user},
    }


def test_init_has_pipes_and_no_process_of_its_own(tmp_path: Any) -> None:
    (tmp_path / "rootfs").mkdir()
    spec = Spec({"linux": {}, "root": {"path": "rootfs"}, "process": {"args": ["sh"]}})
    plan = LinuxContainerPlan(spec, [], str(tmp_path))
    assert plan.init_parameters(stdin=False, stdout=True, stderr=True, terminal=None) == {
        "CreateStdOutPipe": True,
        "CreateStdErrPipe": True,
    }
    vm = FakeVm()
    process = {"args": ["sh"], "cwd": "", "user": {"uid": 0, "gid": 0}}
    document = plan.acquire(FakeContainer(vm, "c1", tmp_path), scale_limits=True)  # type: ignore[arg-type]
    assert document == {
        "SchemaVersion": {"Major": 2, "Minor": 1},
        "OciBundlePath": "/run/gcs/c/c1",
        "OciSpecification": {"linux": {}, "root": {"path": ROOT}, "process": process},
        "ScratchDirPath": "",
    }


def test_program_of_the_vm_has_a_path_and_a_directory() -> None:
    found = process_parameters.command_parameters(["ls", "-l"], "")
    assert found["CommandArgs"] == ["ls", "-l"] and found["WorkingDirectory"] == "/"
    assert list(found["Environment"]) == ["PATH"]


def test_streams_are_ports() -> None:
    service = "40000001-facb-11e6-bd58-64006a7986d3"
    assert process_parameters.stdio_settings({"StdIn": service}) == {"VsockStdioRelaySettings": {"StdIn": 0x40000001}}


def test_device_is_assigned_and_named_by_its_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.uvm.vpci.windows_build", lambda: 18362)
    vm = FakeVm()
    device = {"id": "PCIP\\VEN_1", "idType": "vpci-instance-id"}
    spec = Spec({"linux": {}, "windows": {"devices": [device]}})
    releases: list[Any] = []
    found = devices.assign(vm.guest, spec, releases)
    channel = found[0]["id"]
    assert found == [{"id": channel, "idType": "vpci-instance-id"}]
    assert [request[:2] for request in vm.take()] == [
        ("Add", f"VirtualMachine/Devices/VirtualPci/{channel}"), ("guest Add", "VPCIDevice"),
    ]  # fmt: skip
    releases[0]()
    assert vm.take() == [("Remove", f"VirtualMachine/Devices/VirtualPci/{channel}", None)]


def test_device_of_another_type_is_refused() -> None:
    spec = Spec({"linux": {}, "windows": {"devices": [{"id": "x", "idType": "class"}]}})
    with pytest.raises(InvalidSpec, match="specified device x has unsupported type class"):
        devices.check(spec)


def test_missing_driver_is_refused() -> None:
    spec = Spec({"linux": {}, "annotations": {"io.microsoft.virtualmachine.kerneldrivers": "/no/driver.vhd"}})
    with pytest.raises(InvalidSpec, match="failed to find path to drivers at /no/driver"):
        devices.drivers(spec)


def test_directory_of_a_driver_is_named_by_a_guid_of_its_path() -> None:
    namespace = uuid.UUID("914aadc8-f700-4365-8016-ddad0a9d406d")
    assert devices.guid_of("C:\\driver.vhd") == str(uuid.uuid5(namespace, "C:\\driver.vhd"))


def test_namespace_made_by_the_shim_is_not_in_the_spec(tmp_path: Any) -> None:
    (tmp_path / "rootfs").mkdir()
    base = {"linux": {}, "root": {"path": "rootfs"}, "process": {"args": ["sh"]}}
    for given, expected in (({}, None), ({"networkNamespace": "n"}, {"networkNamespace": "n"})):
        plan = LinuxContainerPlan(Spec({**base, "windows": {"network": given}}), [], str(tmp_path))
        container = FakeContainer(FakeVm(), "c1", tmp_path)
        container.namespace = "n"
        document = plan.acquire(container, scale_limits=True)  # type: ignore[arg-type]
        assert document["OciSpecification"].get("windows", {}).get("network") == expected
