"""ModifySettings: resources of the VM, and limits of containers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hcs_emulator.vm.linux.agent import cgroups, messages, waiting
from hcs_emulator.vm.linux.agent.errors import INVALID_JSON, GuestError, RuleError, failed, with_code
from hcs_emulator.vm.linux.agent.storage import unsupported

if TYPE_CHECKING:
    from hcs_emulator.vm.linux.agent.guest import Guest

VM = "00000000-0000-0000-0000-000000000000"
_VPCI_TIMEOUT = 60.0
_CONFIDENTIAL = ("SecurityPolicy", "SecurityPolicyFragment")


class Modifications:
    """`memory_reserve` is the memory that pods do not get."""

    def __init__(self, guest: Guest, memory_reserve: int) -> None:
        self._guest = guest
        self._memory_reserve = memory_reserve
        self._changes = {
            "SCSIDevice": guest.storage.unplug,
            "MappedVirtualDisk": guest.storage.change_disk,
            "MappedDirectory": guest.storage.change_directory,
            "VPMemDevice": guest.storage.change_vpmem,
            "CombinedLayers": guest.storage.change_layers,
            "Network": guest.network.change,
            "VPCIDevice": _add_vpci,
            "PodCgroupMemoryLimit": self._limit_pods,
        }

    def change(self, target: str, document: dict[str, Any] | None, text: str) -> None:
        """`text` is the whole request, for errors."""
        try:
            kind, change, settings = _decode(document or {})
        except RuleError:
            raise
        except GuestError as error:
            raise error.within(f'failed to unmarshal JSON in message "{text}"') from error
        if target != VM:
            container = self._guest.container(target)
            if kind != "ContainerConstraints":
                raise GuestError(f'the ResourceType "{kind}" is not supported for containers')
            container.runtime.update(settings["Linux"] or {})
            return
        if kind == "ContainerConstraints":
            self._guest.container(target)  # the VM is no container
        if kind in _CONFIDENTIAL:
            raise GuestError(f"{kind}: this guest is not confidential and has no policy enforcer")
        self._changes[kind](change, settings)

    def _limit_pods(self, change: str, settings: Any) -> None:
        if change != "Update":
            raise unsupported(change)
        try:
            cgroups.set_memory_limit(cgroups.PODS, total_memory() - self._memory_reserve)
        except OSError as error:
            raise failed("failed to set the memory limit of the pods cgroup", error) from error


def total_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _decode(document: dict[str, Any]) -> tuple[str, str, Any]:
    try:
        request = messages.convert(document, messages.REQUEST, "Request")
    except messages.MismatchError as error:
        text = "failed to unmarshal request.Settings as ModifySettingRequest"
        raise with_code(INVALID_JSON, str(error)).within(text) from error
    kind = request["ResourceType"]
    if kind not in messages.SETTINGS:
        raise GuestError(f"invalid ResourceType '{kind}'")
    name, shape = messages.SETTINGS[kind]
    try:
        settings = messages.convert(request["Settings"] or {}, shape, f"Request.Settings of {kind}")
    except messages.MismatchError as error:
        raise with_code(INVALID_JSON, str(error)).within(f"failed to unmarshal settings as {name}") from error
    return kind, request["RequestType"] or "Add", settings


def _add_vpci(change: str, settings: dict[str, Any]) -> None:
    if change != "Add":
        raise unsupported(change)
    waiting.for_pci_device(settings["VMBusGUID"].lower(), _VPCI_TIMEOUT)
