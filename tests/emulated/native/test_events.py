"""The native library: callbacks of compute systems and processes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hcs_emulator.service.transport.server import Client, Reply, Request
from tests.support.eventually import eventually
from tests.support.scripted_service import (
    CALLBACK_ALREADY_SET,
    DISCONNECT,
    E_INVALID_HANDLE,
    GENERIC_ALL,
    OPERATION,
    TIMEOUT,
    Library,
    Scripted,
    ffi,
)

EXITED = 1
SERVICE_DISCONNECT = 0x02000000


class Recorder:
    """Records the events of a callback; can block the callback."""

    def __init__(self) -> None:
        self.events: list[tuple[int, str | None, int]] = []
        self.threads: set[int] = set()
        self.entered = threading.Event()
        self.leave = threading.Event()
        self.leave.set()
        self.callback = ffi.callback("void(HCS_EVENT *, void *)", self._called)

    def _called(self, event: Any, context: Any) -> None:
        document = None if event.EventData == ffi.NULL else ffi.string(event.EventData)
        self.events.append((event.Type & 0xFFFFFFFF, document, int(ffi.cast("intptr_t", context))))
        self.threads.add(threading.get_ident())
        self.entered.set()
        self.leave.wait(20)


def test_events_are_delivered_to_their_handle_in_order(service: Scripted, lib: Library) -> None:
    first, second, recorder = lib.open(), lib.open(), Recorder()
    assert lib.HcsSetComputeSystemCallback(first, 0, ffi.cast("void *", 1), recorder.callback) == 0
    assert lib.HcsSetComputeSystemCallback(second, 4, ffi.cast("void *", 2), recorder.callback) == 0
    assert [request.number for request in service.requests[2:]] == [0, 4]
    service.event(102, 0x80000003, None)
    for number in range(50):
        service.event(101, 2, f'{{"number": {number}}}')
    eventually(lambda: len(recorder.events) == 51)
    assert recorder.events[0] == (0x80000003, None, 2)
    assert recorder.events[1:] == [(2, f'{{"number": {number}}}', 1) for number in range(50)]
    assert threading.get_ident() not in recorder.threads
    lib.HcsCloseComputeSystem(first)
    lib.HcsCloseComputeSystem(second)


def test_second_callback_of_a_handle_is_refused(service: Scripted, lib: Library) -> None:
    system, again, recorder = lib.open(), lib.open(), Recorder()
    assert lib.HcsSetComputeSystemCallback(system, 0, None, recorder.callback) == 0
    assert lib.HcsSetComputeSystemCallback(system, 0, None, recorder.callback) == CALLBACK_ALREADY_SET
    assert lib.HcsSetComputeSystemCallback(again, 0, None, recorder.callback) == 0
    lib.HcsCloseComputeSystem(system)
    lib.HcsCloseComputeSystem(again)
    assert lib.HcsSetComputeSystemCallback(system, 0, None, recorder.callback) == E_INVALID_HANDLE


def test_refused_registration_can_be_retried(service: Scripted, lib: Library) -> None:
    system, recorder = lib.open(), Recorder()
    service.handlers["HcsSetComputeSystemCallback"] = lambda *_: Reply(0x80370105)
    assert lib.HcsSetComputeSystemCallback(system, 0, None, recorder.callback) == 0x80370105
    del service.handlers["HcsSetComputeSystemCallback"]
    assert lib.HcsSetComputeSystemCallback(system, 0, None, recorder.callback) == 0
    lib.HcsCloseComputeSystem(system)


def test_exit_event_before_the_registration_response_is_delivered(service: Scripted, lib: Library) -> None:
    def registered(client: Client, request: Request) -> Reply:
        client.send_event(request.handle, 0x10000, '{"ExitCode": 3}')  # before the response, the most difficult order
        return Reply()

    service.handlers["HcsSetProcessCallback"] = registered
    system, process, recorder = lib.open(), ffi.new("HCS_PROCESS *"), Recorder()
    assert lib.HcsOpenProcess(system, 1, GENERIC_ALL, process) == 0
    assert lib.HcsSetProcessCallback(process[0], 0, ffi.cast("void *", 9), recorder.callback) == 0
    eventually(lambda: recorder.events)
    assert recorder.events == [(0x10000, '{"ExitCode": 3}', 9)]
    lib.HcsCloseProcess(process[0])
    lib.HcsCloseComputeSystem(system)


def test_close_waits_for_the_running_callback_and_drops_later_events(service: Scripted, lib: Library) -> None:
    system, recorder = lib.open(), Recorder()
    recorder.leave.clear()
    assert lib.HcsSetComputeSystemCallback(system, 0, None, recorder.callback) == 0
    service.event(101, EXITED)
    service.event(101, EXITED)
    assert recorder.entered.wait(60)
    closed = threading.Event()

    def close() -> None:
        lib.HcsCloseComputeSystem(system)
        closed.set()

    closer = threading.Thread(target=close)
    closer.start()
    assert not closed.wait(0.05), "a callback still runs"
    recorder.leave.set()
    assert closed.wait(60)
    closer.join()
    service.event(101, EXITED)
    other, after = lib.open(), Recorder()
    assert lib.HcsSetComputeSystemCallback(other, 0, None, after.callback) == 0
    service.event(service.handles, EXITED)
    eventually(lambda: after.events)
    assert len(recorder.events) == 1, "none begins after the close"
    lib.HcsCloseComputeSystem(other)


def test_callback_can_use_and_close_other_handles(service: Scripted, lib: Library) -> None:
    system, other, done = lib.open(), lib.open(), threading.Event()
    codes: list[object] = []

    @ffi.callback("void(HCS_EVENT *, void *)")
    def on_event(event: Any, context: Any) -> None:
        codes.append(lib.run("HcsTerminateComputeSystem", system, OPERATION, None))
        lib.HcsCloseComputeSystem(other)
        done.set()

    assert lib.HcsSetComputeSystemCallback(system, 0, None, on_event) == 0
    service.event(101, EXITED)
    assert done.wait(60)
    assert codes == [(0, None)]
    lib.HcsCloseComputeSystem(system)


def test_handle_closed_in_its_own_callback_does_not_hang(
    service: Scripted, lib: Library, capfd: pytest.CaptureFixture[str]
) -> None:
    system, done = lib.open(), threading.Event()

    @ffi.callback("void(HCS_EVENT *, void *)")
    def on_event(event: Any, context: Any) -> None:
        lib.HcsCloseComputeSystem(system)
        done.set()

    assert lib.HcsSetComputeSystemCallback(system, 0, None, on_event) == 0
    service.event(101, EXITED)
    assert done.wait(60)
    assert "never returns" in capfd.readouterr().err


def test_lost_connection_sends_disconnect_to_all_handles(service: Scripted, lib: Library) -> None:
    system, silent, process, recorder = lib.open(), lib.open(), ffi.new("HCS_PROCESS *"), Recorder()
    assert lib.HcsOpenProcess(system, 1, GENERIC_ALL, process) == 0
    assert lib.HcsSetComputeSystemCallback(system, 0, ffi.cast("void *", 1), recorder.callback) == 0
    assert lib.HcsSetProcessCallback(process[0], 0, ffi.cast("void *", 2), recorder.callback) == 0
    service.disconnect_all()
    eventually(lambda: len(recorder.events) == 2)
    assert sorted(recorder.events) == [(SERVICE_DISCONNECT, None, 1), (SERVICE_DISCONNECT, None, 2)]
    with lib.operation() as operation:
        assert lib.HcsStartComputeSystem(system, operation, None) == DISCONNECT
        _, document = lib.result_now(operation)
        assert document is not None and "open it again" in document
    lib.HcsCloseProcess(process[0])
    lib.HcsCloseComputeSystem(system)
    lib.HcsCloseComputeSystem(silent)
    assert "HcsCloseProcess" not in service.names()


def test_wait_for_exit_returns_the_status(service: Scripted, lib: Library) -> None:
    system, document = lib.open(), ffi.new("PWSTR *")
    service.handlers["HcsWaitForComputeSystemExit"] = lambda client, request: (
        Reply(document='{"Status": 0}') if request.number == 0xFFFFFFFF else Reply(TIMEOUT)
    )
    assert lib.HcsWaitForComputeSystemExit(system, 10, document) == TIMEOUT
    assert lib.HcsWaitForComputeSystemExit(system, 0xFFFFFFFF, document) == 0
    assert lib.take(document) == '{"Status": 0}'
    lib.HcsCloseComputeSystem(system)
    assert lib.HcsWaitForComputeSystemExit(system, 10, document) == E_INVALID_HANDLE
