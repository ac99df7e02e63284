"""A container inside a utility VM: a silo of the VM worker. The host may query its processes' exits long after.

The host reaches it through the GCS bridge only. Process-isolated containers of the host are compute systems: see
hcs_emulator/service/compute_system/container.py.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable
from typing import Any

from hcs_emulator.service.errors import (
    ERROR_NOT_FOUND,
    HCS_E_CONNECTION_TIMEOUT,
    HCS_E_INVALID_STATE,
    HCS_E_SYSTEM_ALREADY_STOPPED,
    HcsError,
)
from hcs_emulator.service.schema.modify import Modification
from hcs_emulator.service.silo.limits import limits_from_settings
from hcs_emulator.service.silo.namespaces import Bind, LaunchError, Silo, SiloProcess, SiloSettings
from hcs_emulator.vm import stdio_relay
from hcs_emulator.vm.windows.resources import Resources

SHUTDOWN_TIMEOUT = 5.0
LONGEST_SHUTDOWN = 600.0
# Of exited processes: who asks later gets no code.
MAX_EXIT_CODES = 1024
STREAMS = (("StdIn", "CreateStdInPipe"), ("StdOut", "CreateStdOutPipe"), ("StdErr", "CreateStdErrPipe"))


class GuestContainer:
    """`exited` is called once with GracefulExit, ForcedExit or UnexpectedExit; `silo_started` with the pid of its silo.
    """

    def __init__(self, identifier: str, settings: dict[str, Any], resources: Resources, instance: str) -> None:
        self.id = identifier
        self.settings = settings
        self.system_guid = str(uuid.uuid4())
        self.state = "Created"
        self.silo: Silo | None = None
        self.exited: Callable[[str], None] = lambda _: None
        self.silo_started: Callable[[int], None] = lambda _: None
        self._resources = resources
        self._instance = instance
        #: Of the last processes that have exited, by pid.
        self.exit_codes: dict[int, int] = {}
        self._processes: dict[int, asyncio.Future[int]] = {}
        self._running: dict[int, SiloProcess] = {}
        self._stopping = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._disk = (settings.get("Storage") or {}).get("Path", "")
        self._privileged_root = ""
        if settings.get("IsolationType") == "HostProcess":
            self._privileged_root = settings["Storage"].get("PrivilegedContainerRootPath") or "C:\\hpc"
        self._binds()
        for layer in (settings.get("Storage") or {}).get("Layers", ()):
            resources.resolve(layer["Path"])
        self._root = resources.use(self._disk, identifier) if self._disk else None

    def _binds(self) -> list[Bind]:
        binds = []
        for entry in self.settings.get("MappedDirectories", ()):
            binds.append(self._bind(entry))
        for entry in self.settings.get("MappedPipes", ()):
            # A pipe of the guest itself exists once a process creates it.
            if not entry["HostPath"].startswith("\\\\.\\"):
                source, _ = self._resources.resolve(entry["HostPath"])
                binds.append(Bind(source, "/pipe/" + entry["ContainerPipeName"].replace("\\", "/")))
        return binds

    def _bind(self, entry: dict[str, Any]) -> Bind:
        source, read_only = self._resources.resolve(entry["HostPath"])
        return Bind(source, entry["ContainerPath"], read_only or bool(entry.get("ReadOnly")))

    # lifecycle

    async def start(self) -> None:
        if self.state != "Created":
            raise self._wrong_state("start")
        binds, root = self._binds(), self._root
        hostname = (self.settings.get("GuestOs") or {}).get("HostName", "")
        if self._privileged_root and root is not None:
            # A host process container of the VM: in the VM's own file tree, with the container's files at a path.
            binds, root, hostname = [Bind(root, self._privileged_root), *binds], None, "utilityvm"
        settings = SiloSettings(
            id=self.id,
            hostname=hostname,
            root=root,
            binds=binds,
            instance=self._instance,
            **limits_from_settings(self.settings),
        )
        try:
            self.silo = await Silo.start(settings)
        except LaunchError as error:
            raise HcsError(error.hresult, error.message, data=self.id) from error
        self.silo_started(self.silo.pid)
        self.state = "Running"
        self._background(self._watch(self.silo))

    async def _watch(self, silo: Silo) -> None:
        await asyncio.shield(silo.exited)
        self._stopped(self._stopping or "UnexpectedExit")

    def shut_down(self) -> None:
        """Begin to stop; `exited` reports the result."""
        self._begin_stop("GracefulExit")

    def terminate(self) -> None:
        self._begin_stop("ForcedExit")

    def _begin_stop(self, exit_type: str) -> None:
        if self.state == "Stopped" or self._stopping in (exit_type, "ForcedExit"):
            raise HcsError(HCS_E_SYSTEM_ALREADY_STOPPED, f"{self.id} is stopped or stopping", data=self.id)
        self._stopping = exit_type
        if self.silo is None:
            asyncio.get_running_loop().call_soon(self._stopped, exit_type)
        elif exit_type == "ForcedExit":
            self._background(self.silo.terminate())
        else:
            self._background(self._shut_down(self.silo))

    async def _shut_down(self, silo: Silo) -> None:
        timeout = SHUTDOWN_TIMEOUT
        for value in (self.settings.get("RegistryChanges") or {}).get("AddValues", ()):
            if value["Name"] == "WaitToKillServiceTimeout" and value.get("StringValue", "").isdigit():
                timeout = min(int(value["StringValue"]) / 1000, LONGEST_SHUTDOWN)
        await silo.shutdown(timeout)

    def _stopped(self, exit_type: str) -> None:
        if self.state == "Stopped":
            return
        self.state = "Stopped"
        if self._disk:
            self._resources.release(self._disk, self.id)
        self.exited(exit_type)

    # processes

    async def execute(self, parameters: dict[str, Any], relay: dict[str, Any], sockets: str) -> int:
        if self.state != "Running" or self.silo is None:
            raise self._wrong_state("start a process")
        connections: dict[str, Any] = {}
        try:
            for name, member in STREAMS:
                if parameters.get(member):
                    connections[name] = await stdio_relay.dial(sockets, str(relay.get(name, "")))
            if self._privileged_root:
                place = {"CONTAINER_SANDBOX_MOUNT_POINT": self._privileged_root}
                parameters = {**parameters, "Environment": place | (parameters.get("Environment") or {})}
            process = await self.silo.spawn(parameters)
        except LaunchError as error:
            _close(connections)
            raise HcsError(error.hresult, error.message, data=parameters.get("CommandLine")) from error
        except BaseException:
            _close(connections)
            raise
        self._relay(process, connections)
        self.exit_codes.pop(process.pid, None)  # of an earlier process with this pid
        self._processes[process.pid] = process.exited
        self._running[process.pid] = process
        process.exited.add_done_callback(lambda exited: self._forget(process.pid, exited.result()))
        return process.pid

    def _forget(self, pid: int, code: int) -> None:
        self._running.pop(pid, None)
        self._processes.pop(pid, None)
        self.exit_codes[pid] = code
        if len(self.exit_codes) > MAX_EXIT_CODES:
            del self.exit_codes[next(iter(self.exit_codes))]

    def _relay(self, process: SiloProcess, connections: dict[str, Any]) -> None:
        if "StdIn" in connections and process.stdin is not None:
            self._background(self._relay_input(process, connections["StdIn"], os.dup(process.stdin)))
        for name, descriptor in (("StdOut", process.stdout), ("StdErr", process.stderr)):
            if name in connections:
                if descriptor is None:
                    connections[name].close()
                else:
                    self._background(stdio_relay.pump_output(os.dup(descriptor), connections[name]))
        # The pumps have duplicates; the process's own descriptors are closed when it has exited.
        process.exited.add_done_callback(lambda _: process.close())

    async def _relay_input(self, process: SiloProcess, sock: Any, descriptor: int) -> None:
        ended = await stdio_relay.pump_input(sock, descriptor)
        if not process.exited.done():
            if ended:
                process.close_stdin()
            else:
                process.kill()  # its input is incomplete

    async def wait(self, pid: int, timeout: float | None) -> int:
        exited = self._processes.get(pid)
        if exited is None:
            raise self._no_process(pid)
        try:
            return await asyncio.wait_for(asyncio.shield(exited), timeout)
        except TimeoutError:
            raise HcsError(HCS_E_CONNECTION_TIMEOUT, f"process {pid} has not exited in time", data=str(pid)) from None

    def running(self, pid: int) -> SiloProcess:
        process = self._running.get(pid)
        if process is None:
            raise self._no_process(pid)
        return process

    def _no_process(self, pid: int) -> HcsError:
        return HcsError(ERROR_NOT_FOUND, f"{self.id} has no process {pid}", data=str(pid))

    # modify requests and properties

    async def modify(self, request: Modification) -> None:
        if self.state == "Stopped":
            raise self._wrong_state("modify")
        try:
            if request.name in ("memory", "processor"):
                if request.name == "memory":
                    self.settings.setdefault("Memory", {})["SizeInMB"] = request.settings
                else:
                    self.settings["Processor"] = request.settings
                if self.silo is not None:
                    limits = limits_from_settings(self.settings)
                    await self.silo.set_limits(**limits)
            elif request.name == "mapped directory":
                await self.map_directory(request.settings, request.request)
        except LaunchError as error:
            raise HcsError(error.hresult, error.message, data=self.id) from error

    async def map_directory(self, entry: dict[str, Any], request: str) -> None:
        bind = self._bind(entry)
        if self.silo is not None:
            await (self.silo.add_bind(bind) if request == "Add" else self.silo.remove_bind(bind.target))
        entries: list[dict[str, Any]] = self.settings.setdefault("MappedDirectories", [])
        if request == "Add":
            entries.append(entry)
        else:
            entries[:] = [
                known for known in entries if known["ContainerPath"].lower() != entry["ContainerPath"].lower()
            ]

    def properties(self, types: list[str]) -> dict[str, Any]:
        properties: dict[str, Any] = {
            "Id": self.id,
            "SystemType": "Container",
            "RuntimeOsType": "Windows",
            "Owner": "guest",
            "State": self.state,
        }
        for name in types:
            if name == "SystemGUID":
                properties[name] = self.system_guid
            elif name in ("Statistics", "ProcessList"):
                if self.silo is None or self.state != "Running":
                    raise self._wrong_state(f"tell {name}")
                properties[name] = self.silo.statistics() if name == "Statistics" else self.silo.process_list()
        return properties

    def _wrong_state(self, doing: str) -> HcsError:
        if self.state == "Stopped":
            return HcsError(HCS_E_SYSTEM_ALREADY_STOPPED, f"cannot {doing}: {self.id} is stopped", data=self.id)
        return HcsError(HCS_E_INVALID_STATE, f"cannot {doing}: {self.id} is {self.state}", data=self.state)

    def _background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _close(connections: dict[str, Any]) -> None:
    for sock in connections.values():
        sock.close()
