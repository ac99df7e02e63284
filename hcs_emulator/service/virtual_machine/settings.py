"""A utility VM's settings: validated against the host when the VM is created, changed by modify requests while it runs.

The document is the state: a modify request changes the document to what a create document with the same devices would
be.
"""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any

from hcs_emulator.service.errors import (
    ERROR_ACCESS_DENIED,
    ERROR_ALREADY_EXISTS,
    ERROR_FILE_NOT_FOUND,
    ERROR_INVALID_PARAMETER,
    ERROR_NOT_FOUND,
    ERROR_NOT_SUPPORTED,
    ERROR_PATH_NOT_FOUND,
    ERROR_SHARING_VIOLATION,
    HCN_E_ENDPOINT_ALREADY_ATTACHED,
    HCS_E_INVALID_JSON,
    HcsError,
)
from hcs_emulator.service.schema.modify import Modification
from hcs_emulator.service.virtual_machine import linux_boot, linux_devices

if TYPE_CHECKING:
    from hcs_emulator.service.host import Host

PIPE = "\\\\.\\pipe\\"
TOPOLOGY = "$.VirtualMachine.ComputeTopology"
MOST_CONTROLLERS = 4
VHD_FOOTER = 512


class VirtualMachineSettings:
    """`document` is the VirtualMachine part of the create document."""

    def __init__(self, host: Host, identifier: str, document: dict[str, Any]) -> None:
        self.host = host
        self.id = identifier
        self.document = document
        self.is_linux = linux_boot.is_linux(document)
        self.devices: dict[str, Any] = document.setdefault("Devices", {})
        self.topology: dict[str, Any] = document["ComputeTopology"]
        self.mapped_pipes: list[str] = []
        self.other: dict[str, Any] = {}
        self._check()

    # validation at create

    def _check(self) -> None:
        memory, processor = self.topology["Memory"], self.topology["Processor"]
        self._check_memory(memory["SizeInMB"], f"{TOPOLOGY}.Memory.SizeInMB")
        if memory.get("EnableDeferredCommit") and not memory.get("AllowOvercommit"):
            raise _refuse("EnableDeferredCommit needs AllowOvercommit", f"{TOPOLOGY}.Memory.EnableDeferredCommit")
        if processor.get("Count", 1) > (os.cpu_count() or 1):
            raise HcsError(
                ERROR_INVALID_PARAMETER,
                f"the host has {os.cpu_count()} logical processors, not {processor['Count']}",
                data=f"{TOPOLOGY}.Processor.Count",
            )
        if "CpuGroup" in processor and not self.control_group:
            self.host.service.require_group(processor["CpuGroup"]["Id"])
        names = [share["Name"] for share in self.shares]
        if len(set(names)) != len(names):
            raise _refuse("two shares have the same name", "$.VirtualMachine.Devices.VirtualSmb.Shares")
        for share in self.shares:
            self._check_share(share)
        if len(self.controllers) > MOST_CONTROLLERS:
            raise _refuse(f"a VM has at most {MOST_CONTROLLERS} SCSI controllers", "$.VirtualMachine.Devices.Scsi")
        for controller in self.controllers.values():
            for attachment in controller.setdefault("Attachments", {}).values():
                self._check_attachment(attachment)
        for adapter in self.adapters.values():
            self._check_endpoint(adapter["EndpointId"])
        if self.is_linux:
            self._check_linux()

    def _check_linux(self) -> None:
        if self.shares:
            raise _refuse("a Linux guest has no SMB client", "$.VirtualMachine.Devices.VirtualSmb.Shares")
        linux_devices.check_memory_devices(self.devices.get("VirtualPMem") or {})
        for share in self.plan9_shares:
            linux_devices.check_plan9_share(share)

    def _check_endpoint(self, endpoint: str) -> None:
        if self.is_linux and linux_devices.is_network_namespace(endpoint):
            linux_devices.check_network_namespace(endpoint)
        else:
            self.host.network.get("endpoints", endpoint)

    @staticmethod
    def _check_memory(size: int, place: str) -> None:
        if size % 2:
            raise _refuse(f"memory comes in steps of 2 MB, not {size}", place)

    def _check_share(self, share: dict[str, Any]) -> None:
        if not os.path.isdir(share["Path"]):
            raise HcsError(
                ERROR_PATH_NOT_FOUND, f"share {share['Name']}: {share['Path']} does not exist", data=share["Path"]
            )
        options = share.get("Options") or {}
        if "AllowedFiles" in share and not options.get("RestrictFileAccess"):
            raise HcsError(
                ERROR_INVALID_PARAMETER,
                f"share {share['Name']}: AllowedFiles need RestrictFileAccess",
                data=share["Name"],
            )

    def _check_attachment(self, attachment: dict[str, Any]) -> None:
        path = attachment["Path"]
        place = self._disk(attachment)
        if not os.path.isfile(place):
            raise HcsError(ERROR_FILE_NOT_FOUND, f"disk {path} does not exist (looked for {place})", data=path)
        if attachment["Type"] == "ExtensibleVirtualDisk":  # its provider controls access
            return
        if self.is_linux and (self._is_boot_file(place) or (attachment.get("ReadOnly") and _is_layer(place))):
            return
        if not self.host.vm_access.is_granted(self.id, os.path.normpath(place)):
            raise HcsError(
                ERROR_ACCESS_DENIED,
                f"{self.id} may not open {path}: grant it access with HcsGrantVmAccess first",
                data=path,
            )
        if self.host.layers.is_active(os.path.dirname(path)):
            raise HcsError(ERROR_SHARING_VIOLATION, f"disk {path} is mounted on the host", data=path)

    def _disk(self, attachment: dict[str, Any]) -> str:
        provider = attachment.get("ExtensibleVirtualDiskType", "")
        return self.host.disk(attachment["Type"], attachment["Path"], provider)

    def _is_boot_file(self, path: str) -> bool:
        """Every VM may read the boot files, such as the root file system beside the kernel."""
        chipset = self.document["Chipset"]
        entry = (chipset.get("Uefi") or {}).get("BootThis") or {}
        kernel = (chipset.get("LinuxKernelDirect") or {}).get("KernelFilePath", "")
        directories = {os.path.dirname(kernel), entry.get("VmbFsRootPath", "").rstrip("/")} - {""}
        return os.path.dirname(path) in directories

    # views

    @property
    def plan9_shares(self) -> list[dict[str, Any]]:
        shares: list[dict[str, Any]] = (self.devices.get("Plan9") or {}).get("Shares") or []
        return shares

    @property
    def network_namespace(self) -> str:
        """The network namespace of the host that the VM is in, or nothing."""
        endpoints = (adapter["EndpointId"] for adapter in self.adapters.values())
        return next((one for one in endpoints if self.is_linux and linux_devices.is_network_namespace(one)), "")

    @property
    def control_group(self) -> str:
        """The path of the host's control group that the VM is in, or nothing."""
        group: str = self.topology["Processor"].get("CpuGroup", {}).get("Id", "")
        return group if self.is_linux and group.startswith("/") else ""

    @property
    def shares(self) -> list[dict[str, Any]]:
        shares: list[dict[str, Any]] = self.devices.setdefault("VirtualSmb", {}).setdefault("Shares", [])
        return shares

    @property
    def controllers(self) -> dict[str, dict[str, Any]]:
        controllers: dict[str, dict[str, Any]] = self.devices.setdefault("Scsi", {})
        return controllers

    @property
    def adapters(self) -> dict[str, dict[str, Any]]:
        adapters: dict[str, dict[str, Any]] = self.devices.setdefault("NetworkAdapters", {})
        return adapters

    @property
    def memory_mb(self) -> int:
        return int(self.topology["Memory"]["SizeInMB"])

    @property
    def processors(self) -> int:
        return int(self.topology["Processor"].get("Count", 1))

    def for_guest(self) -> dict[str, Any]:
        """The resources of the host that the guest can access: nothing but these."""
        shares = {}
        for share in self.shares:
            options = share.get("Options") or {}
            shares[share["Name"]] = {
                "path": share["Path"],
                "read_only": bool(options.get("ReadOnly")),
                "files": share.get("AllowedFiles", []) if options.get("RestrictFileAccess") else None,
            }
        pipes = {name[len(PIPE) :].lower(): self.host.pipe(name) for name in self.mapped_pipes}
        return {"shares": shares, "disks": self._disks(), "adapters": list(self.adapters), "pipes": pipes}

    def for_linux_guest(self) -> dict[str, Any]:
        """The same for a Linux VM."""
        adapters = {}
        for adapter, settings in self.adapters.items():
            if not linux_devices.is_network_namespace(settings["EndpointId"]):
                adapters[adapter] = {"mac": settings.get("MacAddress") or self._endpoint_mac(settings["EndpointId"])}
        return {
            "shares": linux_devices.plan9_for_guest(self.plan9_shares),
            "disks": self._disks(),
            "memory": linux_devices.memory_for_guest(self.devices.get("VirtualPMem") or {}),
            "adapters": adapters,
            "pci": [device.lower() for device in self.devices.get("VirtualPci") or {}],
        }

    def _endpoint_mac(self, endpoint: str) -> str:
        try:
            return str(self.host.network.get("endpoints", endpoint).get("MacAddress", ""))
        except HcsError:  # deleted while the adapter exists
            return ""

    def snapshot(self) -> dict[str, Any]:
        return copy.deepcopy(self.document)

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.document.clear()
        self.document.update(snapshot)
        self.devices = self.document["Devices"]
        self.topology = self.document["ComputeTopology"]

    def _disks(self) -> dict[str, Any]:
        disks = {}
        for index, controller in enumerate(self.controllers.values()):
            for lun, attachment in controller.get("Attachments", {}).items():
                read_only = bool(attachment.get("ReadOnly"))
                disks[f"{index}:{lun}"] = {"path": self._disk(attachment), "read_only": read_only}
        return disks

    def limits(self) -> dict[str, int]:
        """What a Linux VM can use of the host."""
        processor = self.topology["Processor"]
        return {
            "memory_mb": self.memory_mb,
            "processors": self.processors,
            "limit": processor.get("Limit", 0),
            "weight": processor.get("Weight", 0),
        }

    # modify requests

    def apply(self, request: Modification) -> None:
        """Change the settings; raises HcsError and changes nothing when the request is not possible."""
        changes = {
            "memory": self._change_memory,
            "processor limits": self._change_limits,
            "cpu group": self._change_group,
            "share": self._change_share,
            "attachment": self._change_attachment,
            "network adapter": self._change_adapter,
            "mapped pipe": self._change_pipe,
            "plan9 share": self._change_plan9,
            "pmem device": self._change_pmem,
            "pmem mapping": self._change_mapping,
            "hvsocket service": self._change_service,
            "pci device": self._change_pci,
        }
        changes.get(request.name, self._change_other)(request)

    def _change_memory(self, request: Modification) -> None:
        self._check_memory(request.settings, "$.Settings")
        self.topology["Memory"]["SizeInMB"] = request.settings

    def _change_limits(self, request: Modification) -> None:
        self.topology["Processor"].update(request.settings)

    def _change_group(self, request: Modification) -> None:
        self.host.service.require_group(request.settings["Id"])
        self.topology["Processor"]["CpuGroup"] = request.settings

    def _change_share(self, request: Modification) -> None:
        name = request.settings["Name"]
        present = next((share for share in self.shares if share["Name"] == name), None)
        if request.request == "Add":
            if present is not None:
                raise HcsError(ERROR_ALREADY_EXISTS, f"share {name} exists", data=name)
            self._check_share(request.settings)
            self.shares.append(request.settings)
            return
        if present is None:
            raise HcsError(ERROR_NOT_FOUND, f"share {name} does not exist", data=name)
        options = present.get("Options") or {}
        if request.request == "Update":
            if not options.get("RestrictFileAccess"):
                raise HcsError(
                    ERROR_NOT_SUPPORTED, f"share {name} is not restricted: only AllowedFiles can change", data=name
                )
            present["AllowedFiles"] = request.settings.get("AllowedFiles", [])
        elif options.get("NoDirectmap"):
            self.shares.remove(present)
        else:
            raise HcsError(
                ERROR_NOT_SUPPORTED, f"share {name} is mapped directly and stays as long as the VM", data=name
            )

    def _change_attachment(self, request: Modification) -> None:
        controller = self.controllers.get(request.keys["controller"].lower())
        if controller is None:
            raise HcsError(
                ERROR_NOT_FOUND, f"no SCSI controller {request.keys['controller']}", data=request.keys["controller"]
            )
        attachments, lun = controller.setdefault("Attachments", {}), str(int(request.keys["lun"]))
        if int(lun) > 63:
            raise HcsError(ERROR_INVALID_PARAMETER, f"a controller has 64 LUNs, there is no {lun}", data=lun)
        if request.request == "Add":
            if lun in attachments:
                raise HcsError(ERROR_ALREADY_EXISTS, f"LUN {lun} is taken by {attachments[lun]['Path']}", data=lun)
            self._check_attachment(request.settings)
            for other in self.controllers.values():
                if any(entry["Path"] == request.settings["Path"] for entry in other.get("Attachments", {}).values()):
                    raise HcsError(
                        ERROR_SHARING_VIOLATION,
                        f"{request.settings['Path']} is attached",
                        data=request.settings["Path"],
                    )
        elif lun not in attachments:
            raise HcsError(ERROR_NOT_FOUND, f"nothing is attached at LUN {lun}", data=lun)
        if request.request == "Remove":
            del attachments[lun]
        else:
            attachments[lun] = request.settings

    def _change_adapter(self, request: Modification) -> None:
        adapter = request.keys["adapter"].lower()
        if request.request == "Add":
            if adapter in self.adapters:
                raise HcsError(ERROR_ALREADY_EXISTS, f"network adapter {adapter} exists", data=adapter)
            endpoint = self.host.network.get("endpoints", request.settings["EndpointId"])["ID"]
            if any(entry["EndpointId"].lower() == endpoint for entry in self.adapters.values()):
                raise HcsError(HCN_E_ENDPOINT_ALREADY_ATTACHED, f"endpoint {endpoint} has an adapter", data=endpoint)
        _change_map(self.adapters, adapter, request)

    def _change_pipe(self, request: Modification) -> None:
        pipe = request.keys["pipe"]
        if (pipe in self.mapped_pipes) == (request.request == "Add"):
            raise HcsError(
                ERROR_ALREADY_EXISTS if request.request == "Add" else ERROR_NOT_FOUND, f"mapped pipe {pipe}", data=pipe
            )
        if request.request == "Add":
            self.mapped_pipes.append(pipe)
        else:
            self.mapped_pipes.remove(pipe)

    def _change_plan9(self, request: Modification) -> None:
        if "Plan9" not in self.devices:
            raise HcsError(ERROR_NOT_FOUND, "the VM has no Plan9 server", data="$.VirtualMachine.Devices.Plan9")
        if request.request != "Remove":
            linux_devices.check_plan9_share(request.settings)
        by_name = {share["Name"]: share for share in self.plan9_shares}
        _change_map(by_name, request.settings["Name"], request)
        self.devices["Plan9"]["Shares"] = list(by_name.values())

    def _change_pmem(self, request: Modification) -> None:
        linux_devices.change_memory_device(self.devices.setdefault("VirtualPMem", {}), request)

    def _change_mapping(self, request: Modification) -> None:
        linux_devices.change_mapping(self.devices.setdefault("VirtualPMem", {}), request)

    def _change_pci(self, request: Modification) -> None:
        _change_map(self.devices.setdefault("VirtualPci", {}), request.keys["device"].lower(), request)

    def _change_service(self, request: Modification) -> None:
        table = self.devices.setdefault("HvSocket", {}).setdefault("HvSocketConfig", {}).setdefault("ServiceTable", {})
        service = request.keys["service"].lower()
        if request.request == "Remove" or (request.settings or {}).get("Disabled"):
            if table.pop(service, None) is None and request.request == "Remove":
                raise HcsError(ERROR_NOT_FOUND, f"no hvsocket service {service}", data=service)
        else:
            table[service] = request.settings

    def _change_other(self, request: Modification) -> None:
        """Devices without an effect in the emulator. They are stored, so that a repeated add and a remove of nothing
        are refused.
        """
        key = "/".join([request.name, *request.keys.values()])
        if request.request == "Update":
            self.other[key] = request.settings
        else:
            _change_map(self.other, key, request)


def _change_map(entries: dict[str, Any], key: str, request: Modification) -> None:
    if request.request == "Add" and key in entries:
        raise HcsError(ERROR_ALREADY_EXISTS, f"{request.name} {key} exists", data=key)
    if request.request != "Add" and key not in entries:
        raise HcsError(ERROR_NOT_FOUND, f"{request.name} {key} does not exist", data=key)
    if request.request == "Remove":
        del entries[key]
    else:
        entries[key] = request.settings


def _refuse(problem: str, place: str) -> HcsError:
    return HcsError(HCS_E_INVALID_JSON, f"{problem} at {place}", data=place, operation="Construct")


def _is_layer(path: str) -> bool:
    """A fixed VHD. The differ that writes layers of Linux images grants them to all VMs."""
    with open(path, "rb") as file:
        if file.seek(0, os.SEEK_END) < VHD_FOOTER:
            return False
        file.seek(-VHD_FOOTER, os.SEEK_END)
        return file.read(8) == b"conectix"
