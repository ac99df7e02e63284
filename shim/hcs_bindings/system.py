"""A compute system: a container, or a utility VM.

Every method blocks until HCS has responded and may be called from any thread. Documents are dicts. A system outlives
the handle and the process that created it, unless its document sets `ShouldTerminateOnLastHandleClosed`; the exit event
reports its end, not the result of `terminate`.
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

# Of create, start, pause, resume and save. The default of the others is no timeout.
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
        """Create a system, which is then in state Created.

        If the call times out, or the callback cannot be registered, the system is terminated again. A create that HCS
        rejected has created nothing and must not terminate anything: a system of this id may exist already.
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
                rejected = created is None and isinstance(error, errors.HcsError) and not errors.is_timeout(error)
                if not rejected:
                    _terminate(place[0], name)
                computecore.HcsCloseComputeSystem(place[0])
            raise

    @classmethod
    def open(cls, id: str) -> ComputeSystem:
        """A handle of an existing system."""
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
        """Register for events before anything can happen. On failure the caller must close `raw`."""
        subscription = events.Subscription(f"hcs::System {id}", events.SYSTEM_EXITED, _decode_exit)
        context = events.register(subscription)
        code = computecore.HcsSetComputeSystemCallback(raw, 0, context, events.native_callback)
        if code < 0:
            subscription.release()
            raise errors.HcsError(code, name, detail="HcsSetComputeSystemCallback failed")
        return cls(id, NativeHandle(raw, computecore.HcsCloseComputeSystem, subscription), subscription)

    @staticmethod
    def enumerate(query: Document | None = None, timeout: float | None = None) -> list[Document]:
        """The basic properties of all systems, or of those that a query (`Ids`, `Names`, `Types`, `Owners`) selects."""
        name = "hcs::EnumerateComputeSystems"
        document = dump_optional(query)
        result = operation.run(name, lambda op: computecore.HcsEnumerateComputeSystems(document, op), timeout)
        found = load(result, name)
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []

    def start(self, options: Document | None = None, timeout: float | None = DEFAULT_TIMEOUT) -> None:
        document = dump_optional(options)
        self._run("Start", lambda raw, op: computecore.HcsStartComputeSystem(raw, op, document), timeout)

    def shutdown(self, options: Document | None = None) -> bool:
        """Request a shutdown of the guest; `on_exit` reports its end. False: the system was stopped already."""
        document = dump_optional(options)
        return self._stop("Shutdown", lambda raw, op: computecore.HcsShutDownComputeSystem(raw, op, document))

    def terminate(self, options: Document | None = None) -> bool:
        """Terminate it; `on_exit` reports its end. False: the system was stopped already."""
        document = dump_optional(options)
        return self._stop("Terminate", lambda raw, op: computecore.HcsTerminateComputeSystem(raw, op, document))

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
        document = dump_optional(options)
        self._run("Pause", lambda raw, op: computecore.HcsPauseComputeSystem(raw, op, document), timeout)

    def resume(self, options: Document | None = None, timeout: float | None = DEFAULT_TIMEOUT) -> None:
        document = dump_optional(options)
        self._run("Resume", lambda raw, op: computecore.HcsResumeComputeSystem(raw, op, document), timeout)

    def crash(self, options: Document | None = None, timeout: float | None = DEFAULT_TIMEOUT) -> None:
        """Crash the guest system of a VM, which writes its dumps."""
        document = dump_optional(options)
        self._run("Crash", lambda raw, op: computecore.HcsCrashComputeSystem(raw, op, document), timeout)

    def save(self, options: Document | None = None, timeout: float | None = DEFAULT_TIMEOUT) -> None:
        """Save the state of a paused system, which is stopped then."""
        document = dump_optional(options)
        self._run("Save", lambda raw, op: computecore.HcsSaveComputeSystem(raw, op, document), timeout)

    def modify(self, request: Document, timeout: float | None = None) -> None:
        """One ModifySettingRequest: `ResourcePath`, `RequestType`, `Settings`."""
        document = dump(request)
        self._run("Modify", lambda raw, op: computecore.HcsModifyComputeSystem(raw, op, document, NULL), timeout)

    def properties(self, *types: str, timeout: float | None = None) -> Document:
        """Its basic properties, and those of the named types (`Statistics`, `ProcessList`, `Memory` …).

        HCS omits members that are zero.
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
    """Undo a failed create. Its own errors are ignored."""
    try:
        operation.submit(name, lambda op: computecore.HcsTerminateComputeSystem(raw, op, NULL))
    except errors.HcsError:
        pass


def _decode_exit(data: str, name: str) -> Exit:
    """SystemExitStatus.

    Old builds omit `ExitType` and `Attribution`; a broken document still counts as an exit.
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
