"""A utility VM: a compute system that is a process of its own, the VM worker (`hcs_emulator.vm`).

Start starts the worker and sends it, over a private channel, which resources of the host it can access. Terminate kills
it. A worker that exits by itself is a crash of the VM, with everything in it. Containers in the VM run in the worker,
behind its guest service; HCS on the host does not know them.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

from hcs_emulator.service import events
from hcs_emulator.service.compute_system.system import GRACEFUL, PAUSED, RUNNING, ComputeSystem
from hcs_emulator.service.errors import (
    E_FAIL,
    E_OUTOFMEMORY,
    ERROR_NOT_SUPPORTED,
    ERROR_PATH_NOT_FOUND,
    HCS_E_CONNECT_FAILED,
    HCS_E_INVALID_STATE,
    HcsError,
)
from hcs_emulator.service.schema.modify import GUEST, OPERATION, Modification
from hcs_emulator.service.silo.cgroup import remove_stale
from hcs_emulator.service.virtual_machine import linux_launch
from hcs_emulator.service.virtual_machine.cgroups import Cgroups
from hcs_emulator.service.virtual_machine.settings import VirtualMachineSettings
from hcs_emulator.service.virtual_machine.worker import Worker, WorkerError

if TYPE_CHECKING:
    from hcs_emulator.service.host import Host

PAGES_PER_MB = 256
# Of a pod whose VM is in its control group: what either guest agent needs to boot and to run a container.
LEAST_POD_MEMORY = 32 << 20


class VirtualMachine(ComputeSystem):
    system_type = "VirtualMachine"

    def __init__(self, host: Host, identifier: str, document: dict[str, Any]) -> None:
        super().__init__(host, identifier, document)
        if "GuestConnection" in document["VirtualMachine"]:
            raise HcsError(
                ERROR_NOT_SUPPORTED,
                "the emulator's VMs have no guest connection of HCS: the caller owns the link to the guest",
                data="$.VirtualMachine.GuestConnection",
            )
        self.settings = VirtualMachineSettings(host, identifier, document["VirtualMachine"])
        self.worker: Worker | None = None
        self.guest = ""  # the agent of a Linux VM
        self._cgroups: Cgroups | None = None  # of a Linux VM
        self.hvsocket_directory = os.path.join(host.directory, "hvsock", self.runtime_id)
        os.makedirs(self.hvsocket_directory, mode=0o700)

    # lifecycle

    async def _launch(self) -> None:
        settings: dict[str, Any] = {
            "id": self.id,
            "runtime_id": self.runtime_id,
            "directory": self.host.directory,
            "instance": self._instance,
            "build": self.host.build,
        }
        self._check_host_memory()
        try:
            if self.settings.is_linux:
                self._cgroups = Cgroups(self._instance, self.settings.control_group)
                self._check_pod_memory(self._cgroups)
                settings |= await linux_launch.settings(self.host, self.settings)
                self.guest = settings["guest"]
                self.worker = await Worker.start(settings, self.host.on_guest_report, linux_launch.PROGRAM)
                self.worker.on_guest_fault = self.host.on_guest_fault
            else:
                self._check_boot()
                settings["resources"] = self.settings.for_guest()
                self.worker = await Worker.start(settings, self.host.on_guest_report)
        except WorkerError as error:
            self.host.cleanup(asyncio.to_thread(self._remove_cgroups))
            raise HcsError(E_FAIL, f"[Start compute system] {error}", data=self.id) from error
        self.host.background(self._watch(self.worker))

    def _check_host_memory(self) -> None:
        """As far as Hyper-V does: no VM is larger than the host, whatever others use."""
        available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
        if self.settings.memory_mb > available:
            raise HcsError(
                E_OUTOFMEMORY,
                f"not enough memory in the system to start the virtual machine {self.id} with ram size "
                f"{self.settings.memory_mb} megabytes: the host has {available}",
                data=self.id,
            )

    def _check_pod_memory(self, cgroups: Cgroups) -> None:
        """A VM in a group that is too small would be killed while it boots, and nobody would know why."""
        allowed = cgroups.memory_allowed()
        if self.settings.control_group and allowed is not None and allowed < LEAST_POD_MEMORY:
            raise HcsError(
                E_OUTOFMEMORY,
                f"the memory limit of the pod is {allowed >> 10} KiB, and its VM alone needs {LEAST_POD_MEMORY >> 10}: "
                "raise the limits of its containers, or use a RuntimeClass with overhead",
                data=self.id,
            )

    def _check_boot(self) -> None:
        chipset = self.settings.document["Chipset"]
        boot = (chipset.get("Uefi") or {}).get("BootThis") or {}
        if boot.get("DeviceType") != "VmbFs":
            raise HcsError(
                ERROR_NOT_SUPPORTED, "the emulator boots Windows utility VMs from a share named os", data=self.id
            )
        share = next((share for share in self.settings.shares if share["Name"] == "os"), None)
        if share is None or not os.path.isdir(share["Path"]):
            raise HcsError(
                ERROR_PATH_NOT_FOUND,
                "no share named os to boot from",
                data="$.VirtualMachine.Devices.VirtualSmb.Shares",
            )

    @property
    def _instance(self) -> str:
        return f"{self.host.instance}-{self.runtime_id[:8]}"

    async def _watch(self, worker: Worker) -> None:
        await worker.exited.wait()
        # A killed worker cannot remove the cgroups of its silos.
        self.host.cleanup(asyncio.to_thread(self._remove_cgroups))
        if worker.shut_down and not self._stopping:
            self._stopping = "shutdown"
            await self._finish(GRACEFUL)
        elif not self._stopping:
            self.events.send(self._handles.values(), events.SYSTEM_GUEST_CONNECTION_CLOSED)
            await self.exited_unexpectedly()

    def _remove_cgroups(self) -> None:
        remove_stale(self._instance)
        if self._cgroups is not None:
            self._cgroups.remove()

    async def _kill(self) -> None:
        if self._cgroups is not None and self.state == PAUSED:
            self._cgroups.freeze(False)  # frozen processes would not exit
        if self.worker is not None:
            await self.worker.kill()

    def _release(self) -> None:
        self.host.vm_access.revoke_all(self.id)
        shutil.rmtree(self.hvsocket_directory)
        console = linux_launch.console(self.host, self.settings) if self.settings.is_linux else ""
        if console and os.path.lexists(console):
            os.unlink(console)

    async def shutdown(self) -> None:
        self.require_running("shut down")
        raise HcsError(
            HCS_E_CONNECT_FAILED, "HCS has no link to this VM's guest: terminate it, or ask the guest", data=self.id
        )

    async def pause(self) -> None:
        self.require_running("pause")
        assert self.worker is not None
        await self.worker.request("pause")
        self.worker.signal(signal.SIGSTOP)
        self.state = PAUSED

    async def resume(self) -> None:
        self.require_alive()
        if self.state != PAUSED:
            raise self.wrong_state("resume")
        assert self.worker is not None
        self.worker.signal(signal.SIGCONT)
        await self.worker.request("resume")
        self.state = RUNNING

    async def save(self, options: dict[str, Any] | None) -> None:
        self.require_alive()
        if self.state != PAUSED:
            raise self.wrong_state("save")
        path = (options or {}).get("SaveStateFilePath", "")
        if (options or {}).get("SaveType", "ToFile") == "ToFile":
            try:
                with open(path, "w") as file:
                    json.dump({"id": self.id, "document": self.document}, file)
            except OSError as error:
                raise HcsError(
                    ERROR_PATH_NOT_FOUND, f"the state cannot be saved to {path!r}: {error.strerror}", data=path
                ) from error
        self._stopping = "terminate"
        await self._kill()
        await self._finish(GRACEFUL)

    async def crash(self) -> None:
        self.require_running("crash")
        self.events.send(self._handles.values(), events.SYSTEM_CRASH_INITIATED, {"SystemId": self.id})
        report = {"SystemId": self.id, "Status": 0, "WindowsCrashInfo": {"OsBuildNumber": self.host.build, "Status": 0}}
        self.events.send(self._handles.values(), events.SYSTEM_CRASH_REPORT, report)
        self.crash_worker()
        await asyncio.wait_for(self._exited.wait(), 30)

    def crash_worker(self) -> None:
        if self.worker is not None:
            self._write_dump()
            self.worker.signal(signal.SIGKILL)

    async def change_faults(self, faults: list[dict[str, Any]]) -> None:
        if self.settings.is_linux and self.worker is not None and self.state == RUNNING:
            try:
                await self.worker.request("faults", faults=faults)
            except WorkerError:
                pass  # the VM has exited

    def _write_dump(self) -> None:
        """As the worker process of Windows, with the rights of the VM group: those of others, here. Wine keeps no entry
        for that group in the access control list of a directory."""
        reporting = (self.settings.document.get("Devices") or {}).get("GuestCrashReporting") or {}
        path = (reporting.get("WindowsCrashSettings") or {}).get("DumpFileName", "")
        directory = os.path.dirname(path)
        if os.path.isabs(path) and os.path.isdir(directory) and (self.host.wine or os.stat(directory).st_mode & 0o002):
            with open(path, "w") as dump:
                dump.write(f"dump of {self.id}\n")

    # modify requests

    async def modify(self, request: Modification) -> None:
        self.require_running("modify")
        if request.name == GUEST or request.guest_request is not None:
            raise HcsError(
                HCS_E_CONNECT_FAILED,
                "HCS has no link to this VM's guest: send guest requests over your own",
                data="$.GuestRequest",
            )
        assert self.worker is not None
        before = self.settings.snapshot()
        self.settings.apply(request)
        try:
            if self.settings.is_linux:
                await self.worker.request("resources", resources=self.settings.for_linux_guest())
                await self.worker.request("limits", limits=self.settings.limits())
            else:
                await self.worker.request("resources", resources=self.settings.for_guest())
        except WorkerError as error:
            self.settings.restore(before)
            if self.settings.is_linux and not self.worker.exited.is_set():
                raise HcsError(E_FAIL, f"[{OPERATION}] {error}", data=self.id) from error
            raise HcsError(HCS_E_INVALID_STATE, f"the VM went away: {error}", data=self.id) from error

    # properties

    def basic_properties(self) -> dict[str, Any]:
        return super().basic_properties() | ({"RuntimeOsType": "Linux"} if self.settings.is_linux else {})

    def details(self) -> dict[str, Any]:
        return {
            "Worker": self.worker.pid if self.worker is not None else None,
            **({"Guest": self.guest} if self.settings.is_linux else {}),
            "VirtualMachine": self.settings.document,
        }

    def properties(self, types: list[str]) -> dict[str, Any]:
        properties = self.basic_properties()
        if types:
            self.require_alive()
        for name in types:
            if name == "TerminateOnLastHandleClosed":
                properties[name] = self.terminates_on_last_handle
            elif name == "Statistics":
                self._require_worker(name)
                assert self.worker is not None
                properties[name] = self.worker.statistics()
            elif name == "Memory":
                self._require_worker(name)
                properties[name] = self._memory()
            elif name == "CpuGroup":
                properties[name] = self.settings.topology["Processor"].get(
                    "CpuGroup", {"Id": "00000000-0000-0000-0000-000000000000"}
                )
            elif name == "GuestConnection":
                properties[name] = {}
        return properties

    def _require_worker(self, name: str) -> None:
        if self.state not in (RUNNING, PAUSED):
            raise self.wrong_state(f"tell {name}")

    def _memory(self) -> dict[str, Any]:
        pages = self.settings.memory_mb * PAGES_PER_MB
        assert self.worker is not None
        return {
            "VirtualNodeCount": 1,
            "VirtualMachineMemory": {
                "AvailableMemory": max(0, 100 - self.worker.memory_bytes() // 4096 * 100 // pages),
                "AvailableMemoryBuffer": 0,
                "ReservedMemory": 0,
                "AssignedMemory": pages,
                "SlpActive": False,
                "BalancingEnabled": False,
                "DmOperationInProgress": False,
            },
            "VirtualNodes": [
                {
                    "VirtualNodeIndex": 0,
                    "PhysicalNodeNumber": 0,
                    "VirtualProcessorCount": self.settings.processors,
                    "MemoryUsageInPages": pages,
                }
            ],
        }
