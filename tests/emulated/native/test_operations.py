"""The native library: the state machine of operations, with HCS's result codes."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from typing import Any

from hcs_emulator.service.transport.server import Client, Reply, Request
from tests.support.eventually import eventually
from tests.support.scripted_service import (
    ALREADY_STARTED,
    CALLBACK_ALREADY_SET,
    E_INVALID_HANDLE,
    E_INVALIDARG,
    GENERIC_ALL,
    NOT_STARTED,
    OPERATION,
    PENDING,
    TIMEOUT,
    Library,
    Scripted,
    ffi,
)


class Gate:
    """Blocks responses until it is opened."""

    def __init__(self, script: Scripted, reply: Reply) -> None:
        self.script = script
        self.reply = reply
        self.opened = asyncio.Event()

    async def __call__(self, client: Client, request: Request) -> Reply:
        await self.opened.wait()
        return self.reply

    def open(self) -> None:
        self.script.do(self.opened.set)


def test_unused_operation_has_no_result(lib: Library) -> None:
    with lib.operation() as operation:
        assert lib.result_now(operation) == (NOT_STARTED, None)
        assert lib.result(operation, 0) == (NOT_STARTED, None)
        assert lib.HcsGetOperationType(operation) == 0xFFFFFFFF
        assert lib.HcsGetOperationId(operation) == (1 << 64) - 1
        assert lib.HcsGetComputeSystemFromOperation(operation) == ffi.NULL
        assert lib.HcsCancelOperation(operation) == 0x80004001


def test_operation_is_pending_then_complete(service: Scripted, lib: Library) -> None:
    gate = service.handlers["HcsStartComputeSystem"] = Gate(service, Reply(document='{"a": "ä€😀"}'))
    system = lib.open()
    with lib.operation() as operation:
        assert lib.HcsStartComputeSystem(system, operation, None) == 0
        assert lib.result_now(operation) == (PENDING, None)
        assert lib.result(operation, 30) == (TIMEOUT, None)
        assert lib.result_now(operation) == (PENDING, None), "a timeout does not end the operation"
        assert lib.HcsStartComputeSystem(system, operation, None) == ALREADY_STARTED
        assert lib.HcsGetOperationType(operation) == 2
        assert lib.HcsGetComputeSystemFromOperation(operation) == system
        assert lib.HcsGetProcessFromOperation(operation) == ffi.NULL
        gate.open()
        assert lib.result(operation) == (0, '{"a": "ä€😀"}')
        assert lib.result_now(operation) == (0, '{"a": "ä€😀"}'), "a result can be had more than once"
        first_id = lib.HcsGetOperationId(operation)
        assert lib.HcsGetComputeSystemProperties(system, operation, "{}") == 0, "and the operation used again"
        assert lib.result(operation) == (0, None)
        assert lib.HcsGetOperationId(operation) > first_id
    lib.HcsCloseComputeSystem(system)
    assert service.names() == [
        "HcsOpenComputeSystem",
        "HcsStartComputeSystem",
        "HcsGetComputeSystemProperties",
        "HcsCloseComputeSystem",
    ]


def test_failed_operation_returns_the_error_document(service: Scripted, lib: Library) -> None:
    service.handlers["HcsStartComputeSystem"] = lambda client, request: Reply(0x80370105, document='{"Error": 1}')
    system = lib.open()
    assert lib.run("HcsStartComputeSystem", system, OPERATION, None) == (0x80370105, '{"Error": 1}')
    lib.HcsCloseComputeSystem(system)


def test_arguments_are_sent_unchanged(service: Scripted, lib: Library) -> None:
    system = lib.open("pod \U0001f40d@vm")
    assert lib.run("HcsModifyComputeSystem", system, OPERATION, '{"x": "\\\\"}', ffi.cast("void *", 77)) == (0, None)
    assert lib.run("HcsTerminateComputeSystem", system, OPERATION, None) == (0, None)
    assert lib.run("HcsTerminateComputeSystem", system, OPERATION, "") == (0, None)
    opened, modified, without, empty = service.requests
    assert (opened.strings, opened.number) == (["pod \U0001f40d@vm"], GENERIC_ALL)
    assert (modified.handle, modified.number, modified.strings) == (101, 77, ['{"x": "\\\\"}'])
    assert (without.strings, empty.strings) == ([None], [""])
    lib.HcsCloseComputeSystem(system)


def test_invalid_operation_handles_are_refused(service: Scripted, lib: Library) -> None:
    system = lib.open()
    operation = lib.HcsCreateOperation(None, None)
    lib.HcsCloseOperation(operation)
    lib.HcsCloseOperation(operation)
    garbage = [ffi.cast("void *", value) for value in (-1, 1, 0xDEADBEEF, int(ffi.cast("uintptr_t", operation)) ^ 3)]
    for bad in [operation, system, *garbage]:
        assert lib.HcsStartComputeSystem(system, bad, None) == E_INVALID_HANDLE
        assert lib.result(bad) == (E_INVALID_HANDLE, None)
        assert lib.HcsGetOperationType(bad) == 0xFFFFFFFF
        lib.HcsCloseOperation(bad)
    assert lib.HcsStartComputeSystem(system, None, None) == E_INVALIDARG
    assert lib.result(None) == (E_INVALIDARG, None)
    lib.HcsCloseComputeSystem(system)
    assert service.names() == ["HcsOpenComputeSystem", "HcsCloseComputeSystem"]


def test_invalid_system_handles_are_refused(service: Scripted, lib: Library) -> None:
    system = lib.open()
    with lib.operation() as operation:
        for bad in (ffi.cast("void *", -1), ffi.cast("void *", 12), operation):
            assert lib.HcsStartComputeSystem(bad, operation, None) == E_INVALID_HANDLE
            lib.HcsCloseComputeSystem(bad)
        assert lib.HcsStartComputeSystem(None, operation, None) == E_INVALIDARG
        assert lib.HcsSignalProcess(system, operation, None) == E_INVALID_HANDLE, "a system is no process"
        lib.HcsCloseComputeSystem(system)
        lib.HcsCloseComputeSystem(system)
        assert lib.HcsStartComputeSystem(system, operation, None) == E_INVALID_HANDLE
        assert lib.result_now(operation) == (NOT_STARTED, None)
        again = lib.open()
        assert again != system, "a closed handle's value does not come back at once"
        lib.HcsCloseComputeSystem(again)


def test_closing_an_operation_does_not_cancel_its_call(service: Scripted, lib: Library) -> None:
    gate = service.handlers["HcsTerminateComputeSystem"] = Gate(service, Reply())
    system = lib.open()
    operation = lib.HcsCreateOperation(None, None)
    assert lib.HcsTerminateComputeSystem(system, operation, None) == 0
    lib.HcsCloseOperation(operation)
    eventually(lambda: "HcsTerminateComputeSystem" in service.names())
    gate.open()
    lib.HcsCloseComputeSystem(system)


def test_closing_an_operation_ends_its_waits(service: Scripted, lib: Library) -> None:
    gate = service.handlers["HcsStartComputeSystem"] = Gate(service, Reply())
    system = lib.open()
    operation = lib.HcsCreateOperation(None, None)
    assert lib.HcsStartComputeSystem(system, operation, None) == 0
    codes: list[int] = []
    waiter = threading.Thread(target=lambda: codes.append(lib.result(operation, 0xFFFFFFFF)[0]))
    waiter.start()
    waiter.join(0.05)
    lib.HcsCloseOperation(operation)
    waiter.join(60)
    assert codes == [E_INVALID_HANDLE]
    gate.open()
    lib.HcsCloseComputeSystem(system)


def create(lib: Library, operation: Any) -> Any:
    system = ffi.new("HCS_SYSTEM *")
    assert lib.HcsCreateComputeSystem("web", "{}", operation, None, system) == 0
    assert system[0] != ffi.NULL
    return system[0]


def test_create_returns_the_handle_before_the_result(service: Scripted, lib: Library) -> None:
    gate = service.handlers["HcsCreateComputeSystem"] = Gate(service, Reply(handle=7))
    with lib.operation() as operation, lib.operation() as other:
        system = create(lib, operation)
        codes: list[int] = []
        starter = threading.Thread(target=lambda: codes.append(lib.HcsStartComputeSystem(system, other, None)))
        starter.start()
        assert lib.result_now(operation) == (PENDING, None)
        gate.open()
        assert lib.result(operation) == (0, None)
        starter.join(60)
        assert codes == [0]
        assert lib.result(other) == (0, None)
    lib.HcsCloseComputeSystem(system)
    assert [(request.call, request.handle) for request in service.requests[1:]] == [
        ("HcsStartComputeSystem", 7),
        ("HcsCloseComputeSystem", 7),
    ]


def test_failed_create_returns_a_handle_that_can_only_be_closed(service: Scripted, lib: Library) -> None:
    service.handlers["HcsCreateComputeSystem"] = lambda client, request: Reply(0x8037010F)
    with lib.operation() as operation:
        system = create(lib, operation)
        assert lib.result(operation) == (0x8037010F, None)
        assert lib.HcsTerminateComputeSystem(system, operation, None) == 0x8037010F
    lib.HcsCloseComputeSystem(system)
    assert service.names() == ["HcsCreateComputeSystem"]


def test_system_can_be_closed_while_it_is_created(service: Scripted, lib: Library) -> None:
    gate = service.handlers["HcsCreateComputeSystem"] = Gate(service, Reply(handle=9))
    operation = lib.HcsCreateOperation(None, None)
    system = create(lib, operation)
    lib.HcsCloseOperation(operation)
    lib.HcsCloseComputeSystem(system)
    eventually(lambda: service.requests)
    gate.open()
    eventually(lambda: ("HcsCloseComputeSystem", 9) in [(request.call, request.handle) for request in service.requests])


def test_create_refuses_null_arguments(service: Scripted, lib: Library) -> None:
    system = ffi.new("HCS_SYSTEM *")
    with lib.operation() as operation:
        assert lib.HcsCreateComputeSystem(None, "{}", operation, None, system) == E_INVALIDARG
        assert lib.HcsCreateComputeSystem("a", "{}", operation, ffi.cast("void *", 1), system) == E_INVALIDARG
        assert lib.HcsCreateComputeSystem("a", "{}", operation, None, None) == E_INVALIDARG
        assert lib.HcsCreateComputeSystem("a", "{}", None, None, system) == E_INVALIDARG
    assert lib.HcsOpenComputeSystem("a", 1, system) == E_INVALIDARG
    assert lib.HcsOpenComputeSystem("a", GENERIC_ALL, None) == E_INVALIDARG
    assert service.requests == []


def test_process_info_has_the_requested_pipes(service: Scripted, lib: Library) -> None:
    mine, theirs = os.pipe()
    service.handlers["HcsCreateProcess"] = lambda *_: Reply(handle=5, pid=4711, streams=(None, theirs, None))
    system, process = lib.open(), ffi.new("HCS_PROCESS *")
    info, document = ffi.new("HCS_PROCESS_INFORMATION *"), ffi.new("PWSTR *")
    with lib.operation() as operation:
        assert lib.HcsGetOperationResultAndProcessInfo(operation, info, document) == NOT_STARTED
        assert lib.HcsCreateProcess(system, "{}", operation, None, process) == 0
        assert lib.HcsWaitForOperationResultAndProcessInfo(operation, 20_000, info, document) == 0
        assert info.ProcessId == 4711
        assert (info.StdInput, info.StdError) == (ffi.NULL, ffi.NULL)
        descriptor = int(ffi.cast("intptr_t", info.StdOutput))
        assert descriptor > 2
        assert not os.get_inheritable(descriptor)
        os.write(descriptor, b"hello")
        assert os.read(mine, 10) == b"hello"
        os.close(descriptor)
        assert lib.HcsGetOperationResultAndProcessInfo(operation, info, document) == 0
        assert info.StdOutput == ffi.NULL, "a handle has one owner"
        assert os.read(mine, 10) == b"", "no other process holds the pipe"
        assert lib.HcsGetComputeSystemProperties(system, operation, None) == 0
        assert lib.HcsWaitForOperationResultAndProcessInfo(operation, 20_000, info, document) == E_INVALIDARG
    os.close(mine)
    lib.HcsCloseProcess(process[0])
    lib.HcsCloseComputeSystem(system)


def test_unclaimed_pipes_are_closed(service: Scripted, lib: Library) -> None:
    mine, theirs = os.pipe()
    service.handlers["HcsGetProcessInfo"] = lambda client, request: Reply(pid=1, streams=(theirs, None, None))
    system, process = lib.open(), ffi.new("HCS_PROCESS *")
    assert lib.HcsOpenProcess(system, 1, GENERIC_ALL, process) == 0
    assert lib.run("HcsGetProcessInfo", process[0], OPERATION) == (0, None)
    assert os.read(mine, 1) == b""
    os.close(mine)
    lib.HcsCloseProcess(process[0])
    lib.HcsCloseComputeSystem(system)


def test_process_info_after_the_synchronous_create_process_quirk(service: Scripted, lib: Library) -> None:
    """The wait fails, but the process exists: HcsGetProcessInfo returns its information."""
    service.handlers["HcsCreateProcess"] = lambda client, request: Reply(E_INVALIDARG, handle=5)
    service.handlers["HcsGetProcessInfo"] = lambda client, request: Reply(pid=request.handle)
    system, process = lib.open(), ffi.new("HCS_PROCESS *")
    info, document = ffi.new("HCS_PROCESS_INFORMATION *"), ffi.new("PWSTR *")
    with lib.operation() as operation:
        assert lib.HcsCreateProcess(system, "{}", operation, None, process) == 0
        assert lib.HcsWaitForOperationResultAndProcessInfo(operation, 20_000, info, document) == E_INVALIDARG
        assert lib.HcsGetProcessInfo(process[0], operation) == 0
        assert lib.HcsWaitForOperationResultAndProcessInfo(operation, 20_000, info, document) == 0
        assert info.ProcessId == 5
    lib.HcsCloseProcess(process[0])
    lib.HcsCloseComputeSystem(system)


def test_completion_callback_is_called_once(service: Scripted, lib: Library) -> None:
    system = lib.open()
    seen: list[tuple[Any, int, int, int]] = []

    @ffi.callback("void(HCS_OPERATION, void *)")
    def completed(operation: Any, context: Any) -> None:
        code, _ = lib.result_now(operation)
        seen.append((operation, int(ffi.cast("intptr_t", context)), code, threading.get_ident()))

    operation = lib.HcsCreateOperation(ffi.cast("void *", 3), completed)
    assert int(ffi.cast("intptr_t", lib.HcsGetOperationContext(operation))) == 3
    assert lib.HcsSetOperationContext(operation, ffi.cast("void *", 4)) == 0
    assert lib.HcsStartComputeSystem(system, operation, None) == 0
    eventually(lambda: seen)
    assert seen[0][:3] == (operation, 4, 0)
    assert seen[0][3] != threading.get_ident()
    gate = service.handlers["HcsStartComputeSystem"] = Gate(service, Reply())
    assert lib.HcsStartComputeSystem(system, operation, None) == 0
    assert lib.HcsSetOperationCallback(operation, None, completed) == ALREADY_STARTED
    lib.HcsCloseOperation(operation)
    gate.open()
    lib.HcsCloseComputeSystem(system)
    assert len(seen) == 1, "no callback after the operation is closed"


def test_operation_completion_through_the_system_callback(service: Scripted, lib: Library) -> None:
    system = lib.open()
    seen: list[tuple[int, Any]] = []

    @ffi.callback("void(HCS_EVENT *, void *)")
    def on_event(event: Any, context: Any) -> None:
        seen.append((event.Type, event.Operation))

    @ffi.callback("void(HCS_OPERATION, void *)")
    def completed(operation: Any, context: Any) -> None:
        raise AssertionError("not called")

    assert lib.HcsSetComputeSystemCallback(system, 1, None, on_event) == 0
    with lib.operation() as operation:
        assert lib.HcsStartComputeSystem(system, operation, None) == 0
        eventually(lambda: seen)
        assert seen == [(0x01000000, operation)]
        assert lib.HcsSetOperationCallback(operation, None, completed) == 0
        assert lib.HcsStartComputeSystem(system, operation, None) == CALLBACK_ALREADY_SET
    lib.HcsCloseComputeSystem(system)


def test_operation_with_notifications_gets_events(service: Scripted, lib: Library) -> None:
    seen: list[tuple[int, Any]] = []

    @ffi.callback("void(HCS_EVENT *, void *)")
    def on_event(event: Any, context: Any) -> None:
        seen.append((event.Type, event.Operation))
        lib.HcsCloseOperation(event.Operation)  # closing in the callback is allowed

    assert lib.HcsCreateOperationWithNotifications(8, None, on_event) == ffi.NULL
    operation = lib.HcsCreateOperationWithNotifications(1, None, on_event)
    assert lib.HcsEnumerateComputeSystems(None, operation) == 0
    eventually(lambda: seen)
    assert seen == [(0x01000000, operation)]
    eventually(lambda: lib.result_now(operation)[0] == E_INVALID_HANDLE)


def test_large_documents_are_passed(service: Scripted, lib: Library) -> None:
    service.handlers["HcsModifyComputeSystem"] = lambda client, request: Reply(document=request.strings[0])
    system = lib.open()
    document = json.dumps({"text": "é" * 5_000_000}, ensure_ascii=False)
    for size in (len(document), 100, 70_000, len(document)):
        code, echoed = lib.run("HcsModifyComputeSystem", system, OPERATION, document[:size], None)
        assert (code, echoed == document[:size]) == (0, True)
    lib.HcsCloseComputeSystem(system)


def test_documents_over_the_limit_are_refused(service: Scripted, lib: Library) -> None:
    system = lib.open()
    with lib.operation() as operation:
        assert lib.HcsModifyComputeSystem(system, operation, "x" * (33 << 20), None) == E_INVALIDARG
        code, document = lib.result_now(operation)
        assert code == NOT_STARTED
        assert document is not None and "64 MiB" in document
    assert lib.run("HcsStartComputeSystem", system, OPERATION, None) == (0, None)
    lib.HcsCloseComputeSystem(system)


def test_concurrent_threads_get_their_own_results(service: Scripted, lib: Library) -> None:
    async def echo(client: Client, request: Request) -> Reply:
        await asyncio.sleep(hash(request.strings[0]) % 5 / 1000)
        return Reply(document=request.strings[0])

    service.handlers["HcsGetComputeSystemProperties"] = echo
    system = lib.open()
    wrong: list[object] = []

    def work(number: int) -> None:
        for index in range(40):
            query = f"{number}/{index}"
            if (answer := lib.run("HcsGetComputeSystemProperties", system, OPERATION, query)) != (0, query):
                wrong.append((query, answer))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    lib.HcsCloseComputeSystem(system)
