"""Invalid input and heavy use: calls fail with a clear code, other clients are not affected, the service keeps running.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from pathlib import Path

import pytest

from hcs_emulator.service.transport.wire import Request, encode_request
from tests.support import documents
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.wire_client import EXITED, PROCESS_EXITED, WireClient

INVALID_JSON = 0x8037010D
ODD_IDS = ["a b", "ä€😀", "../../etc/passwd", "x" * 1024, "a\nb", "%s%n", "C:\\x", "pod@vm", "-rf", '"', "a/b"]


@pytest.mark.parametrize("identifier", ODD_IDS)
def test_ids_with_unusual_characters_are_accepted(emulator: Emulator, identifier: str) -> None:
    with WireClient(emulator.directory) as client:
        handle = client.ok("HcsCreateComputeSystem", identifier, documents.container(Memory={"SizeInMB": 64})).handle
        client.ok("HcsStartComputeSystem", None, handle=handle)
        assert client.ok("HcsGetComputeSystemProperties", None, handle=handle).document["Id"] == identifier
        process = client.ok("HcsCreateProcess", documents.echo(), handle=handle)
        assert process.read() == b"hello\r\n"
        client.ok("HcsTerminateComputeSystem", None, handle=handle)


def test_invalid_ids_are_refused(emulator: Emulator) -> None:
    with WireClient(emulator.directory) as client:
        for identifier in ("", None, "x" * 1025):
            assert client.call("HcsCreateComputeSystem", identifier, documents.container()).hresult == 0x80070057


def test_large_documents_are_accepted(emulator: Emulator) -> None:
    with WireClient(emulator.directory) as client:
        large = documents.container(GuestOs={"HostName": "x"}) | {"Owner": "o" * 10_000_000}
        handle = client.ok("HcsCreateComputeSystem", "large", large).handle
        assert len(client.ok("HcsGetComputeSystemProperties", None, handle=handle).document["Owner"]) == 10_000_000
        broken = client.call("HcsCreateComputeSystem", "broken", json.dumps(large)[:-1])
        assert broken.hresult == INVALID_JSON
        deep = "[" * 200_000
        assert client.call("HcsCreateComputeSystem", "deep", deep).hresult == INVALID_JSON
        client.ok("HcsTerminateComputeSystem", None, handle=handle)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<I", 2**32 - 1) + b"\1" * 20,
        struct.pack("<IB3xQ", 100, 9, 1) + b"x" * 88,
        struct.pack("<IB3xQHxxQQI", 12 + 24, 1, 1, 65000, 0, 0, 0),
        struct.pack("<IB3xQHxxQQI", 12 + 24, 1, 1, 1, 0, 0, 9),
    ],
)
def test_invalid_frame_closes_only_its_own_connection(emulator: Emulator, garbage: bytes) -> None:
    with WireClient(emulator.directory) as other, socket.socket(socket.AF_UNIX) as rude:
        rude.connect(str(emulator.directory / "hcs.sock"))
        rude.sendall(garbage)
        rude.settimeout(60)
        assert rude.recv(1) == b""
        other.ok("HcsEnumerateComputeSystems", None)


def test_control_socket_answers_invalid_requests_with_errors(emulator: Emulator) -> None:
    for line in (b"nonsense\n", b"[]\n", b'{"command": "dance"}\n', b'{"command": "fault-add", "colour": 1}\n'):
        with socket.socket(socket.AF_UNIX) as rude:
            rude.settimeout(60)
            rude.connect(str(emulator.directory / "control.sock"))
            rude.sendall(line)
            assert json.loads(rude.makefile().readline())["ok"] is False
    emulator.control("status")


def test_client_death_during_a_call_affects_no_other_client(emulator: Emulator) -> None:
    emulator.fault("HcsStartComputeSystem", delay=0.3)
    with WireClient(emulator.directory) as dying:
        handle = dying.ok("HcsCreateComputeSystem", "orphan", documents.terminates_on_last_handle()).handle
        dying.begin("HcsStartComputeSystem", None, handle=handle)
    with WireClient(emulator.directory) as client, socket.socket(socket.AF_UNIX) as half:
        half.connect(str(emulator.directory / "hcs.sock"))
        half.sendall(encode_request(1, Request("HcsEnumerateComputeSystems", strings=[None]))[:10])
        half.close()
        eventually(lambda: client.ok("HcsEnumerateComputeSystems", None).document == [], "the end of the orphan")
    eventually(lambda: not emulator.descendants(), "the end of the orphan's silo")


def test_hundred_concurrent_clients_are_served(emulator: Emulator) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with WireClient(emulator.directory) as client:
                for turn in range(5):
                    handle = client.ok("HcsCreateComputeSystem", f"{number}/{turn}", documents.container()).handle
                    assert (
                        client.ok("HcsGetComputeSystemProperties", None, handle=handle).document["State"] == "Created"
                    )
                    client.ok("HcsSetComputeSystemCallback", handle=handle)
                    client.ok("HcsTerminateComputeSystem", None, handle=handle)
                    client.wait_event(handle, EXITED)
                    client.ok("HcsCloseComputeSystem", handle=handle)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not failures
    status = emulator.control("status")
    assert (status["systems"], status["handles"]) == ([], 0)


def _cost(pid: int) -> tuple[int, int, int]:
    """Descriptors, threads and resident memory (KiB) of a process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"]), int(status["VmRSS"].split()[0])


def test_removed_systems_leak_nothing(emulator: Emulator) -> None:
    def rounds(client: WireClient, count: int) -> None:
        for number in range(count):
            handle = client.ok("HcsCreateComputeSystem", f"round{number}", documents.container()).handle
            client.ok("HcsSetComputeSystemCallback", handle=handle)
            client.ok("HcsStartComputeSystem", None, handle=handle)
            process = client.ok("HcsCreateProcess", documents.echo(), handle=handle)
            client.ok("HcsSetProcessCallback", handle=process.handle)
            assert process.read() == b"hello\r\n"
            client.wait_event(process.handle, PROCESS_EXITED)
            client.ok("HcsCloseProcess", handle=process.handle)
            client.ok("HcsShutDownComputeSystem", None, handle=handle)
            client.wait_event(handle, EXITED)
            client.ok("HcsCloseComputeSystem", handle=handle)
            client.events.clear()

    with WireClient(emulator.directory) as client:
        rounds(client, 50)
        before = _cost(emulator.pid)
        rounds(client, 150)
        after = _cost(emulator.pid)
    assert after[:2] == before[:2], "descriptors or threads grew"
    assert after[2] - before[2] < 1024, "memory grew by more than a megabyte in 150 rounds"
    assert not emulator.descendants()


def test_two_hundred_concurrent_containers_run(emulator: Emulator) -> None:
    with WireClient(emulator.directory) as client:
        handles = [
            client.ok("HcsCreateComputeSystem", f"many{number}", documents.container()).handle for number in range(200)
        ]
        starts = [client.begin("HcsStartComputeSystem", None, handle=handle) for handle in handles]
        assert {client.finish(start).hresult for start in starts} == {0}
        spawns = [client.begin("HcsCreateProcess", documents.sleeper(), handle=handle) for handle in handles]
        processes = [client.finish(spawn) for spawn in spawns]
        assert {process.hresult for process in processes} == {0}
        assert len({process.pid for process in processes}) == 200
        assert len(emulator.descendants()) == 400  # a silo and its process each
        ends = [client.begin("HcsTerminateComputeSystem", None, handle=handle) for handle in handles]
        assert {client.finish(end).hresult for end in ends} == {0}
    assert not emulator.descendants()


def test_memory_limit_breach_is_journalled(emulator: Emulator) -> None:
    with WireClient(emulator.directory) as client:
        handle = client.ok("HcsCreateComputeSystem", "greedy", documents.container(Memory={"SizeInMB": 32})).handle
        client.ok("HcsStartComputeSystem", None, handle=handle)
        (system,) = emulator.control("status")["systems"]
        if not system["LimitsEnforced"]["memory_bytes"]:
            (note,) = emulator.journal(event="LimitsNotEnforced")
            assert note["document"] == {"Limits": ["memory_bytes"]}
            return
        hungry = "sh -c \"x=0123456789abcdef; while :; do x=$x$x; done\""
        process = client.ok("HcsCreateProcess", {"CommandLine": hungry}, handle=handle)
        status = client.ok("HcsWaitForProcessExit", handle=process.handle, number=30000).document
        assert status["ExitCode"] == 0xC000012D  # STATUS_COMMITMENT_LIMIT
        (note,) = emulator.journal(event="MemoryLimitBreached")
        assert (note["target"], note["document"]["Memory"]) == ("greedy", {"SizeInMB": 32})
        assert emulator.control("status")["systems"][0]["MemoryLimitBreaches"] == 1
