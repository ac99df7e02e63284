"""The procedures of the bridge: containers, their processes, and the VM's resources."""

from __future__ import annotations

import json
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from hcs_emulator.vm import bridge_frames as frames
from hcs_emulator.vm.linux.agent import checks, create, log, messages, rules, vm_process
from hcs_emulator.vm.linux.agent.container import STREAMS, Container
from hcs_emulator.vm.linux.agent.errors import (
    INVALID_STATE,
    NOT_FOUND,
    SYSTEM_ALREADY_EXISTS,
    SYSTEM_NOT_FOUND,
    GuestError,
    RuleError,
    with_code,
)
from hcs_emulator.vm.linux.agent.modify import Modifications
from hcs_emulator.vm.linux.agent.network import Network
from hcs_emulator.vm.linux.agent.process import Process, VmProcess
from hcs_emulator.vm.linux.agent.storage import Storage

VM = "00000000-0000-0000-0000-000000000000"
FIRST_STREAM_PORT = 0x40000001
SIGKILL, SIGTERM = 9, 15

Message = dict[str, Any]
After = Callable[[], None]


class Answer:
    """A response, and what happens when it was sent."""

    def __init__(self, message: Message | None = None, after: After | None = None) -> None:
        self.message = message or {}
        self.after = after


class Guest:
    """`notify` sends a notification to the host; `power_off` ends the VM."""

    def __init__(self, notify: Callable[[Message], None], power_off: Callable[[], None], memory_reserve: int) -> None:
        self._notify = notify
        self._power_off = power_off
        self.containers: dict[str, Container] = {}
        self.pods: dict[str, set[str]] = {}
        self.network = Network()
        self.storage = Storage(self._users_of)
        self.modifications = Modifications(self, memory_reserve)
        self.lock = threading.Lock()
        self._vm_processes: dict[int, VmProcess] = {}
        self._used_ports: set[int] = set()
        self.procedures: dict[int, tuple[Any, Callable[[Message], Answer]]] = {
            frames.CREATE: (messages.CREATE, self.create),
            frames.START: (messages.BASE, self.start),
            frames.EXECUTE_PROCESS: (messages.EXECUTE_PROCESS, self.execute),
            frames.WAIT_FOR_PROCESS: (messages.WAIT_FOR_PROCESS, self.wait),
            frames.SIGNAL_PROCESS: (messages.SIGNAL_PROCESS, self.signal),
            frames.RESIZE_CONSOLE: (messages.RESIZE_CONSOLE, self.resize),
            frames.SHUTDOWN_GRACEFUL: (messages.BASE, lambda request: self._shut_down(request, SIGTERM)),
            frames.SHUTDOWN_FORCED: (messages.BASE, lambda request: self._shut_down(request, SIGKILL)),
            frames.GET_PROPERTIES: (messages.GET_PROPERTIES, self.properties),
            frames.MODIFY_SETTINGS: (messages.MODIFY_SETTINGS, self.modify),
            frames.DUMP_STACKS: (messages.BASE, self.dump_stacks),
            frames.DELETE_CONTAINER_STATE: (messages.BASE, self.delete),
        }

    # containers

    def container(self, identifier: str) -> Container:
        with self.lock:
            found = self.containers.get(identifier)
        if found is None:
            raise with_code(SYSTEM_NOT_FOUND)
        if not found.created:
            raise with_code(INVALID_STATE).within('container is not in state "created"')
        return found

    def _users_of(self, path: str) -> list[str]:
        with self.lock:
            return [one.id for one in self.containers.values() if one.root_path == path and one.has_processes()]

    def create(self, request: Message) -> Answer:
        text = "failed to unmarshal JSON for ContainerConfig"
        config = messages.decode(request["ContainerConfig"], messages.CONTAINER_CONFIG, text)
        checks.check_schema(config["SchemaVersion"])
        checks.check_present(config["OciSpecification"])
        identifier, activity = request["ContainerId"], request["ActivityId"]
        container = Container(identifier, config)
        with self.lock:
            if identifier in self.containers:
                raise with_code(SYSTEM_ALREADY_EXISTS)
            self.containers[identifier] = container
        try:
            create.create(self, container, config, lambda kind: self._notify_exit(identifier, activity, kind))
        except BaseException:
            self.remove(container)
            raise
        container.created = True
        return Answer({"SelectedProtocolVersion": 0})

    def _notify_exit(self, identifier: str, activity: str, kind: str) -> None:
        message = {"ContainerId": identifier, "ActivityId": activity, "Type": kind, "Operation": "None", "Result": 0}
        self._notify(message)

    def remove(self, container: Container) -> None:
        """Forget a container, and its pod with the sandbox."""
        with self.lock:
            self.containers.pop(container.id, None)
            members = self.pods.get(container.sandbox)
            if members is not None:
                members.discard(container.id)
            last = container.is_sandbox and self.pods.pop(container.id, None) is not None
        if container.init is not None:
            self.network.forget(container.init.pid)
        if last:
            create.remove_pod(container.id)

    def start(self, request: Message) -> Answer:
        """A container starts with the ExecuteProcess of its init."""
        return Answer()

    def delete(self, request: Message) -> Answer:
        container = self.container(request["ContainerId"])
        container.check_waited()
        try:
            container.delete()
        finally:
            self.remove(container)
        return Answer()

    def _shut_down(self, request: Message, number: int) -> Answer:
        if request["ContainerId"] == VM:
            log.info("bridge shutdown requested, exiting reconnect loop")
            self._power_off()
        self.container(request["ContainerId"]).kill(number)
        return Answer()

    # processes

    def execute(self, request: Message) -> Answer:
        settings = request["Settings"] or {"ProcessParameters": "", "VsockStdioRelaySettings": None}
        text = "failed to unmarshal JSON for ProcessParameters"
        parameters = messages.decode(settings["ProcessParameters"], messages.PROCESS_PARAMETERS, text)
        ports = self._ports(parameters, settings["VsockStdioRelaySettings"] or {})
        if parameters["CreateInUtilityVM"] or request["ContainerId"] == VM:
            process = vm_process.start(parameters, ports)
            with self.lock:
                self._vm_processes[process.pid] = process
            process.forget = lambda: self._forget(process.pid)
            process.watch()
            return Answer({"ProcessId": process.pid})
        container = self.container(request["ContainerId"])
        if parameters["OciProcess"] is None:
            pid = container.start(ports)
        else:
            pid = container.execute(parameters["OciProcess"], ports)
        log.debug("created process pid", pid=pid)
        return Answer({"ProcessId": pid})

    def _ports(self, parameters: Message, relay: Message) -> dict[str, int | None]:
        """The ports of the wanted streams. The host takes a new one for every stream of the VM's life."""
        ports: dict[str, int | None] = {}
        for name, flag, member in zip(
            STREAMS,
            ("CreateStdInPipe", "CreateStdOutPipe", "CreateStdErrPipe"),
            ("StdIn", "StdOut", "StdErr"),
            strict=True,
        ):
            port = relay.get(member, 0)
            ports[name] = port if parameters[flag] else None
            if port and not parameters[flag]:
                raise RuleError(rules.STREAM_PORTS, f"port {port} for {name}, which is not wanted")
        with self.lock:
            for name, wanted in ports.items():
                if wanted is None:
                    continue
                if wanted < FIRST_STREAM_PORT or wanted in self._used_ports:
                    raise RuleError(rules.STREAM_PORTS, f"port {wanted} for {name} is no new port of a stream")
                self._used_ports.add(wanted)
        return ports

    def _forget(self, pid: int) -> None:
        with self.lock:
            self._vm_processes.pop(pid, None)

    def _process(self, request: Message) -> Process:
        if request["ContainerId"] != VM:
            return self.container(request["ContainerId"]).process(request["ProcessId"])
        with self.lock:
            found = self._vm_processes.get(request["ProcessId"])
        if found is None:
            raise with_code(NOT_FOUND)
        return found

    def wait(self, request: Message) -> Answer:
        process = self._process(request)
        process.waits += 1
        code = process.wait(request["TimeoutInMs"])
        process.forget()
        return Answer({"ExitCode": code & 0xFFFFFFFF}, after=process.answered)

    def signal(self, request: Message) -> Answer:
        number = (request["Options"] or {}).get("Signal") or SIGKILL
        self.container(request["ContainerId"]).signal(request["ProcessId"], number)
        return Answer()

    def resize(self, request: Message) -> Answer:
        process = self.container(request["ContainerId"]).process(request["ProcessId"])
        process.resize(request["Height"], request["Width"])
        return Answer()

    # properties and settings

    def properties(self, request: Message) -> Answer:
        query: Message = {"PropertyTypes": []}
        if request["Query"]:
            query = messages.decode(request["Query"], messages.QUERY, "The query could not be unmarshaled:")
        if request["ContainerId"] == VM:
            raise GuestError("getPropertiesV2 is not supported against the UVM")
        container = self.container(request["ContainerId"])
        found: Message = {}
        for name in query["PropertyTypes"]:
            if name == "ProcessList":
                found["ProcessList"] = [{"ProcessId": pid} for pid in container.runtime.processes()]
            elif name == "Statistics":
                found["LCOWMetrics"] = container.metrics()
            else:
                log.warning("unknown or empty property type", propertyType=name)
        return Answer({"Properties": json.dumps(found, separators=(",", ":"))})

    def modify(self, request: Message) -> Answer:
        self.modifications.change(request["ContainerId"], request["Request"], request["Text"])
        return Answer()

    def dump_stacks(self, request: Message) -> Answer:
        frames_by_thread = sys._current_frames()
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        stacks = [
            f"thread {identifier} [{names.get(identifier, 'unknown')}]:\n" + "".join(traceback.format_stack(frame))
            for identifier, frame in frames_by_thread.items()
        ]
        return Answer({"GuestStacks": "\n".join(stacks)})
