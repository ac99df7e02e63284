"""Devices: in the document of a process-isolated container, assigned to the VM first for a container in a VM."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runhcs.installation import library
from shim.ttrpc import status
from tests.support.eventually import eventually
from tests.support.shims import Shims, refused
from tests.support.vm_image import SLEEP, VmShims

GPU_CLASS = "5B45201D-F2F2-4F3B-85BB-30FF1F953599"


def with_devices(spec: dict[str, Any], *devices: tuple[str, str]) -> dict[str, Any]:
    spec["windows"]["devices"] = [{"idType": kind, "id": name} for kind, name in devices]
    return spec


def test_devices_of_process_isolated_container_are_in_document(vms: VmShims) -> None:
    extension = vms.directory / "extension.json"
    extension.write_text(json.dumps({"namespace": {"ob": {"symlink": []}}}))
    location = "PCIROOT(0)#PCI(0100)"
    spec = with_devices(vms.shims.spec(*SLEEP), ("class", GPU_CLASS), ("vpci-location-path", location))
    spec["annotations"] = {"io.microsoft.container.wcow.deviceextensions": str(extension)}
    shim = vms.shims.start("c1", spec)
    shim.create(rootfs=vms.shims.rootfs())
    (created,) = vms.documents("HcsCreateComputeSystem")
    assert created["Container"]["AssignedDevices"] == [
        {"InterfaceClassGuid": GPU_CLASS},
        {"Type": "DeviceInstance", "LocationPath": location},
    ]
    extensions = created["Container"]["AdditionalDeviceNamespace"]["device_extension"]
    assert extensions == [{"namespace": {"ob": {"symlink": []}}}]


@pytest.mark.parametrize("kind", ["vpci", "gpu", "", "something"])
def test_unsupported_device_types_are_refused(shims: Shims, kind: str) -> None:
    shim = shims.start("c1", with_devices(shims.spec(*SLEEP), (kind, "x")))
    assert "vpci-location-path" in refused(status.UNKNOWN, shim.create, rootfs=shims.rootfs())


def test_vm_devices_without_device_util_are_refused(vms: VmShims) -> None:
    shim = vms.shims.start("c1", with_devices(vms.spec(*SLEEP), ("gpu", "PCIP\\VEN_10DE\\1")))
    assert "device-util.exe" in refused(status.UNKNOWN, vms.create, shim)
    assert not vms.documents("HcsCreateComputeSystem"), "refused before a VM is made for it"


def test_vm_devices_are_assigned_and_removed(vms: VmShims) -> None:
    """Up to the tool that locates it in the guest, which VMs of the emulator cannot run."""
    tool = library(vms.shims.launcher.parent) / "device-util.exe"
    tool.write_text("a program for Windows")
    pod = vms.pod()
    spec = vms.spec(*SLEEP, pod=pod.id, role="container")
    shim = vms.shims.start("w1", with_devices(spec, ("vpci-instance-id", "PCIP\\VEN_10DE\\7")))
    with pytest.raises(Exception, match="device"):
        vms.create(shim)

    def journalled() -> list[dict[str, Any]]:
        return [change for change in vms.documents("HcsModifyComputeSystem") if "VirtualPci" in change["ResourcePath"]]

    changes = journalled()
    assert [change["RequestType"] for change in changes] == ["Add", "Remove"]
    assert changes[0]["Settings"] == {"Functions": [{"DeviceInstancePath": "PCIP\\VEN_10DE", "VirtualFunction": 7}]}
    (executed,) = eventually(lambda: vms.emulator.journal("guest:ExecuteProcess"), "the journal's entry")
    settings = executed["arguments"]["Settings"]
    line = settings["ProcessParameters"]["CommandLine"]
    place = changes[0]["ResourcePath"].rpartition("/")[2]
    assert "\\device-util.exe children --parentID=VMBUS\\" in line and f"{{{place}}} --property=location" in line
    assert pod.state().status == 2, "the pod keeps running"
    pod.kill(9)
    pod.wait()
    pod.delete()
    eventually(lambda: not vms.leaked(), "no leaked resource of the VM")
