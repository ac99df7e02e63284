"""The state machine of compute systems, shared by containers and utility VMs.

    Created --start--> Running --pause--> Paused --resume--> Running
    Created, Running, Paused --terminate--> Stopped       Running --shut down--> Stopped       Paused --save--> Stopped

Every stop runs `_finish` once: processes report their exits, then the exit event goes to every handle, then the id can
be used again. Handles opened before stay valid and answer "already stopped". Subclasses implement start, kill and
shutdown.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

from hcs_emulator.service import events
from hcs_emulator.service.compute_system.process import Process
from hcs_emulator.service.errors import (
    ERROR_NOT_FOUND,
    ERROR_NOT_SUPPORTED,
    HCS_E_INVALID_STATE,
    HCS_E_SYSTEM_ALREADY_STOPPED,
    HCS_E_TERMINATED_DURING_START,
    HCS_E_UNEXPECTED_EXIT,
    HcsError,
    signed,
)
from hcs_emulator.service.handles import Handle

if TYPE_CHECKING:
    from hcs_emulator.service.host import Host
    from hcs_emulator.service.silo.namespaces import SiloProcess

CREATED, STARTING, RUNNING, PAUSED, STOPPED = "Created", "Starting", "Running", "Paused", "Stopped"

GRACEFUL, FORCED, UNEXPECTED = "GracefulExit", "ForcedExit", "UnexpectedExit"

# Processes of a killed silo exit at once; this bounds the wait for their reports.
EXIT_REPORT_TIMEOUT = 5.0


class ComputeSystem:
    """Base of Container and VirtualMachine. `document` is the create document, kept up to date by modify requests."""

    system_type = ""

    def __init__(self, host: Host, identifier: str, document: dict[str, Any]) -> None:
        self.host = host
        self.id = identifier
        self.document = document
        self.owner = document.get("Owner", "")
        self.terminates_on_last_handle = document.get("ShouldTerminateOnLastHandleClosed", False)
        self.runtime_id = str(uuid.uuid4())
        self.state = CREATED
        self.exit_type: str | None = None
        self.processes: dict[int, Process] = {}
        self.events = host.events
        self._handles: dict[int, Handle] = {}
        self._stopping = ""
        self._starting = asyncio.Lock()
        self._exited = asyncio.Event()
        self._finishing = False

    # handles

    def add_handle(self, handle: Handle) -> None:
        self._handles[handle.number] = handle

    def handle_closed(self, handle: Handle) -> None:
        self._handles.pop(handle.number, None)
        if (
            not self._handles
            and self.terminates_on_last_handle
            and self.exit_type is None
            and self._stopping != "terminate"
        ):
            self.host.background(self.terminate())

    def listen(self, handle: Handle) -> None:
        handle.listening = True
        if self.exit_type is not None:
            self.events.send((handle,), events.SYSTEM_EXITED, self.exit_status())

    # lifecycle

    async def start(self) -> None:
        self.require_alive()
        if self.state != CREATED:
            raise self.wrong_state("start")
        self.state = STARTING
        try:
            async with self._starting:
                await self._launch()
        except BaseException:
            if self.state == STARTING:
                self.state = CREATED
            raise
        if self._stopping:
            raise HcsError(HCS_E_TERMINATED_DURING_START, f"{self.id} was terminated while it started", data=self.id)
        if self.state == STARTING:
            self.state = RUNNING

    async def shutdown(self) -> None:
        self.require_alive()
        if self._stopping:
            raise self._already_stopped()
        if self.state not in self._can_shut_down:
            raise self.wrong_state("shut down")
        self._stopping = "shutdown"
        await self._shut_down()
        if not self._finishing:
            await self._kill()
            # A terminate that came meanwhile determines the exit type.
            await self._finish(FORCED if self._stopping == "terminate" else GRACEFUL)

    async def terminate(self) -> None:
        self.require_alive()
        if self._stopping == "terminate":
            raise self._already_stopped()
        self._stopping = "terminate"
        async with self._starting:
            await self._kill()
        await self._finish(FORCED)

    async def pause(self) -> None:
        raise HcsError(ERROR_NOT_SUPPORTED, f"a {self.system_type} cannot be paused", data=self.id)

    async def resume(self) -> None:
        raise HcsError(ERROR_NOT_SUPPORTED, f"a {self.system_type} cannot be resumed", data=self.id)

    async def save(self, options: dict[str, Any] | None) -> None:
        raise HcsError(ERROR_NOT_SUPPORTED, f"a {self.system_type} cannot be saved", data=self.id)

    async def crash(self) -> None:
        raise HcsError(ERROR_NOT_SUPPORTED, f"a {self.system_type} cannot be crashed", data=self.id)

    def crash_worker(self) -> None:
        """Kill the VM worker, as a crash of the VM would. Other compute systems have none."""

    async def change_faults(self, faults: list[dict[str, Any]]) -> None:
        """The faults of the guest of a VM have changed. Other compute systems have no guest."""

    async def wait(self, timeout: float | None) -> bool:
        """True when the system has exited within the timeout."""
        try:
            await asyncio.wait_for(self._exited.wait(), timeout)
        except TimeoutError:
            return False
        return True

    # processes

    async def create_process(self, parameters: dict[str, Any]) -> Process:
        self.require_running("create a process")
        process = Process(self, await self._spawn(parameters))
        if process.exit_code is None:
            self.processes[process.pid] = process
        return process

    def find_process(self, pid: int) -> Process:
        self.require_alive()
        process = self.processes.get(pid)
        if process is None:
            raise HcsError(ERROR_NOT_FOUND, f"{self.id} has no process {pid}", data=str(pid))
        return process

    # properties

    def basic_properties(self) -> dict[str, Any]:
        properties: dict[str, Any] = {
            "Id": self.id,
            "Name": self.id,
            "SystemType": self.system_type,
            "RuntimeOsType": "Windows",
            "Owner": self.owner,
            "RuntimeId": self.runtime_id,
            "State": CREATED if self.state == STARTING else self.state,
        }
        if self.exit_type is not None:
            properties["Stopped"] = True
            properties["ExitType"] = self.exit_type
        return properties

    def details(self) -> dict[str, Any]:
        """What `runhcs emulator status` shows besides the properties."""
        return {}

    def process_exited(self) -> None:
        """Called when a process of the system has exited."""

    def exit_status(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "Status": signed(HCS_E_UNEXPECTED_EXIT | 0x40000000) if self.exit_type == UNEXPECTED else 0
        }
        if self.host.build >= 18362:
            status["ExitType"] = self.exit_type
        if self.host.build >= 20348:
            detail, initiator = self._attribution
            status["Attribution"] = [{"SystemExit": {"Detail": detail, "Initiator": initiator}}]
        return status

    @property
    def _attribution(self) -> tuple[str, str]:
        return {
            GRACEFUL: ("Shutdown", "GuestOS"),
            FORCED: ("ForcedExit", "Management"),
        }.get(self.exit_type or "", ("Unexpected", "Internal"))

    def require_alive(self) -> None:
        if self.exit_type is not None:
            raise self._already_stopped()

    def require_running(self, doing: str) -> None:
        self.require_alive()
        if self.state != RUNNING:
            raise self.wrong_state(doing)

    def wrong_state(self, doing: str) -> HcsError:
        return HcsError(HCS_E_INVALID_STATE, f"cannot {doing}: {self.id} is {self.state}", data=self.state)

    def _already_stopped(self) -> HcsError:
        return HcsError(HCS_E_SYSTEM_ALREADY_STOPPED, f"{self.id} is stopped or stopping", data=self.id)

    # exit

    async def exited_unexpectedly(self) -> None:
        """The silo or the worker has exited. Unless a stop was requested, it is an unexpected exit."""
        if not self._stopping:
            self._stopping = "terminate"
            await self._kill()
            await self._finish(UNEXPECTED)

    async def _finish(self, exit_type: str) -> None:
        if self._finishing:
            await self._exited.wait()
            return
        self._finishing = True
        reports = [asyncio.ensure_future(process.done.wait()) for process in list(self.processes.values())]
        if reports:
            _, late = await asyncio.wait(reports, timeout=EXIT_REPORT_TIMEOUT)
            for report in late:
                report.cancel()
        self.exit_type = exit_type
        self.state = STOPPED
        self._release()
        self.host.forget(self)
        self.events.send(self._handles.values(), events.SYSTEM_EXITED, self.exit_status())
        self._exited.set()

    # for subclasses

    _can_shut_down: tuple[str, ...] = (RUNNING,)

    async def _launch(self) -> None:
        """Start the silo or the worker."""

    async def _kill(self) -> None:
        """Kill every process of the system; must be harmless when there is none."""

    async def _shut_down(self) -> None:
        """Request the processes of the system to exit, and wait for them with a timeout."""

    def _release(self) -> None:
        """Release the resources of the host that the system holds."""

    async def _spawn(self, parameters: dict[str, Any]) -> SiloProcess:
        raise HcsError(ERROR_NOT_SUPPORTED, f"a {self.system_type} starts no processes itself", data=self.id)

    async def modify(self, request: Any) -> None:
        raise HcsError(ERROR_NOT_SUPPORTED, f"a {self.system_type} cannot be modified", data=self.id)

    def properties(self, types: list[str]) -> dict[str, Any]:
        return self.basic_properties()
