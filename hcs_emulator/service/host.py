"""The host as HCS sees it: which compute systems exist, and the resources they share."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import attrs

from hcs_emulator.service.compute_system.container import Container
from hcs_emulator.service.compute_system.system import ComputeSystem
from hcs_emulator.service.errors import (
    ERROR_INVALID_PARAMETER,
    ERROR_NOT_SUPPORTED,
    HCS_E_SYSTEM_ALREADY_EXISTS,
    HCS_E_SYSTEM_NOT_FOUND,
    HcsError,
)
from hcs_emulator.service.events import Events
from hcs_emulator.service.handles import HandleTable
from hcs_emulator.service.network.hcn import Network
from hcs_emulator.service.schema.system import check_compute_system
from hcs_emulator.service.service_properties import ServiceProperties
from hcs_emulator.service.storage.disks import Disks
from hcs_emulator.service.storage.layers import Layers
from hcs_emulator.service.storage.vm_access import VmAccess
from hcs_emulator.service.virtual_machine.linux_boot import DEFAULT_GUEST, GUESTS, write_boot_files
from hcs_emulator.service.virtual_machine.system import VirtualMachine

if TYPE_CHECKING:
    from hcs_emulator.service.wine.silo import WineHost

DEFAULT_BUILD = 20348
LONGEST_ID = 1024
CLEANUP_TIMEOUT = 30.0
DEVICE = "\\\\.\\"
PIPE = "\\\\.\\pipe\\"


# Behaviour of some Windows builds that is off by default.
QUIRKS = {
    # HcsCreateProcess fails its wait though the process runs (Server 2022, process isolation).
    "synchronous-create-process",
    # HcsSignalProcess answers only when the target has exited (Server Core images).
    "blocking-signal",
}


def check_quirk(name: str) -> str:
    if name not in QUIRKS:
        raise ValueError(f"unknown quirk {name} (known: {', '.join(sorted(QUIRKS))})")
    return name


def _windows_build(_: Any, attribute: Any, build: int) -> None:
    if not 10240 <= build <= 65535:
        raise ValueError(f"{build} is not a build of Windows 10 or later")


def _known_quirks(_: Any, attribute: Any, quirks: set[str]) -> None:
    for name in quirks:
        check_quirk(name)


def _known_guest(_: Any, attribute: Any, guest: str) -> None:
    if guest not in GUESTS:
        raise ValueError(f"unknown guest {guest} (known: {', '.join(GUESTS)})")


@attrs.define
class Options:
    """How this emulator behaves where Windows builds differ, and the guest of Linux VMs whose boot files name none.
    Raises ValueError for an unknown build, quirk or guest.
    """

    directory: str
    build: int = attrs.field(default=DEFAULT_BUILD, validator=_windows_build)
    quirks: set[str] = attrs.field(factory=set, validator=_known_quirks)
    linux_guest: str = attrs.field(default=DEFAULT_GUEST, validator=_known_guest)


class Host:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.directory = options.directory
        # Instances on one host must not share cgroups: each derives its name from its directory.
        self.instance = hashlib.sha256(os.path.realpath(options.directory).encode()).hexdigest()[:12]
        self.systems: dict[str, ComputeSystem] = {}
        self.handles = HandleTable()
        # Stale sockets of VMs of a killed service.
        shutil.rmtree(os.path.join(options.directory, "hvsock"), ignore_errors=True)
        write_boot_files(options.directory, options.linux_guest)
        self.events = Events()
        self.wine: WineHost | None = None  # set where container processes are Windows programs
        self.layers = Layers(os.path.join(options.directory, "volumes"))
        self.disks = Disks()
        self.vm_access = VmAccess()
        self.network = Network()
        self.service = ServiceProperties(options.build)
        self.guest_faults: Callable[[], list[dict[str, Any]]] = list
        self.on_guest_fault: Callable[[int], None] = lambda fault: None
        self.on_guest_report: Callable[[int, dict[str, Any]], None] = lambda pid, report: None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cleanups: set[asyncio.Task[Any]] = set()

    @property
    def build(self) -> int:
        return self.options.build

    def background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a task that no caller waits for. HcsErrors are expected; other exceptions are printed."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._background_done)
        return task

    def cleanup(self, work: Coroutine[Any, Any, Any]) -> None:
        """The same for work that the service must finish before it exits."""
        task = self.background(work)
        self._cleanups.add(task)
        task.add_done_callback(self._cleanups.discard)

    def _background_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, HcsError):
            traceback.print_exception(error, file=sys.stderr)

    def pipe(self, name: str) -> str:
        """The path that represents a named pipe of the host: `\\\\.\\pipe\\x` is a Unix socket or FIFO at
        <directory>/pipe/x.
        """
        if name.lower().startswith(PIPE):
            return os.path.join(
                self.directory, "pipe", os.path.normpath("/" + name[len(PIPE) :].replace("\\", "/"))[1:]
            )
        return name

    def disk(self, kind: str, path: str, provider: str = "") -> str:
        """The path that represents a disk. Disks that are no files of the host are represented by files that the user
        creates: `\\\\.\\PHYSICALDRIVE3` at <directory>/drive/physicaldrive3, extensible disks at
        <directory>/evd/<type>/<path>.
        """
        if kind == "PassThru":
            name = path[len(DEVICE) :] if path.startswith(DEVICE) else path
            return os.path.join(self.directory, "drive", os.path.basename(name.lower()))
        if kind == "ExtensibleVirtualDisk":
            inside = os.path.normpath("/" + path.replace("\\", "/"))
            return os.path.join(self.directory, "evd", os.path.basename(provider)) + inside
        return path

    # compute systems

    def create(self, identifier: str | None, document: Any) -> ComputeSystem:
        if not identifier or len(identifier) > LONGEST_ID or "\0" in identifier:
            raise HcsError(
                ERROR_INVALID_PARAMETER, f"[Create compute system] the id must have 1 to {LONGEST_ID} characters"
            )
        kind = check_compute_system(document, self.build)
        if identifier in self.systems:
            raise HcsError(HCS_E_SYSTEM_ALREADY_EXISTS, f"[Create compute system] {identifier} exists", data=identifier)
        system = self._new_system(kind, identifier, document)
        self.systems[identifier] = system
        return system

    def _new_system(self, kind: str, identifier: str, document: dict[str, Any]) -> ComputeSystem:
        if kind == "Container":
            return Container(self, identifier, document)
        if kind == "VirtualMachine":
            return VirtualMachine(self, identifier, document)
        raise HcsError(
            ERROR_NOT_SUPPORTED,
            "[Create compute system] containers are hosted through the guest service, not through HostedSystem",
            data="$.HostedSystem",
        )

    def find(self, identifier: str | None) -> ComputeSystem:
        system = self.systems.get(identifier or "")
        if system is None:
            raise HcsError(HCS_E_SYSTEM_NOT_FOUND, f"{identifier} does not exist", data=identifier)
        return system

    def forget(self, system: ComputeSystem) -> None:
        if self.systems.get(system.id) is system:
            del self.systems[system.id]

    def enumerate(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        filters = {"Ids": "Id", "Names": "Name", "Types": "SystemType", "Owners": "Owner"}
        found = []
        for system in self.systems.values():
            properties = system.basic_properties()
            if all(not query.get(name) or properties[member] in query[name] for name, member in filters.items()):
                found.append(properties)
        return found

    async def send_guest_faults(self) -> None:
        """Tell every VM which faults of guests there are now."""
        for system in list(self.systems.values()):
            await system.change_faults(self.guest_faults())

    async def close(self) -> None:
        """The service stops: terminate all compute systems."""
        for system in list(self.systems.values()):
            try:
                await asyncio.wait_for(system.terminate(), 30)
            except (HcsError, TimeoutError):
                pass
        self.layers.close()
        if self._cleanups:
            await asyncio.wait(self._cleanups, timeout=CLEANUP_TIMEOUT)
        for task in list(self._tasks):
            task.cancel()
