"""The guest compute service (GCS): connects to the host's listener and serves the bridge, as in a real VM."""

from __future__ import annotations

import asyncio
import json
import os
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from hcs_emulator.service.errors import (
    E_FAIL,
    ERROR_NOT_FOUND,
    HCS_E_INVALID_JSON,
    HCS_E_PROTOCOL_ERROR,
    HCS_E_SYSTEM_ALREADY_EXISTS,
    HCS_E_SYSTEM_NOT_FOUND,
    HCS_E_UNKNOWN_MESSAGE,
    HCS_E_UNSUPPORTED_PROTOCOL_VERSION,
    HcsError,
)
from hcs_emulator.service.schema.process import check_parameters, check_signal
from hcs_emulator.service.schema.shapes import parse
from hcs_emulator.service.silo.namespaces import LaunchError
from hcs_emulator.vm import bridge_frames, bridge_report
from hcs_emulator.vm.bridge import NULL, Bridge, Message, error_response
from hcs_emulator.vm.windows import messages
from hcs_emulator.vm.windows.container import GuestContainer
from hcs_emulator.vm.windows.log_forwarding import LogForwarding
from hcs_emulator.vm.windows.modify import GuestSettings
from hcs_emulator.vm.windows.resources import Resources

SERVICE = "acef5661-84a1-4e44-856b-6245e69f4620"
VERSION = 4
INFINITE = 0xFFFFFFFF

CAPABILITIES = {
    "SendHostCreateMessage": True,
    "SendHostStartMessage": True,
    "HvSocketConfigOnStartup": True,
    "RuntimeOsType": "Windows",
    "SupportedSchemaVersions": [{"Major": 2, "Minor": 1}],
    "GuestDefinedCapabilities": {
        "NamespaceAddRequestSupported": True,
        "SignalProcessSupported": True,
        "HostProcessContainerSupported": True,
        "DumpStacksSupported": True,
        "DeleteContainerStateSupported": True,
        "UpdateContainerSupported": True,
        "LogForwardingSupported": True,
    },
}


class GuestService:
    """`shut_down` is called when the host requests a shutdown of the VM itself."""

    def __init__(self, settings: dict[str, Any], workspace: str) -> None:
        self.build: int = settings["build"]
        # Accessed through an open descriptor: the length of a socket's path is limited, that of the directory's is not.
        directory = os.path.join(settings["directory"], "hvsock", settings["runtime_id"])
        self.sockets = f"/proc/self/fd/{os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)}"
        self.resources = Resources(settings["resources"], workspace)
        self.settings = GuestSettings(self.resources, self.build)
        self.containers: dict[str, GuestContainer] = {}
        self.shut_down: Callable[[], None] = lambda: None
        self.silo_started: Callable[[int], None] = lambda _: None
        self.on_report: Callable[[Message], None] = lambda _: None  # gets a report of every request, for the journal
        self._instance: str = settings["instance"]
        self._logs = LogForwarding(self.sockets)
        self._bridge = Bridge(self.sockets, SERVICE, self._handle, self._connected)
        self._negotiated = False
        self._procedures: dict[int, Callable[[str, Message], Awaitable[Message]]] = {
            bridge_frames.NEGOTIATE: self._negotiate,
            bridge_frames.CREATE: self._create,
            bridge_frames.START: self._start,
            bridge_frames.SHUTDOWN_GRACEFUL: self._shutdown_graceful,
            bridge_frames.SHUTDOWN_FORCED: self._shutdown_forced,
            bridge_frames.EXECUTE_PROCESS: self._execute,
            bridge_frames.WAIT_FOR_PROCESS: self._wait,
            bridge_frames.SIGNAL_PROCESS: self._signal,
            bridge_frames.RESIZE_CONSOLE: self._resize,
            bridge_frames.GET_PROPERTIES: self._properties,
            bridge_frames.MODIFY_SETTINGS: self._modify,
            bridge_frames.DUMP_STACKS: self._dump_stacks,
            bridge_frames.DELETE_CONTAINER_STATE: self._delete_state,
            bridge_frames.LIFECYCLE: self._acknowledge,
            bridge_frames.MODIFY_SERVICE_SETTINGS: self._modify_service,
        }

    async def run(self) -> None:
        """Serve the bridge. Containers keep running while it is not connected."""
        await self._bridge.run()

    def _connected(self) -> None:
        self._negotiated = False

    async def _handle(self, procedure: int, body: bytes) -> Message:
        activity, message = NULL, None
        started, clock = time.time(), time.perf_counter()
        try:
            message = parse(body.decode("utf-8", "replace"), "bridge")
            if not isinstance(message, dict):
                raise HcsError(HCS_E_INVALID_JSON, "[bridge] expected an object at $", data="$")
            activity = str(message.get("ActivityId", NULL))
            function = self._procedures.get(procedure)
            if function is None:
                raise HcsError(HCS_E_UNKNOWN_MESSAGE, f"the guest does not know procedure 0x{procedure:08X}")
            if procedure != bridge_frames.NEGOTIATE and not self._negotiated:
                raise HcsError(HCS_E_PROTOCOL_ERROR, "the protocol has not been negotiated")
            messages.check_request(procedure, message, self.build)
            response = {"Result": 0} | await function(str(message.get("ContainerId", "")), message)
        except HcsError as error:
            response = error_response(error)
        except Exception as error:
            traceback.print_exc()
            response = error_response(HcsError(E_FAIL, f"the guest failed: {error!r}"))
        # The journal first: a host that has its response may terminate the VM at once, before the report is sent.
        self.on_report(bridge_report.report(procedure, message, response, started, time.perf_counter() - clock))
        return {"ActivityId": activity} | response

    # the VM itself and its containers

    def _find(self, identifier: str) -> GuestContainer:
        container = self.containers.get(identifier)
        if container is None:
            raise HcsError(HCS_E_SYSTEM_NOT_FOUND, f"the guest has no container {identifier}", data=identifier)
        return container

    async def _negotiate(self, identifier: str, message: Message) -> Message:
        if not message["MinimumVersion"] <= VERSION <= message["MaximumVersion"]:
            raise HcsError(HCS_E_UNSUPPORTED_PROTOCOL_VERSION, f"this guest speaks version {VERSION} only")
        self._negotiated = True
        return {"Version": VERSION, "Capabilities": CAPABILITIES}

    async def _create(self, identifier: str, message: Message) -> Message:
        document = parse(message["ContainerConfig"], "Create container")
        if identifier == NULL:
            messages.check_host_system(document, self.build)
            return {}
        settings = messages.check_container(document, self.build)
        present = self.containers.get(identifier)
        if present is not None and present.state != "Stopped":
            raise HcsError(HCS_E_SYSTEM_ALREADY_EXISTS, f"the guest has a container {identifier}", data=identifier)
        namespace = (settings.get("Networking") or {}).get("Namespace", "")
        if namespace:
            self.settings.require_namespace(namespace)
        container = GuestContainer(identifier, settings, self.resources, self._instance)
        container.exited = lambda exit_type: self._container_exited(identifier, exit_type)
        container.silo_started = self.silo_started
        self.containers[identifier] = container
        return {}

    def _container_exited(self, identifier: str, exit_type: str) -> None:
        notification = {
            "ContainerId": identifier,
            "ActivityId": NULL,
            "Type": exit_type,
            "Operation": "None",
            "Result": 0,
        }
        self._bridge.notify(bridge_frames.CREATE, notification)

    async def _start(self, identifier: str, message: Message) -> Message:
        if identifier != NULL:
            await self._find(identifier).start()
        return {}

    async def _shutdown_graceful(self, identifier: str, message: Message) -> Message:
        return self._stop(identifier, GuestContainer.shut_down)

    async def _shutdown_forced(self, identifier: str, message: Message) -> Message:
        return self._stop(identifier, GuestContainer.terminate)

    def _stop(self, identifier: str, how: Callable[[GuestContainer], None]) -> Message:
        loop = asyncio.get_running_loop()
        if identifier == NULL:
            loop.call_soon(self.shut_down)
        else:
            container = self._find(identifier)
            how(container)
        return {}

    async def _delete_state(self, identifier: str, message: Message) -> Message:
        container = self._find(identifier)
        if container.state != "Stopped":
            raise HcsError(0x80370105, f"{identifier} is {container.state}", data=container.state)
        del self.containers[identifier]
        return {}

    async def _acknowledge(self, identifier: str, message: Message) -> Message:
        return {}

    # processes

    async def _execute(self, identifier: str, message: Message) -> Message:
        settings = message["Settings"]
        parameters = check_parameters(parse(settings["ProcessParameters"], "Create process"), self.build)
        container = await self._vm_system() if identifier == NULL else self._find(identifier)
        return {
            "ProcessId": await container.execute(parameters, settings.get("StdioRelaySettings") or {}, self.sockets)
        }

    async def _vm_system(self) -> GuestContainer:
        """The container for processes of the VM itself; created with the first one."""
        system = self.containers.get(NULL)
        if system is None:
            settings = {"GuestOs": {"HostName": "utilityvm"}, "MappedDirectories": self.resources.mapped()}
            system = GuestContainer(NULL, settings, self.resources, self._instance)
            system.silo_started = self.silo_started
            self.containers[NULL] = system
            await system.start()
        return system

    async def _wait(self, identifier: str, message: Message) -> Message:
        timeout = message.get("TimeoutInMs", INFINITE)
        container, pid = self._find(identifier), message["ProcessId"]
        code = container.exit_codes.get(pid)
        if code is not None:
            # A guest forgets a process when it exits. The answer is an error, with the exit code.
            gone = error_response(HcsError(ERROR_NOT_FOUND, f"{identifier} has no process {pid}", data=str(pid)))
            return gone | ({"ExitCode": code} if code else {})
        return {"ExitCode": await container.wait(pid, None if timeout == INFINITE else timeout / 1000)}

    async def _signal(self, identifier: str, message: Message) -> Message:
        process = self._find(identifier).running(message["ProcessId"])
        options = message.get("Options")
        if not options:
            process.kill()
        else:
            process.signal(check_signal(options, self.build))
        return {}

    async def _resize(self, identifier: str, message: Message) -> Message:
        process = self._find(identifier).running(message["ProcessId"])
        try:
            process.resize(message.get("Height", 0), message.get("Width", 0))
        except ValueError as error:
            raise HcsError(0x80070057, str(error)) from None
        return {}

    # properties and settings

    async def _properties(self, identifier: str, message: Message) -> Message:
        types = messages.check_query(parse(message.get("Query"), "Get properties"), self.build)
        if identifier == NULL and NULL not in self.containers:
            properties: Message = {
                "Id": NULL,
                "SystemType": "Container",
                "RuntimeOsType": "Windows",
                "State": "Running",
            }
        else:
            properties = self._find(identifier).properties(types)
        return {"Properties": json.dumps(properties)}

    async def _modify(self, identifier: str, message: Message) -> Message:
        request = message["Request"]
        if identifier != NULL:
            await self.settings.modify_container(self._find(identifier), request)
        else:
            removing = request.get("RequestType") == "Remove"
            bound = request.get("ResourceType") == "MappedDirectory" and NULL in self.containers
            if bound and removing:
                await self._bind_in_vm_system(request)
            self.settings.modify(request)
            if bound and not removing:
                await self._bind_in_vm_system(request)
        return {}

    async def _bind_in_vm_system(self, request: Message) -> None:
        """Make a directory that was mapped into the VM visible to running processes of the VM."""
        target, change = request["Settings"]["ContainerPath"], request.get("RequestType", "Add")
        entry = {"HostPath": target, "ContainerPath": target}
        try:
            await self.containers[NULL].map_directory(entry, change)
        except LaunchError as error:
            raise HcsError(error.hresult, error.message, data=target) from error

    async def _modify_service(self, identifier: str, message: Message) -> Message:
        await self._logs.modify(message)
        return {}

    async def _dump_stacks(self, identifier: str, message: Message) -> Message:
        stacks = "".join(f"{task.get_name()}: {task.get_coro()}\n" for task in asyncio.all_tasks())
        return {"GuestStacks": stacks[:32768]}

    # the worker

    def change_resources(self, granted: dict[str, Any]) -> None:
        """The host has granted other resources to the VM."""
        self.resources.granted = granted

    async def freeze(self) -> None:
        for container in self.containers.values():
            if container.silo is not None and container.state == "Running":
                await container.silo.freeze()

    async def thaw(self) -> None:
        for container in self.containers.values():
            if container.silo is not None and container.state == "Running":
                await container.silo.thaw()
