"""The native library with a service whose responses a test writes itself.

The service is the emulator's real transport with a dispatcher of the test, in a thread of the test process; the library
is loaded into the same process, as the shim loads it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cffi import FFI

from hcs_emulator.native.build import build
from hcs_emulator.service.transport.server import Client, Reply, Request, Server, serve

ROOT = Path(__file__).parents[2]
OPENING = {"HcsCreateComputeSystem", "HcsOpenComputeSystem", "HcsCreateProcess", "HcsOpenProcess", "OpenVirtualDisk"}
E_INVALIDARG = 0x80070057
E_INVALID_HANDLE = 0x80070006
NOT_STARTED = 0x80370115
ALREADY_STARTED = 0x80370116
PENDING = 0x80370117
TIMEOUT = 0x80370118
CALLBACK_ALREADY_SET = 0x80370119
NOT_AVAILABLE = 0x80370114
DISCONNECT = 0x8037011E
GENERIC_ALL = 0x10000000

# Functions that the shim does not declare, because it does not call them.
MORE = """
HCS_OPERATION WINAPI HcsCreateOperationWithNotifications(int32_t types, const void *context, HCS_EVENT_CALLBACK cb);
void * WINAPI HcsGetOperationContext(HCS_OPERATION operation);
HRESULT WINAPI HcsSetOperationContext(HCS_OPERATION operation, const void *context);
HRESULT WINAPI HcsSetOperationCallback(HCS_OPERATION operation, const void *context, HCS_OPERATION_COMPLETION callback);
HCS_SYSTEM WINAPI HcsGetComputeSystemFromOperation(HCS_OPERATION operation);
HCS_PROCESS WINAPI HcsGetProcessFromOperation(HCS_OPERATION operation);
HRESULT WINAPI HcsWaitForComputeSystemExit(HCS_SYSTEM system, DWORD timeout, PWSTR *document);
HRESULT WINAPI HcsWaitForProcessExit(HCS_PROCESS process, DWORD timeout, PWSTR *document);
DWORD WINAPI OpenVirtualDisk(const void *type, PCWSTR path, ULONG access, ULONG flags, const void *p, HANDLE *disk);
DWORD WINAPI AttachVirtualDisk(HANDLE disk, const void *security, ULONG flags, ULONG provider, void *p, void *o);
DWORD WINAPI GetVirtualDiskPhysicalPath(HANDLE disk, ULONG *bytes, PWSTR buffer);
"""

ffi = FFI()
ffi.cdef((ROOT / "shim" / "hcs_bindings" / "hcs.h").read_text() + MORE)


class Library:
    """The library's functions, with HRESULTs unsigned and documents freed."""

    def __init__(self) -> None:
        self.path = build()[0]
        self.raw: Any = ffi.dlopen(str(self.path))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self.raw, name)
        status = ffi.typeof(function).result is ffi.typeof("int32_t")

        def call(*arguments: Any) -> Any:
            # The buffer of every string must live until the call returns.
            held = [ffi.new("char16_t[]", value) if isinstance(value, str) else value for value in arguments]
            outcome = function(*(ffi.NULL if value is None else value for value in held))
            return outcome & 0xFFFFFFFF if status else outcome

        return call

    def take(self, pointer: Any) -> str | None:
        """The document of an out parameter, which is released."""
        if pointer[0] == ffi.NULL:
            return None
        text: str = ffi.string(pointer[0])
        self.raw.LocalFree(pointer[0])
        return text

    def result(self, operation: Any, timeout: int = 20_000) -> tuple[int, str | None]:
        document = ffi.new("PWSTR *")
        return self.HcsWaitForOperationResult(operation, timeout, document), self.take(document)

    def result_now(self, operation: Any) -> tuple[int, str | None]:
        document = ffi.new("PWSTR *")
        return self.HcsGetOperationResult(operation, document), self.take(document)

    def open(self, name: str = "web") -> Any:
        system = ffi.new("HCS_SYSTEM *")
        assert self.HcsOpenComputeSystem(name, GENERIC_ALL, system) == 0
        return system[0]

    @contextlib.contextmanager
    def operation(self) -> Iterator[Any]:
        operation = self.HcsCreateOperation(None, None)
        assert operation != ffi.NULL
        try:
            yield operation
        finally:
            self.HcsCloseOperation(operation)

    def run(self, name: str, *arguments: Any, timeout: int = 20_000) -> tuple[int, str | None]:
        """A tracked call and its result; OPERATION in the arguments is replaced by the operation."""
        with self.operation() as operation:
            code = getattr(self, name)(*(operation if value is OPERATION else value for value in arguments))
            return self.result(operation, timeout) if code == 0 else (code, None)


OPERATION = object()
Handler = Callable[[Client, Request], Any]


class Scripted:
    """A dispatcher: calls without a handler succeed, and those that open an object return a new handle."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.requests: list[Request] = []
        self.clients: set[Client] = set()
        self.disconnected_clients: list[Client] = []
        self.handles = 100
        self.loop: asyncio.AbstractEventLoop
        self.server: Server

    async def call(self, client: Client, request: Request) -> Reply:
        self.clients.add(client)
        self.requests.append(request)
        handler = self.handlers.get(request.call)
        if handler is None:
            return Reply(handle=self.new_handle() if request.call in OPENING else 0)
        answer = handler(client, request)
        reply: Reply = await answer if inspect.isawaitable(answer) else answer
        return reply

    def disconnected(self, client: Client) -> None:
        self.clients.discard(client)
        self.disconnected_clients.append(client)

    def new_handle(self) -> int:
        self.handles += 1
        return self.handles

    def names(self) -> list[str]:
        return [request.call for request in self.requests]

    def do(self, action: Callable[[], Any]) -> Any:
        """Run an action in the service's thread."""

        async def run() -> Any:
            return action()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(60)

    def event(self, handle: int, event_type: int, document: str | None = None) -> None:
        self.do(lambda: [client.send_event(handle, event_type, document) for client in self.clients])

    def disconnect_all(self) -> None:
        self.do(lambda: [client.disconnect() for client in list(self.server.clients)])


@contextlib.contextmanager
def scripted_service(directory: Path) -> Iterator[Scripted]:
    script = Scripted()
    script.loop = asyncio.new_event_loop()

    async def begin() -> None:
        script.server = await serve(directory / "hcs.sock", script)

    thread = threading.Thread(target=script.loop.run_forever)
    thread.start()
    previous = os.environ.get("HCS_EMULATOR_DIR")
    os.environ["HCS_EMULATOR_DIR"] = str(directory)
    try:
        asyncio.run_coroutine_threadsafe(begin(), script.loop).result(60)
        yield script
        asyncio.run_coroutine_threadsafe(script.server.close(), script.loop).result(60)
    finally:
        if previous is None:
            del os.environ["HCS_EMULATOR_DIR"]
        else:
            os.environ["HCS_EMULATOR_DIR"] = previous
        script.loop.call_soon_threadsafe(script.loop.stop)
        thread.join(60)
        script.loop.close()


def error_message(document: str | None) -> str:
    assert document is not None
    message: str = json.loads(document)["ErrorMessage"]
    return message
