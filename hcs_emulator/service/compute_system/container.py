"""A process-isolated container: a compute system whose processes run in a silo.

Create validates and stores the document, Start creates the silo, HcsCreateProcess starts processes. As on Windows, the
container keeps running when its processes exit. It stops only by shutdown, by terminate, or when its silo exits.

Containers inside a utility VM are not compute systems of the host: see hcs_emulator/vm/windows/container.py.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from hcs_emulator.service.compute_system.system import CREATED, PAUSED, RUNNING, ComputeSystem
from hcs_emulator.service.errors import (
    ERROR_ALREADY_EXISTS,
    ERROR_FILE_NOT_FOUND,
    ERROR_NOT_FOUND,
    HCS_E_INVALID_JSON,
    HCS_E_INVALID_LAYER,
    HcsError,
)
from hcs_emulator.service.schema.modify import Modification
from hcs_emulator.service.silo.limits import limits_from_settings
from hcs_emulator.service.silo.namespaces import Bind, LaunchError, Silo, SiloProcess, SiloSettings
from hcs_emulator.service.storage.image_version import require_compatible

if TYPE_CHECKING:
    from hcs_emulator.service.host import Host
    from hcs_emulator.service.wine.silo import WineSilo

# How long Windows lets services stop before it kills them, and the longest that the emulator waits.
DEFAULT_KILL_TIMEOUT = 5.0
LONGEST_KILL_TIMEOUT = 600.0


class Container(ComputeSystem):
    system_type = "Container"
    _can_shut_down = (CREATED, RUNNING)

    def __init__(self, host: Host, identifier: str, document: dict[str, Any]) -> None:
        super().__init__(host, identifier, document)
        self.settings: dict[str, Any] = document["Container"]
        self.silo: Silo | WineSilo | None = None
        self._watch: asyncio.Task[None] | None = None
        self._volume: str | None = None
        self._breaches = 0
        self._processors: set[int] = set()
        self._root = self._find_root()
        for entry in self.settings.get("MappedDirectories", ()):
            self._bind(entry)
        self._namespace = (self.settings.get("Networking") or {}).get("Namespace", "")
        if self._volume:
            host.layers.acquire(self._volume, identifier)

    def _find_root(self) -> str | None:
        storage = self.settings.get("Storage") or {}
        path = storage.get("Path", "")
        for layer in storage.get("Layers", ()):
            if self.host.layers.resolve(layer["Path"]) is None:
                raise HcsError(
                    HCS_E_INVALID_LAYER,
                    f"[Create compute system] layer {layer['Path']} does not exist",
                    data="$.Container.Storage.Layers",
                )
        if not path:
            return None
        require_compatible(self.host.build, [layer["Path"] for layer in storage.get("Layers", ())] or [path])
        if path.startswith("\\\\?\\Volume{"):
            if not path.endswith("\\"):
                raise _refuse(f"volume path {path} does not end with a backslash", "$.Container.Storage.Path")
            if not storage.get("Layers"):
                raise _refuse("a volume without the layers under it", "$.Container.Storage.Layers")
        root = self.host.layers.resolve(path)
        if root is None:
            raise HcsError(
                ERROR_FILE_NOT_FOUND,
                f"[Create compute system] volume {path} is not mounted: activate and prepare its layer first",
                data="$.Container.Storage.Path",
            )
        self._volume = path
        return root

    def _binds(self) -> list[Bind]:
        binds = [self._bind(entry) for entry in self.settings.get("MappedDirectories", ())]
        for entry in self.settings.get("MappedPipes", ()):
            bind = self._pipe(entry)
            if os.path.exists(bind.source):
                binds.append(bind)
            else:  # Windows maps the name only: opening it fails
                self.events.note(self.id, "MappedPipeMissing", {"HostPath": entry["HostPath"], "Expected": bind.source})
        return binds

    def _bind(self, entry: dict[str, Any]) -> Bind:
        source = self.host.layers.resolve(entry["HostPath"])
        if source is None:
            raise HcsError(
                ERROR_FILE_NOT_FOUND, f"mapped directory {entry['HostPath']} does not exist", data=entry["HostPath"]
            )
        return Bind(source, entry["ContainerPath"], bool(entry.get("ReadOnly", False)))

    def _pipe(self, entry: dict[str, Any]) -> Bind:
        """A named pipe is emulated by a Unix socket or FIFO; in the container it is below /pipe."""
        return Bind(self.host.pipe(entry["HostPath"]), "/pipe/" + entry["ContainerPipeName"].replace("\\", "/"))

    # lifecycle

    async def _launch(self) -> None:
        settings = SiloSettings(
            id=self.id,
            hostname=(self.settings.get("GuestOs") or {}).get("HostName", ""),
            root=self._root,
            binds=self._binds(),
            instance=self.host.instance,
            **limits_from_settings(self.settings),
        )
        if self._namespace:
            self.host.network.attach_container(self._namespace, self.id)
        try:
            self.silo = await (self.host.wine.start(settings) if self.host.wine else Silo.start(settings))
        except LaunchError as error:
            self.host.network.detach_container(self._namespace, self.id)
            raise HcsError(error.hresult, f"[Start compute system] {error.message}", data=self.id) from error
        self._note_limits()
        if self._processors:
            self.silo.set_affinity(self._processors)
        self._watch = self.host.background(self._watch_silo(self.silo))

    def set_affinity(self, processors: set[int]) -> None:
        """Set by the container's job object, before or after the container is started."""
        self._processors = processors
        if self.silo is not None:
            self.silo.set_affinity(processors)

    def _note_limits(self) -> None:
        """HCS accepts every limit; those that this host cannot enforce are recorded in the journal."""
        assert self.silo is not None
        missing = [name for name, enforced in self.silo.enforced.items() if not enforced]
        if missing:
            self.events.note(self.id, "LimitsNotEnforced", {"Limits": missing})

    def process_exited(self) -> None:
        breaches = self.silo.oom_count if self.silo is not None else 0
        if breaches > self._breaches:
            self._breaches = breaches
            self.events.note(self.id, "MemoryLimitBreached", {"Count": breaches, "Memory": self.settings.get("Memory")})

    async def _watch_silo(self, silo: Silo | WineSilo) -> None:
        await asyncio.shield(silo.exited)
        await self.exited_unexpectedly()

    async def _kill(self) -> None:
        if self.silo is not None:
            await self.silo.terminate()

    async def _shut_down(self) -> None:
        if self.silo is not None:
            await self.silo.shutdown(self._kill_timeout())

    def _kill_timeout(self) -> float:
        """WaitToKillServiceTimeout from the document's registry changes, which Windows honours."""
        for value in (self.settings.get("RegistryChanges") or {}).get("AddValues", ()):
            if value["Name"] == "WaitToKillServiceTimeout" and value.get("StringValue", "").isdigit():
                return min(int(value["StringValue"]) / 1000, LONGEST_KILL_TIMEOUT)
        return DEFAULT_KILL_TIMEOUT

    def _release(self) -> None:
        if self._volume:
            self.host.layers.release(self._volume, self.id)
        if self._namespace:
            self.host.network.detach_container(self._namespace, self.id)

    async def _spawn(self, parameters: dict[str, Any]) -> SiloProcess:
        assert self.silo is not None
        try:
            return await self.silo.spawn(parameters)
        except LaunchError as error:
            raise HcsError(
                error.hresult, f"[Create process] {error.message}", data=parameters.get("CommandLine")
            ) from error

    # modify requests

    async def modify(self, request: Modification) -> None:
        self.require_alive()
        if self.state == PAUSED:
            raise self.wrong_state("modify")
        settings = request.settings
        if request.name == "memory":
            self.settings.setdefault("Memory", {})["SizeInMB"] = settings
            await self._apply_limits()
        elif request.name == "processor":
            self.settings["Processor"] = settings
            await self._apply_limits()
        elif request.name == "mapped directory":
            await self._change_mapping("MappedDirectories", request, self._bind)
        elif request.name == "mapped pipe":
            await self._change_mapping("MappedPipes", request, self._pipe)
        elif request.name == "network namespace":
            self._change_namespace(request)
        else:
            # Other settings have no effect outside the container. They are stored for properties and tests.
            self.settings[request.name] = settings

    async def _apply_limits(self) -> None:
        if self.silo is not None:
            limits = limits_from_settings(self.settings)
            await self.silo.set_limits(**limits)
            self._note_limits()

    async def _change_mapping(self, member: str, request: Modification, make: Any) -> None:
        entries: list[dict[str, Any]] = self.settings.setdefault(member, [])
        bind: Bind = make(request.settings)
        present = [entry for entry in entries if make(entry).target == bind.target]
        if request.request == "Add":
            if present:
                raise HcsError(ERROR_ALREADY_EXISTS, f"something is mapped to {bind.target} already", data=bind.target)
            if self.silo is not None:
                await self._in_silo(self.silo.add_bind(bind))
            entries.append(request.settings)
        else:
            if not present:
                raise HcsError(ERROR_NOT_FOUND, f"nothing is mapped to {bind.target}", data=bind.target)
            if self.silo is not None:
                await self._in_silo(self.silo.remove_bind(bind.target))
            entries.remove(present[0])

    async def _in_silo(self, change: Any) -> None:
        try:
            await change
        except LaunchError as error:
            raise HcsError(error.hresult, f"[Modify compute system] {error.message}", data=self.id) from error

    def _change_namespace(self, request: Modification) -> None:
        namespace = "" if request.request == "Remove" else request.settings
        if self.state == RUNNING:
            if namespace:
                self.host.network.attach_container(namespace, self.id)
            if self._namespace and self._namespace != namespace:
                self.host.network.detach_container(self._namespace, self.id)
        self._namespace = namespace

    # properties

    def details(self) -> dict[str, Any]:
        enforced = self.silo.enforced if self.silo is not None else {}
        return {"LimitsEnforced": enforced, "MemoryLimitBreaches": self._breaches}

    def properties(self, types: list[str]) -> dict[str, Any]:
        properties = self.basic_properties()
        if types:
            self.require_alive()
        for name in types:
            if name == "TerminateOnLastHandleClosed":
                properties[name] = self.terminates_on_last_handle
            elif name in ("Statistics", "ProcessList"):
                self.require_running(f"tell {name}")
                assert self.silo is not None
                properties[name] = self.silo.statistics() if name == "Statistics" else self.silo.process_list()
        return properties


def _refuse(problem: str, place: str) -> HcsError:
    message = f"[Create compute system] {problem} at {place}"
    return HcsError(HCS_E_INVALID_JSON, message, data=place, operation="Construct")
