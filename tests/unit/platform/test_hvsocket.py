"""The guest's log over a Hyper-V socket, and the sockets themselves."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.hcs_bindings.errors import HcsError
from shim.platform import hvsocket, time_zone
from shim.platform.windows import hvsocket as windows_hvsocket
from shim.uvm.gcs import stdio_listeners
from shim.uvm.gcs.log_forwarding import MAX_LINE, GuestLog

VM = "1f3c0a51-8a4e-4b59-8d21-5b9f6d7e8c90"
SERVICE = "172dad59-976d-45f2-8b6c-6d1b13f2ac4d"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path longer than a socket's may be, as pytest's are."""
    path = tmp_path / ("d" * 60)
    (path / "hvsock" / VM).mkdir(parents=True)
    monkeypatch.setenv("HCS_EMULATOR_DIR", str(path))
    return path / "hvsock" / VM


def dial(directory: Path, service: str = SERVICE) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    descriptor = os.open(directory, os.O_RDONLY)
    connection.connect(f"/proc/self/fd/{descriptor}/{service}")
    os.close(descriptor)
    return connection


class Log:
    def __init__(self) -> None:
        self.entries: list[tuple[str, str, dict[str, Any]]] = []
        self.changed = threading.Condition()

    def bind(self, **fields: Any) -> Log:
        assert fields == {"uvm-id": "pod@vm"}
        return self

    def __getattr__(self, level: str) -> Any:
        def write(text: str, **fields: Any) -> None:
            with self.changed:
                self.entries.append((level, text, fields))
                self.changed.notify()

        return write

    def expect(self, count: int) -> list[tuple[str, str, dict[str, Any]]]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.entries) >= count, 60), self.entries
        return self.entries


@pytest.fixture
def log(directory: Path) -> Iterator[Log]:
    log = Log()
    reader = GuestLog(hvsocket.listen(VM, SERVICE), log, "pod@vm")  # type: ignore[arg-type]
    yield log
    reader.close()
    assert not list(directory.iterdir())


def line(**fields: str) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def test_guest_log_lines_are_forwarded(directory: Path, log: Log) -> None:
    with dial(directory) as guest:
        guest.sendall(line(Level="Warning", Message="one", Source="gcs") + line(level="panic", msg="two")[:10])
        guest.sendall(line(level="panic", msg="two")[10:] + b"plain text\n\n")
    assert log.expect(3) == [
        ("warning", "one", {"guest_source": "gcs"}),
        ("error", "two", {}),  # a guest's panic is not the shim's
        ("info", "plain text", {}),
    ]


def test_guest_reconnect_continues_log(directory: Path, log: Log) -> None:
    for number in range(3):
        with dial(directory) as guest:
            guest.sendall(line(message=str(number)))
    assert [text for _, text, _ in log.expect(3)] == ["0", "1", "2"]


def test_log_line_without_newline_is_bounded(directory: Path, log: Log) -> None:
    with dial(directory) as guest:
        guest.sendall(b"x" * (MAX_LINE + 1))
        assert len(log.expect(1)[0][1]) > MAX_LINE


def test_close_wakes_accept(directory: Path) -> None:
    listener = hvsocket.listen(VM, SERVICE)
    failures: list[OSError] = []

    def wait() -> None:
        try:
            listener.accept(60)
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while thread.is_alive():
        time.sleep(0.01)
        listener.close()
    thread.join(60)
    assert len(failures) == 1 and not isinstance(failures[0], TimeoutError)
    assert not list(directory.iterdir())


def test_accept_without_client_times_out(directory: Path) -> None:
    listener = hvsocket.listen(VM, SERVICE)
    with pytest.raises(TimeoutError):
        listener.accept(0.01)
    listener.close()


def test_listen_for_unknown_vm_fails(directory: Path) -> None:
    with pytest.raises(OSError):
        hvsocket.listen("0" * 36, SERVICE)


def test_address_info_has_the_layout_of_the_driver() -> None:
    system, vm = "00112233-4455-6677-8899-aabbccddeeff", "8A25748F-CF34-4AC6-9EE2-C89400E886DB"
    data = windows_hvsocket.address_info(system, vm)
    assert data == uuid.UUID(system).bytes_le + uuid.UUID(vm).bytes_le + bytes(16) + b"\1\0\0\0"


class TestStreams:
    def test_service_ids_increase(self, directory: Path) -> None:
        streams = stdio_listeners.StdioListeners(VM)
        first = streams.listen(["StdIn", "StdOut"])
        second = streams.listen(["StdOut"])
        assert first.services == {
            "StdIn": "40000001-facb-11e6-bd58-64006a7986d3",
            "StdOut": "40000002-facb-11e6-bd58-64006a7986d3",
        }
        assert second.services == {"StdOut": "40000003-facb-11e6-bd58-64006a7986d3"}
        guest = [dial(directory, service) for service in first.services.values()]
        accepted = first.accept()
        guest[1].sendall(b"out")
        assert accepted["StdOut"].recv(10) == b"out"
        for connection in guest:
            connection.close()
        for stream in accepted.values():
            stream.close()
        first.close()
        second.close()
        assert not list(directory.iterdir())

    def test_guest_exit_before_connect_ends_wait(self, directory: Path) -> None:
        streams = stdio_listeners.StdioListeners(VM)
        awaited = streams.listen(["StdIn", "StdOut"])
        guest = dial(directory, awaited.services["StdIn"])
        threading.Timer(0.05, streams.close).start()
        with pytest.raises(HcsError, match="StdOut"):
            awaited.accept()
        assert guest.recv(1) == b""  # what had been connected is closed
        guest.close()
        with pytest.raises(HcsError, match="has exited"):
            streams.listen(["StdIn"])
        awaited.close()
        assert not list(directory.iterdir())


def test_time_zone_of_posix_host(monkeypatch: pytest.MonkeyPatch) -> None:
    utc = {"StandardName": "Coordinated Universal Time", "DaylightName": "Coordinated Universal Time"}
    try:
        for zone, expected in (("UTC", utc), ("XYZ-2", {"Bias": -120, "StandardName": "XYZ", "DaylightName": "XYZ"})):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert time_zone.host() == {**expected, "StandardDate": {}, "DaylightDate": {}}
    finally:
        monkeypatch.undo()
        time.tzset()


def test_time_zone_of_windows_host() -> None:
    def name(text: str) -> bytes:
        return text.encode("utf-16-le").ljust(64, b"\0")

    def date(*members: int) -> bytes:
        return b"".join(member.to_bytes(2, "little") for member in members)

    none = date(0, 0, 0, 0, 0, 0, 0, 0)
    west = (
        (-60).to_bytes(4, "little", signed=True)
        + name("W. Europe Standard Time") + date(0, 10, 0, 5, 3, 0, 0, 0) + bytes(4)
        + name("W. Europe Daylight Time") + date(0, 3, 0, 5, 2, 0, 0, 0) + (-60).to_bytes(4, "little", signed=True)
    )  # fmt: skip
    assert len(west) == 172
    assert time_zone.from_native(west) == {
        "Bias": -60, "StandardName": "W. Europe Standard Time", "StandardDate": {"Month": 10, "Day": 5, "Hour": 3},
        "DaylightName": "W. Europe Daylight Time", "DaylightDate": {"Month": 3, "Day": 5, "Hour": 2},
        "DaylightBias": -60,
    }  # fmt: skip
    # As it was recorded of Microsoft's shim.
    greenwich = bytes(4) + name("Greenwich Standard Time") + none + bytes(4) + name("Greenwich Daylight Time") + none
    assert time_zone.from_native(greenwich + (-60).to_bytes(4, "little", signed=True)) == {
        "StandardName": "Greenwich Standard Time", "StandardDate": {},
        "DaylightName": "Greenwich Daylight Time", "DaylightDate": {}, "DaylightBias": -60,
    }  # fmt: skip
