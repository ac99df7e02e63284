"""Dispatches calls from the socket to the functions of `exports`. Around every call are the journal, the faults and the
latency profile.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from hcs_emulator.service.compute_system.process import Process
from hcs_emulator.service.compute_system.system import ComputeSystem
from hcs_emulator.service.errors import E_NOTIMPL, ERROR_PROC_NOT_FOUND, HCS_E_SERVICE_DISCONNECT, S_OK, HcsError
from hcs_emulator.service.events import NAMES
from hcs_emulator.service.exports import (  # noqa: F401 - importing them registers the exports
    network,
    processes,
    service,
    storage,
    systems,
)
from hcs_emulator.service.exports.registry import EXPORTS, SINCE, Call
from hcs_emulator.service.faults import Fault, Faults
from hcs_emulator.service.handles import Handle
from hcs_emulator.service.host import Host
from hcs_emulator.service.journal import Journal, readable
from hcs_emulator.service.latency import Profile
from hcs_emulator.service.transport.server import Client
from hcs_emulator.service.transport.wire import CALLS_BY_NAME, Reply, Request


class Dispatcher:
    def __init__(self, host: Host, journal: Journal) -> None:
        self.host = host
        self.journal = journal
        self.faults = Faults()
        host.guest_faults = self.faults.for_guests
        host.on_guest_fault = self.faults.guest_triggered
        self.profile = Profile()
        self.calls = 0
        host.events.observer = self._event_sent
        host.events.note = self._noted
        host.on_guest_report = self._guest_report

    async def call(self, client: Client, request: Request) -> Reply:
        self.calls += 1
        if not self.journal.on:
            return await self._run_export(client, request)
        seq, started, clock = self.journal.begin(), time.time(), time.perf_counter()
        arguments = self._arguments(client, request)
        reply = await self._run_export(client, request)
        outcome = _outcome(reply)
        self.journal.call(
            seq, started, client.pid, request.call, arguments, reply.hresult, outcome, time.perf_counter() - clock
        )
        return reply

    def disconnected(self, client: Client) -> None:
        self.host.handles.close_all(client)

    async def _run_export(self, client: Client, request: Request) -> Reply:
        try:
            if SINCE.get(request.call, 0) > self.host.build:
                raise HcsError(
                    ERROR_PROC_NOT_FOUND, f"build {self.host.build} has no {request.call}", data=request.call
                )
            delay = self.profile.delay(request.call)
            if delay:
                await asyncio.sleep(delay)
            triggered = self.faults.trigger(request.call)
            for fault in triggered:
                await self._inject(fault, client, request)
            function = EXPORTS.get(request.call)
            if function is None:
                raise HcsError(E_NOTIMPL, f"the emulator has no {request.call}", data=request.call)
            try:
                return await function(Call(self.host, client, request))
            finally:
                for fault in triggered:
                    self._kill_client(fault, client)
        except HcsError as failure:
            return Reply(failure.hresult, document=failure.document())

    async def _inject(self, fault: Fault, client: Client, request: Request) -> None:
        definition = fault.definition
        if definition.delay:
            await asyncio.sleep(definition.delay)
        if definition.crash_vm:
            await self._crash(client, request)
        if definition.disconnect:
            client.disconnect()
            raise HcsError(HCS_E_SERVICE_DISCONNECT, f"fault {fault.id}: the connection was dropped", data=request.call)
        if definition.error is not None:
            raise HcsError(definition.error, f"fault {fault.id}: {request.call} was made to fail", data=request.call)

    def _kill_client(self, fault: Fault, client: Client) -> None:
        """After the call was carried out: kill the caller before it gets the answer, or just after."""
        if fault.definition.kill_client == "before":
            client.kill()
        elif fault.definition.kill_client == "after":
            asyncio.get_running_loop().call_soon(client.kill)

    async def _crash(self, client: Client, request: Request) -> None:
        """Crash the VM that the call is about; if the call is about no VM, crash all VMs."""
        try:
            affected = [self.host.handles.find(client, request.handle, ComputeSystem)[1]]
        except HcsError:
            affected = list(self.host.systems.values())
        for system in affected:
            if system.system_type == "VirtualMachine":
                system.crash_worker()

    # the journal

    def _arguments(self, client: Client, request: Request) -> dict[str, Any]:
        definition = CALLS_BY_NAME[request.call]
        arguments: dict[str, Any] = {}
        if definition.handle:
            arguments[definition.handle] = self._name_handle(client, request.handle)
        if definition.number_argument:
            arguments[definition.number_argument] = request.number
        for index, name in enumerate(definition.strings):
            if name.startswith("*"):
                arguments[name[1:]] = request.strings[index:]
            else:
                arguments[name] = readable(request.strings[index]) if index < len(request.strings) else None
        return arguments

    def _name_handle(self, client: Client, number: int) -> Any:
        try:
            return _name(self.host.handles.find(client, number, object)[0], number)
        except HcsError:
            return number

    def _event_sent(self, handle: Handle, event_type: int, document: dict[str, Any] | None) -> None:
        if self.journal.on:
            event = NAMES.get(event_type, f"0x{event_type:08X}")
            self.journal.event(handle.client.pid, str(_name(handle, handle.number)), event, document)

    def _noted(self, target: str, what: str, details: dict[str, Any]) -> None:
        if self.journal.on:
            self.journal.event(0, target, what, details)

    def _guest_report(self, pid: int, report: dict[str, Any]) -> None:
        """A VM's guest has answered a request of the GCS bridge. It is journalled as a call named `guest:` and its
        procedure.
        """
        if self.journal.on:
            outcome = {"error_events": report["errors"], "answer": report["answer"]}
            self.journal.call(
                self.journal.begin(),
                report["started"],
                pid,
                "guest:" + report["procedure"],
                report["arguments"],
                report["result"],
                outcome,
                report["duration"],
            )


def _name(handle: Handle, number: int) -> Any:
    target = handle.target
    if isinstance(target, ComputeSystem):
        return target.id
    if isinstance(target, Process):
        return f"{target.system.id}/{target.pid}"
    return getattr(target, "id", None) or getattr(target, "path", None) or number


def _outcome(reply: Reply) -> dict[str, Any]:
    """What the journal records of a reply besides its code."""
    outcome: dict[str, Any] = {"error_events": []}
    document = readable(reply.document)
    if reply.hresult != S_OK:
        if isinstance(document, dict):
            outcome["error_events"] = document.get("ErrorEvents", [])
    elif document is not None:
        outcome["answer"] = document
    if reply.pid and reply.handle:
        outcome["pid"] = reply.pid
    return outcome


def status(dispatcher: Dispatcher) -> dict[str, Any]:
    """The document that `runhcs emulator status` shows."""
    host = dispatcher.host
    return {
        "pid": os.getpid(),
        "directory": host.directory,
        "build": host.build,
        "quirks": sorted(host.options.quirks),
        "systems": [
            system.basic_properties()
            | {"Processes": sorted(system.processes), "Holders": host.handles.holders(system)}
            | system.details()
            for system in host.systems.values()
        ],
        "handles": host.handles.count(),
        "calls": dispatcher.calls,
        "journal": dispatcher.journal.path,
        "faults": dispatcher.faults.describe(),
        "profile": dispatcher.profile.describe(),
    }
