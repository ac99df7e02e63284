"""Records what this shim does and sends it to `runhcs record`.

A daemon imports this module when it starts while `runhcs record` listens for new shims, or when `runhcs record` asks a
running shim. Otherwise nothing of it is loaded.

The threads of the shim only append to a queue. A thread of the recording removes the secrets, and sends the entries.
The queue is limited: what does not fit is dropped and counted. When `runhcs record` ends, or is lost, the recording
ends and everything is as before.
"""

from __future__ import annotations

import time
from _thread import allocate_lock
from time import perf_counter_ns

from shim import spans
from shim.api.record import AddRequest, AddResponse, HelloRequest, HelloResponse
from shim.api.runhcs_options import Options
from shim.hcs_bindings.windows_version import windows_build
from shim.lean_json import dumps
from shim.platform import endpoint
from shim.recording import hooks, requests
from shim.recording.calls import CallRecorder
from shim.recording.entries import EntryWriter
from shim.recording.job_calls import JobRecorder
from shim.recording.scrub import Scrubber
from shim.threads import run_soon
from shim.ttrpc.client import Client
from shim.ttrpc.status import status_of
from shim.uvm.gcs import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.task.context import ShimContext
    from shim.ttrpc.server import Call, Method, Server

    Entry = dict[str, Any]

SERVICE = "runhcs.record.v1.Recorder"
# On a busy node `runhcs record` may be slow. It delays only shims that start while it runs.
CONNECT_TIMEOUT = 5.0
TIMEOUT = 10.0
INTERVAL = 0.2
MAX_ENTRIES = 50_000
# Of the messages of a guest, which decides how many there are. Parsed, one needs up to 25 times its size.
MAX_GUEST_BYTES = 2 << 20
# Of one message; ttrpc allows 4 MiB.
MAX_CHUNK = 1 << 20
CLOSE_TIMEOUT = 5.0
RECORDED_SERVICES = ("containerd.task.v2.Task", "containerd.task.v3.Task", "containerd.runtime.sandbox.v1.Sandbox")


class RecordingError(Exception):
    """The recording cannot begin; the message has the next step."""


class Recorder:
    def __init__(
        self, address: str, server: Server, context: ShimContext, *, from_start: bool, is_traced: bool
    ) -> None:
        """Connects. Raises RecordingError; `runhcs record` may also refuse (`accepted`). `is_traced` is whether the
        handlers of the server have spans already."""
        self._server = server
        self._context = context
        self._is_traced = is_traced
        #: Whose calls are recorded; "" if the process has no other pods.
        self.pod = "" if context.scope == "pod" else f"{context.namespace}/{context.id}"
        self._lock = allocate_lock()
        self._queue: list[Entry] = []
        self._guest_bytes = 0
        self._dropped = 0
        self._open: dict[int, Entry] = {}
        self._guest_open: dict[int, Entry] = {}
        self._handlers: list[tuple[Method, Callable[..., Any]]] = []
        self._ended = allocate_lock()
        self._ended.acquire()
        self._closing = False
        self._is_attached = False
        self.calls = CallRecorder(self.add)
        self.jobs = JobRecorder(self.add)
        self._offset = time.time_ns() - perf_counter_ns()
        try:
            stream = endpoint.connect_to_own_user(endpoint.path_of(address), CONNECT_TIMEOUT)
            stream.settimeout(None)
            self._client = Client(stream)
            hello = HelloRequest(json=dumps(self._identity(from_start))).encode()
            answer = HelloResponse.decode(self._client.call(SERVICE, "Hello", hello, timeout=CONNECT_TIMEOUT))
        except Exception as error:
            raise RecordingError(f"no `runhcs record` answers on {address}: {error}") from error
        self.accepted = answer.accepted
        self._writer = EntryWriter(Scrubber(command_lines=answer.command_lines), self._offset)
        if not self.accepted:
            self._client.close()

    def _identity(self, from_start: bool) -> Entry:
        from shim.version import VERSION

        context = self._context
        # Only the runtime's options are decoded by a shim; of others nothing is known, and nothing is used.
        options = requests.scrubbed_message(context.options_type, context.options, Scrubber()) or b""
        return {
            "version": VERSION,
            "pid": context.pid,
            "namespace": context.namespace,
            "id": context.id,
            "is_sandbox": context.is_sandbox,
            "sandbox_api": context.sandbox_api,
            "scope": context.scope,
            "debug": context.debug,
            "bundle": context.bundle,
            "options": {"type_url": context.options_type, "hex": options.hex()},
            "build": windows_build(),
            "from_start": from_start,
            "time": time.time_ns(),
        }

    @property
    def start_options(self) -> bytes:
        """The runtime's options that came with `start`."""
        context = self._context
        return context.options if context.options_type.rpartition("/")[2] == Options.FULL_NAME else b""

    # Begin and end.

    def attach(self) -> None:
        """Begin: every hook is set, then the sender runs."""
        self._is_attached = True
        spans.enable(self._span)
        hooks.add(self)
        methods = {id(one): (name, one) for service in RECORDED_SERVICES
                   for name, one in self._server.services.get(service, {}).items()}  # fmt: skip
        for name, method in methods.values():
            self._handlers.append((method, method.handler))
            method.handler = self._recorded(
                name, method.handler if self._is_traced else spans.rpc(name, method.handler)
            )
        self._context.publisher.observers.append(self._published)
        self._context.log.add_sink(self)
        run_soon(self._run)

    def _detach(self) -> None:
        with self._lock:
            if not self._is_attached:
                return
            self._is_attached = False
        for method, handler in self._handlers:
            method.handler = handler
        spans.remove(self._span)
        hooks.remove(self)
        self._context.publisher.observers.remove(self._published)
        self._context.log.remove_sink(self)

    @property
    def is_running(self) -> bool:
        return self._is_attached

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """The daemon exits: send what is left, for at most this time."""
        if self._is_attached:
            self._closing = True
            self._ended.acquire(timeout=timeout)

    # What is recorded. These run in the shim's threads.

    def add(self, entry: Entry, guest_bytes: int = 0) -> None:
        """`guest_bytes` is the size of the guest's message in the entry."""
        with self._lock:
            if len(self._queue) >= MAX_ENTRIES or (guest_bytes and self._guest_bytes + guest_bytes > MAX_GUEST_BYTES):
                self._dropped += 1
            else:
                self._queue.append(entry)
                self._guest_bytes += guest_bytes

    def event(self, number: int, type: int, data: str) -> None:
        handle = self.calls.handle_of(number)
        self.add({"kind": "event", "time": perf_counter_ns(), "handle": handle, "type": type, "data": data})

    def guest(self, kind: str, id: int, procedure: int, body: dict[str, Any], size: int) -> None:
        now = perf_counter_ns()
        if kind == "request":
            self._guest_open[id] = {
                "kind": "guest", "procedure": protocol.NAMES.get(procedure, hex(procedure)), "begin": now, "end": 0,
                "request": body, "response": None,
            }  # fmt: skip
        elif kind == "response":
            entry = self._guest_open.pop(id, None)
            if entry is not None:
                self.add({**entry, "end": now, "response": body}, size)
        else:
            self.add({"kind": "notification", "time": now, "body": body}, size)

    def _span(self, root: spans.Root) -> None:
        if not hooks.is_own(self.pod):
            return
        self.add({
            "kind": "span", "name": root.name, "task": root.task, "exec": root.exec, "begin": root.begin,
            "end": root.end, "failure": root.failure, "children": list(root.children),
        })  # fmt: skip

    def _published(self, topic: str, event: Any) -> None:
        fields = {name: getattr(event, name) for name in ("container_id", "exec_id", "id", "pid", "exit_status")
                  if hasattr(event, name)}  # fmt: skip
        self.add({"kind": "publish", "time": perf_counter_ns(), "topic": topic, "event": fields})

    def write(self, nanoseconds: int, level: int, message: str, fields: dict[str, object]) -> None:
        """A sink of the log."""
        shown = {name: str(value) for name, value in fields.items()}
        self.add({"kind": "log", "time": nanoseconds - self._offset, "level": level, "msg": message, "fields": shown})

    def _recorded(self, method: str, handler: Callable[[Call], bytes]) -> Callable[[Call], bytes]:
        def run(call: Call) -> bytes:
            recorded = RecordedCall(self, call, method)
            try:
                response = handler(recorded)  # type: ignore[arg-type]
            except BaseException as error:
                recorded.failed(error)
                raise
            if not recorded.is_deferred:
                recorded.answered(response)
            return response

        return run

    def begin(self, entry: Entry) -> None:
        self._open[id(entry)] = entry

    def end(self, entry: Entry) -> None:
        if self._open.pop(id(entry), None) is not None:
            self.add(entry)

    # The sender.

    def _run(self) -> None:
        try:
            stop = False
            while not stop:
                closing = self._closing
                stop = self._send(last=closing) or closing
                if not stop:
                    time.sleep(INTERVAL)
            self._detach()
            if not closing:
                self._send(last=True)
        except Exception:
            pass  # `runhcs record` is gone
        finally:
            self._detach()
            self._client.close()
            self._ended.release()

    def _send(self, last: bool) -> bool:
        """Whether `runhcs record` asks to stop."""
        with self._lock:
            entries, self._queue = self._queue, []
            self._guest_bytes = 0
            dropped, self._dropped = self._dropped, 0
        if last:
            pending = [*self._open.values(), *self._guest_open.values(), *self.calls.pending()]
            entries += [{**entry, "end": 0} for entry in pending]
            entries.append({"kind": "stop", "time": perf_counter_ns(), "reason": "exit" if self._closing else "record"})
        if dropped:
            entries.append({"kind": "dropped", "time": perf_counter_ns(), "count": dropped})
        lines: list[str] = []
        size = 0
        stop = False
        for entry in entries:
            line = self._writer.line(entry)
            if not line:
                continue
            if size + len(line) > MAX_CHUNK and lines:
                stop = self._call(lines, last=False) or stop
                lines, size = [], 0
            lines.append(line)
            size += len(line)
        return self._call(lines, last) or stop

    def _call(self, lines: list[str], last: bool) -> bool:
        request = AddRequest(json="\n".join(lines), last=last).encode()
        return AddResponse.decode(self._client.call(SERVICE, "Add", request, timeout=TIMEOUT)).stop


class RecordedCall:
    """A `Call` whose end is recorded, also when its handler defers it. Everything else is the call's own."""

    __slots__ = ("_call", "_entry", "_recorder", "is_deferred")

    def __init__(self, recorder: Recorder, call: Call, method: str) -> None:
        self._recorder = recorder
        self._call = call
        self.is_deferred = False
        begin = perf_counter_ns()
        if method in (requests.EXEC, requests.CREATE_SANDBOX):
            recorder.add({"kind": "secrets", "method": method, "payload": call.payload})
        if method in (requests.CREATE, requests.CREATE_SANDBOX):
            try:
                documents = requests.CreateDocuments(method, call.payload, recorder.start_options)
                recorder.add({"kind": "spec", "time": begin, "documents": documents})
            except Exception:
                pass  # the request cannot be decoded: its response says so
        self._entry: Entry = {
            "kind": "rpc", "service": call.service, "method": method, "begin": begin, "end": 0,
            "request": call.payload, "response": None, "error": None,
        }  # fmt: skip
        recorder.begin(self._entry)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def defer(self, cancelled: Callable[[], None] | None = None) -> bytes:
        self.is_deferred = True
        return self._call.defer(cancelled)

    def reply(self, payload: bytes) -> bool:
        self.answered(payload)
        return self._call.reply(payload)

    def fail(self, error: BaseException) -> bool:
        self.failed(error)
        return self._call.fail(error)

    def answered(self, payload: bytes) -> None:
        self._entry["end"], self._entry["response"] = perf_counter_ns(), bytes(payload)
        self._recorder.end(self._entry)

    def failed(self, error: BaseException) -> None:
        self._entry["end"], self._entry["error"] = perf_counter_ns(), status_of(error)
        self._recorder.end(self._entry)
