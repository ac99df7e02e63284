"""A compute system: a container, or a utility VM.

Every method blocks until HCS has answered and may be called from any thread. Documents are dicts. A system outlives
the handle and the process that made it, unless its document says `ShouldTerminateOnLastHandleClosed`; its end is the
exit event, not the answer to `terminate`.
"""

from __future__ import annotations

from shim.hcs_bindings import errors, events, operation
from shim.hcs_bindings._hcs_cffi import ffi
from shim.hcs_bindings.handle import Handle, NativeHandle
from shim.hcs_bindings.library import computecore
from shim.hcs_bindings.process import Process
from shim.hcs_bindings.strings import NULL, dump, dump_optional, load, load_object, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.hcs_bindings.events import Exit

    Document = dict[str, Any]

# How long create, start, pause, resume and save may take. Others take as long as the caller lets them.
DEFAULT_TIMEOUT = 240.0


class ComputeSystem(Handle):
    __slots__ = ("id",)

    def __init__(self, id: str, native: NativeHandle, subscription: events.Subscription) -> None:
        super().__init__(native, subscription)
        self.id = id

    def _name(self, verb: str) -> str:
        return f"hcs::System::{verb} {self.id}"

    @classmethod
    def create(cls, id: str, document: Document, timeout: float | None = DEFAULT_TIMEOUT) -> ComputeSystem:
        """Make a system in state Created.

        If it comes too late, or cannot be listened to, it is terminated again. A create that HCS refused made
        nothing, and must not terminate anything: the refusal may be that a system of this id exists.
        """
        name = f"hcs::CreateComputeSystem {id}"
        wide_id, configuration = text(id, name), dump(document)
        place = ffi.new("HCS_SYSTEM *")
        created: str | None = None
        try:
            created = operation.run(
                name, lambda op: computecore.HcsCreateComputeSystem(wide_id, configuration, op, NULL, place), timeout
            )
            return cls._listen(id, place[0], name)
        except BaseException as error:
            if place[0] != NULL:
                refused = created is None and isinstance(error, errors.HcsError) and not errors.is_timeout(error)
                if not refused:
                    _terminate(place[0], name)
                computecore.HcsCloseComputeSystem(place[0])
            raise

    @classmethod
    def open(cls, id: str) -> ComputeSystem:
        """A handle of a system that exists, whoever made it."""
        name = f"hcs::System::Open {id}"
        place = ffi.new("HCS_SYSTEM *")
        code = computecore.HcsOpenComputeSystem(text(id, name), operation.GENERIC_ALL, place)
        if code < 0:
            raise errors.HcsError(code, name)
        try:
            return cls._listen(id, place[0], name)
        except BaseException:
            computecore.HcsCloseComputeSystem(place[0])
            raise

    @classmethod
    def _listen(cls, id: str, raw: Any, name: str) -> ComputeSystem:
        """Register for events before anything can happen. On failure `raw` is still the caller's to close."""
        subscription = events.Subscription(f"hcs::System {id}", events.SYSTEM_EXITED, _decode_exit)
        context = events.register(subscription)
        code = computecore.HcsSetComputeSystemCallback(raw, 0, context, events.native_callback)
        if code < 0:
            subscription.release()
            raise errors.HcsError(code, name, detail="HcsSetComputeSystemCallback failed")
        return cls(id, NativeHandle(raw, computecore.HcsCloseComputeSystem, subscription), subscription)

    @staticmethod
    def enumerate(query: Document | None = None, timeout: float | None = None) -> list[Document]:
        """The basic properties of all systems, or of those the query (`Ids`, `Names`, `Types`, `Owners`) asks for."""
        name = "hcs::EnumerateComputeSystems"
        wanted = dump_optional(query)
        document = operation.run(name, lambda op: computecore.HcsEnumerateComputeSystems(wanted, op), timeout)
        found = load(document, name)
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []

    def start(self, options: Document | None = None, timeout: float | None = DEFAULT_TIMEOUT) -> None:
        wanted = dump_optional(options)
        self._run("Start", lambda raw, op: computecore.HcsStartComputeSystem(raw, op, wanted), timeout)

    def shutdown(self, options: Document | None = None) -> bool:
        """Ask the guest to stop; `on_exit` tells when it has. False: HCS said at once that nothing is left to stop."""
        wanted = dump_optional(options)
        return self._stop("Shutdown", lambda raw, op: computecore.HcsShutDownComputeSystem(raw, op, wanted))

    def terminate(self, options: Document | None = None) -> bool:
        """Stop it by force; `on_exit` tells when it has. False: HCS said at once that nothing is left to stop."""
        wanted = dump_optional(options)
        return self._stop("Terminate", lambda raw, op: computecore.HcsTerminateComputeSystem(raw, op, wanted))

    def _stop(self, verb: str, call: Any) -> bool:
        name = self._name(verb)
        raw = self._native.acquire(name)
        try:
            operation.submit(name, lambda op: call(raw, op))
        except errors.HcsError as error:
            if errors.is_stopped_or_stopping(error):
                return errors.is_pending(error)
            raise
        finally:
            self._native.release()
        return True

    def pause(self, options: Document | None = None, timeout: float | None = DEFAULT_TIMEOUT) -> None:
        wanted = dump_optional(options)
        self._run("Pause", lambda raw, op: computecore.HcsPauseComputeSystem(raw, op, wanted), timeout)

    def resume(self, options: Document | None = None, timeout: float | None = DEFAULT_TIMEOUT) -> None:
        wanted = dump_optional(options)
        self._run("Resume", lambda raw, op: computecore.HcsResumeComputeSystem(raw, op, wanted), timeout)

    def save(self, options: Document | None = None, timeout: float | None = DEFAULT_TIMEOUT) -> None:
        """Save a paused system's state; it is stopped then."""
        wanted = dump_optional(options)
        self._run("Save", lambda raw, op: computecore.HcsSaveComputeSystem(raw, op, wanted), timeout)

    def modify(self, request: Document, timeout: float | None = None) -> None:
        """One ModifySettingRequest: `ResourcePath`, `RequestType`, `Settings`."""
        wanted = dump(request)
        self._run("Modify", lambda raw, op: computecore.HcsModifyComputeSystem(raw, op, wanted, NULL), timeout)

    def properties(self, *types: str, timeout: float | None = None) -> Document:
        """Its basic properties, and those of the named types (`Statistics`, `ProcessList`, `Memory` …).

        Members may be absent: zero.
        """
        query = dump({"PropertyTypes": list(types)}) if types else NULL
        document = self._run(
            "Properties", lambda raw, op: computecore.HcsGetComputeSystemProperties(raw, op, query), timeout
        )
        return load_object(document, self._name("Properties"))

    def create_process(self, parameters: Document, timeout: float | None = None) -> Process:
        name = self._name("CreateProcess")
        raw = self._native.acquire(name)
        try:
            return Process.create(raw, self.id, parameters, name, timeout)
        finally:
            self._native.release()

    def open_process(self, pid: int) -> Process:
        name = self._name(f"OpenProcess:{pid}")
        raw = self._native.acquire(name)
        try:
            return Process.open(raw, self.id, pid, name)
        finally:
            self._native.release()


def _terminate(raw: Any, name: str) -> None:
    """Undo a create. It has failed already, so this may fail in silence."""
    try:
        operation.submit(name, lambda op: computecore.HcsTerminateComputeSystem(raw, op, NULL))
    except errors.HcsError:
        pass


def _decode_exit(data: str, name: str) -> Exit:
    """SystemExitStatus.

    Old builds leave `ExitType` and `Attribution` out; a broken document is an exit all the same.
    """
    try:
        status = load_object(data, name) if data else {}
    except errors.HcsError:
        status = {}
    exit_type = str(status.get("ExitType") or "")
    attribution = status.get("Attribution")
    error = None
    if exit_type == "UnexpectedExit":
        error = errors.HcsError(errors.UNEXPECTED_EXIT, name)
    code = status.get("Status")
    return events.Exit(
        (code if isinstance(code, int) else 0) & 0xFFFFFFFF,
        exit_type,
        attribution if isinstance(attribution, list) else None,
        error,
    )
