"""The lifecycle of compute systems and processes: states, codes, events and their order."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import documents
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.wire_client import EXITED, PROCESS_EXITED, WireClient

INVALID_STATE = 0x80370105
NOT_FOUND = 0x8037010E
EXISTS = 0x8037010F
ALREADY_STOPPED = 0x80370110
PROCESS_ALREADY_STOPPED = 0x8037011F
PROCESS_STOPPED = 0x8037011F
TIMEOUT = 0x80370118
INVALID_HANDLE = 0x80070006
ACCESS_DENIED = 0x80070005
ELEMENT_NOT_FOUND = 0x80070490
NOT_SUPPORTED = 0x80070032
GENERIC_ALL = 0x10000000


def created(client: WireClient, identifier: str = "one") -> int:
    handle = client.ok("HcsCreateComputeSystem", identifier, documents.container()).handle
    client.ok("HcsSetComputeSystemCallback", handle=handle)
    return handle


def running(client: WireClient, identifier: str = "one") -> int:
    handle = created(client, identifier)
    client.ok("HcsStartComputeSystem", None, handle=handle)
    return handle


def stopped(client: WireClient, identifier: str = "one") -> int:
    handle = running(client, identifier)
    client.ok("HcsTerminateComputeSystem", None, handle=handle)
    client.wait_event(handle, EXITED)
    return handle


STATES: dict[str, Callable[[WireClient], int]] = {"Created": created, "Running": running, "Stopped": stopped}

# call -> its code in Created, Running, Stopped
TABLE = {
    "HcsStartComputeSystem": (0, INVALID_STATE, ALREADY_STOPPED),
    "HcsShutDownComputeSystem": (0, 0, ALREADY_STOPPED),
    "HcsTerminateComputeSystem": (0, 0, ALREADY_STOPPED),
    "HcsPauseComputeSystem": (NOT_SUPPORTED, NOT_SUPPORTED, NOT_SUPPORTED),
    "HcsResumeComputeSystem": (NOT_SUPPORTED, NOT_SUPPORTED, NOT_SUPPORTED),
    "HcsSaveComputeSystem": (NOT_SUPPORTED, NOT_SUPPORTED, NOT_SUPPORTED),
    "HcsCrashComputeSystem": (NOT_SUPPORTED, NOT_SUPPORTED, NOT_SUPPORTED),
    "HcsGetComputeSystemProperties": (0, 0, 0),
    "HcsCreateProcess": (INVALID_STATE, 0, ALREADY_STOPPED),
    "HcsModifyComputeSystem": (0, 0, ALREADY_STOPPED),
}
ARGUMENTS = {
    "HcsCreateProcess": documents.echo(),
    "HcsModifyComputeSystem": {"ResourcePath": "Container/Memory/SizeInMB", "RequestType": "Update", "Settings": 512},
}


@pytest.mark.parametrize("call", TABLE)
def test_call_results_by_system_state(client: WireClient, call: str) -> None:
    for (state, enter), code in zip(STATES.items(), TABLE[call], strict=True):
        handle = enter(client)
        if state != "Stopped":
            assert client.ok("HcsGetComputeSystemProperties", None, handle=handle).document["State"] == state
        answer = client.call(call, ARGUMENTS.get(call), handle=handle)
        assert f"{answer.hresult:08X}" == f"{code:08X}", (state, answer.text)
        answer.close()
        client.call("HcsTerminateComputeSystem", None, handle=handle)
        client.wait_event(handle, EXITED)
        client.ok("HcsCloseComputeSystem", handle=handle)


def test_container_runs_without_processes_until_shutdown(client: WireClient) -> None:
    system = running(client)
    process = client.ok("HcsCreateProcess", documents.echo(), handle=system)
    client.ok("HcsSetProcessCallback", handle=process.handle)
    assert process.read() == b"hello\r\n"
    status = client.wait_event(process.handle, PROCESS_EXITED)
    assert status == {"ProcessId": process.pid, "Exited": True, "ExitCode": 0, "LastWaitResult": 0}
    assert client.ok("HcsGetComputeSystemProperties", None, handle=system).document["State"] == "Running"
    client.ok("HcsShutDownComputeSystem", None, handle=system)
    exit_status = client.wait_event(system, EXITED)
    assert (exit_status["Status"], exit_status["ExitType"]) == (0, "GracefulExit")


def test_terminate_sends_process_exits_before_a_forced_system_exit(client: WireClient) -> None:
    system = running(client)
    process = client.ok("HcsCreateProcess", documents.sleeper(), handle=system)
    client.ok("HcsSetProcessCallback", handle=process.handle)
    client.ok("HcsTerminateComputeSystem", None, handle=system)
    assert client.wait_event(system, EXITED)["ExitType"] == "ForcedExit"
    assert [entry[:2] for entry in client.events] == [(process.handle, PROCESS_EXITED), (system, EXITED)]
    assert client.call("HcsOpenComputeSystem", "one", number=GENERIC_ALL).hresult == NOT_FOUND


def test_killed_silo_is_an_unexpected_exit(emulator: Emulator, client: WireClient) -> None:
    system = running(client)
    process = client.ok("HcsCreateProcess", documents.sleeper(), handle=system)
    client.ok("HcsSetProcessCallback", handle=process.handle)
    silo = next(pid for pid in emulator.descendants() if pid != process.pid)
    os.kill(silo, signal.SIGKILL)
    exit_status = client.wait_event(system, EXITED)
    assert (exit_status["Status"], exit_status["ExitType"]) == (0xC0370106 - (1 << 32), "UnexpectedExit")
    assert [entry[1] for entry in client.events] == [PROCESS_EXITED, EXITED]


def test_exit_before_callback_registration_is_delivered(client: WireClient) -> None:
    system = running(client)
    process = client.ok("HcsCreateProcess", documents.echo() | {"CommandLine": "cmd /c exit 7"}, handle=system)
    assert client.ok("HcsWaitForProcessExit", handle=process.handle, number=20000).document["ExitCode"] == 7
    client.ok("HcsSetProcessCallback", handle=process.handle)
    assert client.wait_event(process.handle, PROCESS_EXITED)["ExitCode"] == 7
    process.close()


def test_no_event_without_callback_or_after_close(client: WireClient) -> None:
    silent = client.ok("HcsCreateComputeSystem", "one", documents.container()).handle
    closed = client.ok("HcsOpenComputeSystem", "one", number=GENERIC_ALL).handle
    listening = client.ok("HcsOpenComputeSystem", "one", number=GENERIC_ALL).handle
    for handle in (closed, listening):
        client.ok("HcsSetComputeSystemCallback", handle=handle)
    client.ok("HcsCloseComputeSystem", handle=closed)
    client.ok("HcsTerminateComputeSystem", None, handle=silent)
    client.wait_event(listening, EXITED)
    assert {entry[0] for entry in client.events} == {listening}


def test_duplicate_id_is_refused_and_reusable_after_exit(client: WireClient) -> None:
    first = created(client)
    answer = client.call("HcsCreateComputeSystem", "one", documents.container())
    assert (answer.hresult, answer.places) == (EXISTS, ["one"])
    client.ok("HcsTerminateComputeSystem", None, handle=first)
    second = created(client)
    assert client.ok("HcsGetComputeSystemProperties", None, handle=second).document["State"] == "Created"
    assert client.ok("HcsGetComputeSystemProperties", None, handle=first).document["State"] == "Stopped"


def test_terminate_ends_a_hanging_shutdown(client: WireClient) -> None:
    patience = {
        "Key": {"Hive": "System", "Name": "ControlSet001\\Control"},
        "Name": "WaitToKillServiceTimeout",
        "Type": "String",
        "StringValue": "2147483647",
    }
    document = documents.container(RegistryChanges={"AddValues": [patience]})
    system = client.ok("HcsCreateComputeSystem", "stubborn", document).handle
    client.ok("HcsSetComputeSystemCallback", handle=system)
    client.ok("HcsStartComputeSystem", None, handle=system)
    script = "sh -c \"trap '' TERM; echo deaf; while :; do sleep 1; done\""
    process = client.ok("HcsCreateProcess", {"CommandLine": script, "CreateStdOutPipe": True}, handle=system)
    with open(process.stdout, "rb") as stream:  # type: ignore[arg-type]
        process.stdout = None
        assert stream.readline() == b"deaf\n"
    shutdown = client.begin("HcsShutDownComputeSystem", None, handle=system)
    assert client.call("HcsWaitForComputeSystemExit", handle=system, number=300).hresult == TIMEOUT
    assert client.call("HcsShutDownComputeSystem", None, handle=system).hresult == ALREADY_STOPPED
    client.ok("HcsTerminateComputeSystem", None, handle=system)
    assert client.wait_event(system, EXITED)["ExitType"] == "ForcedExit"
    client.finish(shutdown)


def test_last_handle_close_or_client_death_terminates_the_system(emulator: Emulator, client: WireClient) -> None:
    def systems() -> list[str]:
        return [system["Id"] for system in emulator.control("status")["systems"]]

    handle = client.ok("HcsCreateComputeSystem", "closed", documents.terminates_on_last_handle()).handle
    client.ok("HcsStartComputeSystem", None, handle=handle)
    with WireClient(emulator.directory) as other:
        other.ok("HcsOpenComputeSystem", "closed", number=GENERIC_ALL)
        client.ok("HcsCloseComputeSystem", handle=handle)
        assert systems() == ["closed"]
        kept = other.ok("HcsCreateComputeSystem", "kept", documents.container()).handle
        other.ok("HcsStartComputeSystem", None, handle=kept)
    eventually(lambda: systems() == ["kept"], "the end of the system whose last client died")
    handle = client.ok("HcsOpenComputeSystem", "kept", number=GENERIC_ALL).handle
    assert client.ok("HcsGetComputeSystemProperties", None, handle=handle).document["State"] == "Running"


def test_process_open_signal_and_terminate(client: WireClient) -> None:
    system = running(client)
    sleeper = client.ok("HcsCreateProcess", documents.sleeper(), handle=system)
    opened = client.ok("HcsOpenProcess", handle=system, number=sleeper.pid).handle
    client.ok("HcsSetProcessCallback", handle=opened)
    client.ok("HcsSignalProcess", {"Signal": "CtrlShutdown"}, handle=sleeper.handle)
    assert client.wait_event(opened, PROCESS_EXITED)["ExitCode"] == 0xC000013A
    for call, options in (("HcsSignalProcess", {"Signal": "CtrlC"}), ("HcsTerminateProcess", None)):
        assert client.call(call, options, handle=opened).hresult == PROCESS_STOPPED
    assert client.call("HcsOpenProcess", handle=system, number=sleeper.pid).hresult == ELEMENT_NOT_FOUND
    second = client.ok("HcsCreateProcess", documents.sleeper(), handle=system)
    client.ok("HcsTerminateProcess", None, handle=second.handle)
    assert client.ok("HcsWaitForProcessExit", handle=second.handle, number=20000).document["ExitCode"] == 0xFFFFFFFF


def test_systems_have_separate_processes(client: WireClient) -> None:
    one, two = running(client, "one"), running(client, "two")
    process = client.ok("HcsCreateProcess", documents.sleeper(), handle=one)
    assert client.call("HcsOpenProcess", handle=two, number=process.pid).hresult == ELEMENT_NOT_FOUND
    query = {"PropertyTypes": ["ProcessList"]}
    pids = [
        [
            entry["ProcessId"]
            for entry in client.ok("HcsGetComputeSystemProperties", query, handle=handle).document["ProcessList"]
        ]
        for handle in (one, two)
    ]
    assert process.pid in pids[0]
    assert process.pid not in pids[1]
    # From inside, the other's processes can be neither seen nor signalled.
    script = f"cat /proc/[0-9]*/cmdline; kill -9 {process.pid} || echo unknown"
    look = client.ok("HcsCreateProcess", {"CommandLine": f'sh -c "{script}"', "CreateStdOutPipe": True}, handle=two)
    seen = look.read()
    assert b"sleep" not in seen and seen.endswith(b"unknown\n")
    assert client.ok("HcsGetProcessProperties", None, handle=process.handle).document["Exited"] is False


def test_invalid_handles_are_refused(client: WireClient, emulator: Emulator) -> None:
    system = created(client)
    client.ok("HcsCloseComputeSystem", handle=system)
    for handle in (system, 0, 2**63):
        assert client.call("HcsStartComputeSystem", None, handle=handle).hresult == INVALID_HANDLE
    assert client.call("HcsCloseProcess", handle=system).hresult == INVALID_HANDLE
    other = client.ok("HcsOpenComputeSystem", "one", number=GENERIC_ALL).handle
    assert client.call("HcsTerminateProcess", None, handle=other).hresult == INVALID_HANDLE
    with WireClient(emulator.directory) as stranger:
        assert stranger.call("HcsStartComputeSystem", None, handle=other).hresult == INVALID_HANDLE
    assert client.call("HcsOpenComputeSystem", "one", number=1).hresult == ACCESS_DENIED


def test_only_requested_streams_exist_and_stdin_can_be_closed(client: WireClient) -> None:
    system = running(client)
    document = {"CommandLine": "cat", "CreateStdInPipe": True, "CreateStdOutPipe": True, "CreateStdErrPipe": True}
    process = client.ok("HcsCreateProcess", document, handle=system)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    os.write(process.stdin, b"through")
    client.ok(
        "HcsModifyProcess", {"Operation": "CloseHandle", "CloseHandle": {"Handle": "StdIn"}}, handle=process.handle
    )
    os.close(process.stdin)
    process.stdin = None
    assert process.read() == b"through"
    process.close()
    quiet = client.ok("HcsCreateProcess", documents.sleeper(0), handle=system)
    assert (quiet.stdin, quiet.stdout, quiet.stderr) == (None, None, None)


def test_close_handle_of_a_closed_stdin_is_refused(client: WireClient) -> None:
    """Closed by the client, in all its duplicates, or by an earlier call."""
    system = running(client)
    close = {"Operation": "CloseHandle", "CloseHandle": {"Handle": "StdIn"}}
    for closes_first in (True, False):
        process = client.ok("HcsCreateProcess", {"CommandLine": "cat", "CreateStdInPipe": True}, handle=system)
        assert process.stdin is not None
        if closes_first:
            duplicate = os.dup(process.stdin)
            os.close(process.stdin)
            os.close(duplicate)
        else:
            client.ok("HcsModifyProcess", close, handle=process.handle)
        assert client.call("HcsModifyProcess", close, handle=process.handle).hresult == PROCESS_ALREADY_STOPPED


def test_streams_are_closed_with_the_last_handle(client: WireClient) -> None:
    system = running(client)
    process = client.ok("HcsCreateProcess", {"CommandLine": "yes", "CreateStdOutPipe": True}, handle=system)
    opened = client.ok("HcsOpenProcess", handle=system, number=process.pid).handle
    client.ok("HcsCloseProcess", handle=process.handle)
    assert process.stdout is not None and os.read(process.stdout, 2) == b"y\n"
    assert client.ok("HcsGetProcessProperties", None, handle=opened).document["Exited"] is False
    client.ok("HcsSetComputeSystemCallback", handle=system)
    client.ok("HcsCloseProcess", handle=opened)
    process.close()  # the pipe has no reader: the process gets an error
    eventually(lambda: not Path(f"/proc/{process.pid}").exists(), "the exit of a process without a reader")


def test_statistics_count_the_processes_of_the_system(client: WireClient) -> None:
    system = running(client)
    work = client.ok("HcsCreateProcess", {"CommandLine": 'sh -c "while :; do :; done"'}, handle=system)
    query = {"PropertyTypes": ["Statistics", "ProcessList"]}

    def busy() -> bool:
        properties = client.ok("HcsGetComputeSystemProperties", query, handle=system).document
        return bool(properties["Statistics"]["Processor"]["TotalRuntime100ns"] > 500_000)

    eventually(busy, "processor time of a busy loop")
    properties = client.ok("HcsGetComputeSystemProperties", query, handle=system).document
    entry = next(entry for entry in properties["ProcessList"] if entry["ProcessId"] == work.pid)
    assert entry["UserTime100ns"] + entry["KernelTime100ns"] > 0
    assert 0 < properties["Statistics"]["Memory"]["MemoryUsagePrivateWorkingSetBytes"] < 1 << 30
    assert properties["Statistics"]["Uptime100ns"] > 0


def test_enumerate_applies_filters(client: WireClient) -> None:
    created(client, "one")
    document = documents.container() | {"Owner": "somebody else"}
    client.ok("HcsCreateComputeSystem", "two", document)

    def ids(query: object) -> list[str]:
        return [system["Id"] for system in client.ok("HcsEnumerateComputeSystems", query).document]

    assert ids(None) == ["one", "two"]
    assert ids({"Owners": ["tests"]}) == ["one"]
    assert ids({"Ids": ["two", "three"]}) == ["two"]
    assert ids({"Types": ["VirtualMachine"]}) == []
    assert client.call("HcsEnumerateComputeSystems", {"Sizes": []}).hresult == 0x8037010D


@pytest.mark.parametrize("quirk", ["synchronous-create-process", "blocking-signal"])
def test_quirks_change_create_process_and_signal(start_emulator: Callable[..., Emulator], quirk: str) -> None:
    emulator = start_emulator("--quirk", quirk)
    with WireClient(emulator.directory) as client:
        system = running(client)
        answer = client.call("HcsCreateProcess", documents.echo(), handle=system)
        if quirk == "synchronous-create-process":
            assert answer.hresult == 0x80070057 and answer.handle
            info = client.ok("HcsGetProcessInfo", handle=answer.handle)
            assert info.pid
            assert info.read() == b"hello\r\n"
        else:
            answer.close()
            script = "sh -c \"trap '' TERM; echo deaf; exec sleep 600\""
            sleeper = client.ok("HcsCreateProcess", {"CommandLine": script, "CreateStdOutPipe": True}, handle=system)
            assert sleeper.stdout is not None and os.read(sleeper.stdout, 5) == b"deaf\n"
            blocked = client.begin("HcsSignalProcess", {"Signal": "CtrlShutdown"}, handle=sleeper.handle)
            opened = client.ok("HcsOpenProcess", handle=system, number=sleeper.pid).handle
            client.call("HcsTerminateProcess", None, handle=opened)
            assert client.finish(blocked).hresult in (0, PROCESS_STOPPED)
            sleeper.close()
