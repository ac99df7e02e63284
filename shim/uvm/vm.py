"""One utility VM: made, booted, watched, ended.

Booting has one deadline for all of it. Listeners are there before the VM starts, since the guest dials as soon as it
can. From then on three things may end it: `close`, the VM itself (its exit is seen as HCS reports it), or the loss of
the link to its guest, after which it is of no use and is closed. Whichever comes first, everything inside is told at
once: calls that wait fail, processes and containers have exited.

What a VM acquires of the host ends with it. The ledger has one entry, the VM, entered before it exists.
"""

from __future__ import annotations

import os
import time
from threading import Lock, Thread

from shim.container.base import ExitCallbacks
from shim.container.container import create_system
from shim.hcs_bindings import errors, service, storage
from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.windows_version import windows_build
from shim.oci.errors import InvalidSpec
from shim.platform import host, hvsocket, time_zone
from shim.uvm.devices import Devices
from shim.uvm.gcs.log_forwarding import GuestLog
from shim.uvm.gcs.stdio_listeners import Streams
from shim.uvm.named_pipes import Pipes
from shim.uvm.network import VmNetwork
from shim.uvm.scsi import Disks
from shim.uvm.settings import VmSettings
from shim.uvm.vsmb import Shares
from shim.uvm.windows import document
from shim.uvm.windows.guest import LOG_SERVICE_ID, SERVICE_ID, WindowsGuest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.container.ledger import Entry, Ledger
    from shim.hcs_bindings.events import Exit
    from shim.hcs_bindings.system import ComputeSystem
    from shim.logs import Log
    from shim.oci.spec import Spec
    from shim.uvm.windows.boot_files import BootFiles

    Document = dict[str, Any]

# From the start to a guest that is ready for containers.
BOOT_SECONDS = 120.0
BOOT_SECONDS_VARIABLE = "HCSSHIM_TIMEOUT_GCSCONNECTION"
# A VM that has been terminated is gone in no time, or HCS is in trouble.
TERMINATE_SECONDS = 30.0
# A change of the VM takes a moment.
MODIFY_SECONDS = 60.0
# How long a guest may read nothing of what it is sent, once that is more than the connection holds.
SEND_SECONDS = 60.0
# Before it HCS cannot open a directory to all VMs.
FIRST_BUILD_WITH_VM_GROUP = 19041
LOGS_FORWARDED = "LogForwardingSupported"


class Vm:
    """`shares`, `disks` and `network` are what containers add to it; `guest` is where they live."""

    def __init__(
        self,
        id: str,
        runtime_id: str,
        settings: VmSettings,
        system: ComputeSystem,
        entry: Entry,
        ledger: Ledger,
        log: Log,
    ) -> None:
        self.id = id
        self.settings = settings
        self.system = system
        self.runtime_id = runtime_id
        #: The namespace that belongs to the VM's pod, which containers of the pod may leave unsaid.
        self.namespace = ""
        #: The build of its Windows, 0 when that is not known.
        self.guest_build = 0
        self._entry = entry
        self._ledger = ledger
        self._log = log
        self._exit = ExitCallbacks()
        self._exit.add(self._close_connections)
        self._closing = False
        self._close_lock = Lock()
        self._closed = False
        self._listener: hvsocket.Listener | None = None
        self._guest_log: GuestLog | None = None
        self._guest: WindowsGuest | None = None
        self.shares = Shares(self.modify, no_direct_map=settings.no_direct_map, read_only=settings.shares_read_only)
        self.pipes = Pipes(self.modify)
        self.devices = Devices(self.modify)
        self.streams = Streams(runtime_id)
        self.disks: Disks
        self.network: VmNetwork

    @classmethod
    def boot(cls, id: str, spec: Spec, boot_files: BootFiles, ledger: Ledger, log: Log) -> Vm:
        """Make a VM as the spec wants it and wait until its guest is ready. On failure nothing of it is left but,
        perhaps, its entry in the ledger, from which the caller frees."""
        settings = VmSettings(spec, processors(), windows_build(), log.warning)
        _open_dump_directory(settings.dump_directory, id)
        deadline = time.monotonic() + boot_seconds()
        boot_files.prepare()
        with errors.ErrorContext("error in preparing config doc: failed to grant vm access to scratch"):
            storage.grant_vm_access(id, boot_files.scratch)
        entry = ledger.enter("vm", id=id)
        with errors.ErrorContext("error while creating the compute system"):
            system = create_system(id, document.build(id, settings, boot_files), ledger, entry)
        try:
            with errors.ErrorContext("error while creating the compute system"):
                runtime_id = str(system.properties().get("RuntimeId") or "").lower()
            vm = cls(id, runtime_id, settings, system, entry, ledger, log)
        except BaseException:
            system.close()
            raise
        try:
            vm._start(deadline)
        except BaseException:
            vm.close()
            raise
        return vm

    def _start(self, deadline: float) -> None:
        if self.settings.forward_logs:
            self._guest_log = GuestLog(hvsocket.listen(self.runtime_id, LOG_SERVICE_ID), self._log, self.id)
        self._listener = hvsocket.listen(self.runtime_id, SERVICE_ID)
        self.system.on_exit(self._exited)
        self.system.start(timeout=_left(deadline))
        self._guest = WindowsGuest(self._accept(deadline), self._link_lost)
        self.disks = Disks(self.modify, self._grant, self.guest)
        self.network = VmNetwork(self.modify, self.guest, self._log.warning)
        self.guest.negotiate(_left(deadline))
        zone = time_zone.utc() if self.settings.utc else time_zone.host()
        self.guest.begin(self.runtime_id, zone, _left(deadline))
        if self.settings.forward_logs and self.guest.can(LOGS_FORWARDED):
            try:
                self.guest.forward_logs(self.settings.log_sources)
            except HcsError as error:
                if self._exit.fired:
                    raise
                self._log.warning("the guest's log is not forwarded", vm=self.id, error=error)

    def _accept(self, deadline: float) -> hvsocket.Stream:
        assert self._listener is not None
        try:
            stream = self._listener.accept(_left(deadline))
            stream.set_send_timeout(SEND_SECONDS)
            return stream
        except TimeoutError:
            detail = f"its guest did not connect within {boot_seconds():.0f} s of being made"
        except OSError as error:
            detail = "it ended while it was booting" if self._exit.fired else f"its guest cannot connect: {error}"
        code = errors.UNEXPECTED_EXIT if self._exit.fired else errors.OPERATION_TIMEOUT
        raise HcsError(code, f"boot {self.id}", detail=detail)

    def _grant(self, path: str) -> None:
        storage.grant_vm_access(self.id, path)

    # While it lives.

    @property
    def guest(self) -> WindowsGuest:
        assert self._guest is not None, "the guest of a VM that has not booted"
        return self._guest

    @property
    def is_gone(self) -> bool:
        """Nothing in it can be reached any more."""
        return self._exit.fired or self._closing

    def on_exit(self, callback: Callable[[], object]) -> None:
        """Call back once when the VM has ended, from any thread; shortly, please."""
        self._exit.add(callback)

    def properties(self, *types: str, timeout: float | None = None) -> Document:
        return self.system.properties(*types, timeout=timeout)

    def modify(self, request: Document, timeout: float | None = MODIFY_SECONDS) -> None:
        self.system.modify(request, timeout)

    # The end.

    def _exited(self, exit: Exit) -> None:
        """From a thread of the bindings."""
        if not self._closing:
            self._log.error("the VM has ended by itself", vm=self.id, exit_type=exit.type, error=exit.error)
        self._exit.fire()

    def _link_lost(self, reason: str) -> None:
        """From any thread. Without its guest the VM is of no use; it would only hold memory."""
        self.streams.close()
        if not self.is_gone:
            self._log.error("the link to the guest is lost", vm=self.id, reason=reason)
            self.close_soon()

    def _close_connections(self) -> None:
        """The first thing to do when it has exited: whatever waits for the guest fails now."""
        if self._listener is not None:
            self._listener.close()
        if self._guest is not None:
            self._guest.close()

    def abandon(self, reason: str) -> None:
        """Its guest hangs: close it, and everything in it."""
        if not self.is_gone:
            self._log.error("the VM is given up", vm=self.id, reason=reason)
            self.close()

    def close_soon(self) -> None:
        """Close it without being held up."""
        Thread(target=self.close, name=f"vm-close:{self.id}", daemon=True).start()

    def close(self) -> None:
        """End the VM and everything in it. Once; another caller waits for the first. Never raises."""
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
            self._closing = True
            ended = self._terminate()
            self._exit.fire()
            self.streams.close()
            if self._guest_log is not None:
                self._guest_log.close()
            self.system.close()
            if ended:
                self._ledger.mark_released(self._entry)

    def _terminate(self) -> bool:
        try:
            if self.system.terminate():
                self.system.wait_exit(TERMINATE_SECONDS)
            return True
        except HcsError as error:
            if errors.vm_not_available(error):
                return True
            self._log.error("the VM has not ended", vm=self.id, error=error)
            return False


def processors() -> int:
    """How many HCS can give to a VM; the system this runs in may see fewer."""
    with errors.ErrorContext(
        "error in preparing config doc: failed to get host processor information: failed to retrieve processor and "
        "processor topology information"
    ):
        answer = service.properties("ProcessorTopology")[0]
    count = answer.get("LogicalProcessorCount") if isinstance(answer, dict) else None
    return count if isinstance(count, int) and count > 0 else host.processors()


def boot_seconds() -> float:
    given = os.environ.get(BOOT_SECONDS_VARIABLE, "")
    return float(given) if given.isdigit() and int(given) else BOOT_SECONDS


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def _open_dump_directory(path: str, id: str) -> None:
    """Every VM may write there: dumps of a VM that crashed are written when it is about to be gone. Before there was a
    call for that, only this one may."""
    if not path:
        return
    if not os.path.isdir(path):
        raise InvalidSpec(
            f"error in preparing config doc: failed to stat dump directory {path}: it is no directory; make it"
        )
    if windows_build() < FIRST_BUILD_WITH_VM_GROUP:
        storage.grant_vm_access(id, path)
    else:
        storage.grant_vm_group_access(path)
