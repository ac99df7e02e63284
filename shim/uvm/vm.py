"""The lifecycle of one utility VM: created, booted, watched, terminated.

One deadline covers the whole boot. Listeners exist before the VM starts, since the guest connects as soon as it can.
After that, three events stop the VM: `close`, the exit of the VM itself (as HCS reports it), or the loss of the GCS
connection, after which the VM is of no use and is closed. Whichever comes first, everything in the VM is notified at
once: calls that wait fail, processes and containers have exited.

What a VM acquires of the host is released by HCS when the VM exits. The ledger has one entry, the VM, written before
the VM exists. What depends on the guest's operating system is in `guest` (`shim.uvm.guest`).
"""

from __future__ import annotations

import os
import time
from threading import Lock

from shim.container.base import ExitCallbacks, run_all
from shim.container.container import create_system
from shim.hcs_bindings import errors, storage
from shim.hcs_bindings.errors import HcsError
from shim.oci.errors import InvalidSpec
from shim.platform import host, hvsocket
from shim.threads import run_soon
from shim.uvm.gcs.connection import GcsConnection
from shim.uvm.gcs.stdio_listeners import StdioListeners
from shim.uvm.network import VmNetwork
from shim.uvm.scsi import ScsiDisks
from shim.uvm.vpci import VpciDevices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.container.ledger import Entry, Ledger
    from shim.hcs_bindings.events import Exit
    from shim.hcs_bindings.system import ComputeSystem
    from shim.logs import Log
    from shim.uvm.guest import Guest, Shares
    from shim.uvm.settings import VmSettings

    Document = dict[str, Any]

# From creation to a guest that is ready for containers.
BOOT_SECONDS = 120.0
BOOT_SECONDS_VARIABLE = "HCSSHIM_TIMEOUT_GCSCONNECTION"
# A VM that has been terminated exits immediately, or HCS is in trouble.
TERMINATE_SECONDS = 30.0
MODIFY_SECONDS = 60.0
# How long a guest may read nothing of what it is sent, once that is more than the connection holds.
SEND_SECONDS = 60.0


class Vm:
    """`shares`, `disks`, `devices` and `network` are what containers add to it; `gcs` is where they run."""

    def __init__(
        self, id: str, runtime_id: str, guest: Guest, system: ComputeSystem, entry: Entry, ledger: Ledger, log: Log
    ) -> None:
        self.id = id
        self.runtime_id = runtime_id
        self.guest = guest
        self.system = system
        #: The network namespace of the VM's pod, which the pod's containers need not name.
        self.namespace = ""
        self._entry = entry
        self._ledger = ledger
        self._log = log.bind(**{"uvm-id": id})
        self._exit = ExitCallbacks()
        self._exit.add(self._close_connections)
        self._closing = False
        self._close_lock = Lock()
        self._closed = False
        self._listener: hvsocket.Listener | None = None
        self._gcs: GcsConnection | None = None
        self.devices = VpciDevices(self.modify)
        self.disks = ScsiDisks(self.modify, self._grant, guest)
        self.network = VmNetwork(self.modify, guest, log.warning)
        self.stdio = StdioListeners(runtime_id)
        guest.attach(self)

    @classmethod
    def boot(cls, id: str, guest: Guest, ledger: Ledger, log: Log) -> Vm:
        """Create a VM and wait until its guest is ready. On failure nothing of it is left but, perhaps, its entry in
        the ledger, which the caller releases."""
        _grant_dump_directory(guest.settings.dump_directory)
        deadline = time.monotonic() + boot_seconds()
        guest.prepare(id)
        entry = ledger.enter("vm", id=id)
        with errors.ErrorContext("error while creating the compute system"):
            system = create_system(id, guest.document(id), ledger, entry)
        try:
            with errors.ErrorContext("error while creating the compute system"):
                runtime_id = str(system.properties().get("RuntimeId") or "").lower()
            vm = cls(id, runtime_id, guest, system, entry, ledger, log)
        except BaseException:
            system.close()
            raise
        try:
            vm._start(deadline)
        except BaseException:
            vm.close()
            raise
        vm._log.info("utility VM started", **{"runtime-id": runtime_id})
        return vm

    def _start(self, deadline: float) -> None:
        self.guest.listen()
        self._listener = hvsocket.listen(self.runtime_id, self.guest.gcs_service_id)
        self.system.on_exit(self._exited)
        self.system.start(timeout=_left(deadline))
        self.guest.connect(deadline)
        stream = self.accept(self._listener, deadline)
        stream.set_send_timeout(SEND_SECONDS)
        self._gcs = GcsConnection(stream, self._gcs_closed)
        self._gcs.negotiate(self.guest.os_type, _left(deadline))
        self.guest.initialize(_left(deadline))

    def accept(self, listener: hvsocket.Listener, deadline: float) -> hvsocket.Stream:
        """A connection that the guest makes while it boots. HcsError if the deadline passes or the VM exits."""
        try:
            return listener.accept(_left(deadline))
        except TimeoutError:
            detail = f"its guest did not connect within {boot_seconds():.0f} s of being created"
        except OSError as error:
            detail = "it exited while it was booting" if self._exit.fired else f"its guest cannot connect: {error}"
        code = errors.UNEXPECTED_EXIT if self._exit.fired else errors.OPERATION_TIMEOUT
        raise HcsError(code, f"boot {self.id}", detail=detail)

    def _grant(self, path: str) -> None:
        storage.grant_vm_access(self.id, path)

    # While it runs.

    @property
    def gcs(self) -> GcsConnection:
        assert self._gcs is not None, "the guest of a VM that has not booted"
        return self._gcs

    @property
    def settings(self) -> VmSettings:
        return self.guest.settings

    @property
    def shares(self) -> Shares:
        return self.guest.shares

    @property
    def has_exited(self) -> bool:
        """It has exited or is being closed: nothing in it can be reached any more."""
        return self._exit.fired or self._closing

    def on_exit(self, callback: Callable[[], object]) -> None:
        """Call back once when the VM has exited, from any thread. The callback must not block."""
        self._exit.add(callback)

    def properties(self, *types: str, timeout: float | None = None) -> Document:
        return self.system.properties(*types, timeout=timeout)

    def modify(self, request: Document, timeout: float | None = MODIFY_SECONDS) -> None:
        self.system.modify(request, timeout)

    # Exit and close.

    def _exited(self, exit: Exit) -> None:
        """From a thread of the bindings."""
        if not self._closing:
            from shim.platform import admin_events

            self._log.error("utility VM exited unexpectedly", error=exit.error, **{"exit-type": exit.type})
            reason = f"{exit.type} {exit.error or ''}".strip()
            admin_events.report(admin_events.VM_LOST, f"utility VM {self.id} exited unexpectedly: {reason}")
        self._exit.fire()

    def _gcs_closed(self, reason: str) -> None:
        """From any thread. Without GCS the VM is of no use and only holds memory."""
        try:
            self.stdio.close()
        finally:
            if not self.has_exited:
                self._log.error("GCS connection lost, terminating utility VM", reason=reason)
                self.close_soon()

    def _close_connections(self) -> None:
        """The first callback of the exit: whatever waits for the guest fails now."""
        run_all([self.guest.interrupt, self._close_bridge])

    def _close_bridge(self) -> None:
        run_all([part.close for part in (self._listener, self._gcs) if part is not None])

    def warn(self, message: str) -> None:
        self._log.warning(message)

    def terminate_unresponsive(self, reason: str) -> None:
        """Its guest hangs: close it, and everything in it."""
        if not self.has_exited:
            self._log.error("terminating utility VM: guest not responding", reason=reason)
            self.close()

    def close_soon(self) -> None:
        """Close it in a thread of its own."""
        run_soon(self.close)

    def close(self) -> None:
        """Terminate the VM and everything in it, once. A concurrent caller waits for the first. Never raises."""
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
            self._closing = True
            exited = self._terminate()
            # The bridge is closed here too: the thread that reports the exit may not have closed it yet.
            steps = (self._exit.fire, self._close_bridge, self.stdio.close, self.guest.close, self.system.close)
            for step in steps:
                try:
                    step()
                except Exception as error:
                    self._log.error("failed to release a part of the utility VM", error=error)
            if exited:
                self._ledger.mark_released(self._entry)
                self._log.info("utility VM stopped")

    def _terminate(self) -> bool:
        try:
            if self.system.terminate():
                self.system.wait_exit(TERMINATE_SECONDS)
            return True
        except Exception as error:
            if errors.vm_not_available(error):
                return True
            self._log.error("failed to terminate utility VM", error=error)
            return False


def boot_seconds() -> float:
    given = os.environ.get(BOOT_SECONDS_VARIABLE, "")
    return float(given) if given.isascii() and given.isdecimal() and len(given) < 10 and int(given) else BOOT_SECONDS


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def _grant_dump_directory(path: str) -> None:
    """All VMs get full access: the worker process of a VM that crashed creates the dumps."""
    if not path:
        return
    if not host.is_directory(path):
        raise InvalidSpec(
            f"error in preparing config doc: failed to stat dump directory {path}: it is no directory; create it"
        )
    try:
        host.grant_vm_group(path)
    except OSError as error:
        raise InvalidSpec(f"error in preparing config doc: failed to add SDL to dump directory: {error}") from error
