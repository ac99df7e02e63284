"""The boot of a Linux VM: the order of its connections, their content, and failures. HCS and the guest are fakes."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from shim import logs
from shim.container.ledger import Ledger
from shim.hcs_bindings import errors
from shim.hcs_bindings.errors import HcsError
from shim.oci.annotations.container import VM_BOOT_FILES
from shim.oci.spec import Spec
from shim.uvm import vm as vm_module
from shim.uvm.gcs import protocol
from shim.uvm.linux.boot_files import BootFiles
from shim.uvm.linux.guest import LinuxGuest
from shim.uvm.linux.settings import LinuxVmSettings
from shim.uvm.vm import Vm
from tests.support.eventually import eventually

RUNTIME_ID = "0a0b0c0d-1111-2222-3333-444455556666"
SERVICE = "{:08x}-facb-11e6-bd58-64006a7986d3"
ENTROPY, LOG, GCS = SERVICE.format(1), SERVICE.format(109), SERVICE.format(0x40000000)
CAPABILITIES = {"RuntimeOsType": "Linux", "GuestDefinedCapabilities": {"NamespaceAddRequestSupported": True}}


class Lines:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: bytes) -> None:
        self.lines.append(line.decode())

    def close(self) -> None:
        pass


class System:
    """A compute system whose start runs a guest in a thread."""

    def __init__(self, guest: Callable[[System], None]) -> None:
        self._guest = guest
        self._exit: Callable[[Any], None] | None = None
        self.calls: list[str] = []
        self.listening: list[str] = []

    def properties(self) -> dict[str, str]:
        return {"RuntimeId": RUNTIME_ID.upper()}

    def on_exit(self, callback: Callable[[Any], None]) -> None:
        self._exit = callback

    def start(self, timeout: float) -> None:
        self.calls.append("start")
        self.listening = sorted(os.listdir(hvsock()))
        Thread(target=self._guest, args=(self,), daemon=True).start()

    def exit(self) -> None:
        assert self._exit is not None

        class Exit:
            type, error = "UnexpectedExit", None

        self._exit(Exit())

    def terminate(self) -> bool:
        self.calls.append("terminate")
        return True

    def wait_exit(self, timeout: float) -> None:
        self.calls.append("wait")

    def close(self) -> None:
        self.calls.append("close")


def hvsock() -> Path:
    return Path(os.environ["HCS_EMULATOR_DIR"], "hvsock", RUNTIME_ID)


def connect(service: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    # By way of a descriptor: the path may be longer than a socket's address.
    directory = os.open(hvsock(), os.O_PATH)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{service}")
    finally:
        os.close(directory)
    return connection


def negotiate(connection: socket.socket) -> None:
    decoder = protocol.Decoder()
    (message,) = decoder.feed(connection.recv(65536))
    answer = {"Result": 0, "Version": 4, "Capabilities": CAPABILITIES}
    connection.sendall(protocol.encode(protocol.RESPONSE, protocol.NEGOTIATE_PROTOCOL, message.id, answer))


class Machine:
    def __init__(self, boot: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = Lines()
        self._monkeypatch = monkeypatch
        self._ledger = Ledger(str(bundle))
        spec = Spec({"linux": {}, "annotations": {VM_BOOT_FILES: str(boot)}})
        files = BootFiles(spec.annotations, kernel_direct=True)
        settings = LinuxVmSettings(spec, files, 2, 20348, lambda sentence: None)
        self.guest = LinuxGuest(settings, logs.Log(self.log, logs.INFO))

    def boot(self, guest: Callable[[System], None]) -> tuple[Vm, System]:
        self.system = System(guest)
        self._monkeypatch.setattr(vm_module, "create_system", lambda *arguments: self.system)
        return Vm.boot("c1@vm", self.guest, self._ledger, logs.Log(self.log, logs.INFO)), self.system

    def refusal(self, guest: Callable[[System], None]) -> HcsError:
        with pytest.raises(HcsError) as caught:
            self.boot(guest)
        return caught.value


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setenv("HCS_EMULATOR_DIR", str(tmp_path))
    hvsock().mkdir(parents=True)
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    yield Machine(tmp_path, bundle, monkeypatch)


def test_guest_gets_entropy_then_connects_log_and_gcs(machine: Machine) -> None:
    received: dict[str, Any] = {}

    def guest(system: System) -> None:
        with connect(ENTROPY) as entropy:
            data = b""
            while piece := entropy.recv(4096):
                data += piece
        received["entropy"] = data
        received["log"] = connect(LOG)
        received["log"].sendall(json.dumps({"level": "info", "msg": "guest is up", "time": "t"}).encode() + b"\n")
        received["gcs"] = connect(GCS)
        negotiate(received["gcs"])

    vm, system = machine.boot(guest)
    assert system.listening == sorted([ENTROPY, LOG, GCS]), "all listen before the VM starts"
    assert len(received["entropy"]) == 512 and len(set(received["entropy"])) > 100
    assert sorted(os.listdir(hvsock())) == [GCS]
    eventually(lambda: any("guest is up" in line for line in machine.log.lines), "the guest's entry")
    assert vm.gcs.supports("NamespaceAddRequestSupported")
    received["log"].sendall(b"panic: out of luck\n")
    received["log"].close()
    vm.close()
    assert system.calls == ["start", "terminate", "wait", "close"]
    (line,) = [line for line in machine.log.lines if "gcs terminated" in line]
    assert "panic: out of luck" in line and "uvm-id=" in line
    assert os.listdir(hvsock()) == []


def test_guest_without_entropy_connection_times_out(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HCSSHIM_TIMEOUT_GCSCONNECTION", "1")
    error = machine.refusal(lambda system: None)
    assert error.code == errors.OPERATION_TIMEOUT
    assert str(error).startswith("failed to connect to entropy socket: ")
    assert machine.system.calls == ["start", "terminate", "wait", "close"]
    assert os.listdir(hvsock()) == []


def test_guest_without_log_connection_times_out(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HCSSHIM_TIMEOUT_GCSCONNECTION", "1")
    kept: list[socket.socket] = []
    error = machine.refusal(lambda system: kept.extend((connect(ENTROPY), connect(GCS))))
    assert str(error).startswith("failed to connect to log socket: ")


def test_guest_without_gcs_connection_times_out(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HCSSHIM_TIMEOUT_GCSCONNECTION", "1")
    kept: list[socket.socket] = []
    error = machine.refusal(lambda system: kept.extend((connect(ENTROPY), connect(LOG))))
    assert error.code == errors.OPERATION_TIMEOUT
    assert os.listdir(hvsock()) == []


@pytest.mark.parametrize("services", [(), (ENTROPY,), (ENTROPY, LOG)])
def test_vm_that_exits_while_it_boots_fails_at_once(machine: Machine, services: tuple[str, ...]) -> None:
    kept: list[socket.socket] = []

    def guest(system: System) -> None:
        for service in services:
            kept.append(connect(service))
            if service == ENTROPY:
                while kept[-1].recv(4096):
                    pass
        system.exit()

    error = machine.refusal(guest)
    assert error.code == errors.UNEXPECTED_EXIT and "while it was booting" in str(error)
    eventually(lambda: os.listdir(hvsock()) == [], "the end of all listeners, in the thread of the exit")


def test_guest_that_closes_entropy_connection_still_boots(machine: Machine) -> None:
    kept: list[socket.socket] = []

    def guest(system: System) -> None:
        connect(ENTROPY).close()
        kept.extend((connect(LOG), connect(GCS)))
        negotiate(kept[-1])

    vm, _ = machine.boot(guest)
    vm.close()


def test_open_log_connection_does_not_delay_the_close(machine: Machine) -> None:
    """A guest that goes on writing, and an end of the VM that does not close its connections."""
    kept: list[socket.socket] = []

    def guest(system: System) -> None:
        kept.extend((connect(ENTROPY), connect(LOG), connect(GCS)))
        negotiate(kept[-1])

    vm, _ = machine.boot(guest)
    written = threading.Event()

    def write() -> None:
        line = json.dumps({"level": "info", "msg": "noise"}).encode() + b"\n"
        try:
            while True:
                kept[1].sendall(line * 100)
                written.set()
        except OSError:
            pass  # the shim has closed it

    writer = Thread(target=write, daemon=True)
    writer.start()
    assert written.wait(10)
    begin = time.monotonic()
    vm.close()
    assert time.monotonic() - begin < 10
    writer.join(10)
    assert not writer.is_alive()
    assert len(machine.log.lines) < 10_000, "the log is limited in rate"


def test_windows_guest_is_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CAPABILITIES, "RuntimeOsType", "Windows")
    kept: list[socket.socket] = []

    def guest(system: System) -> None:
        kept.extend((connect(ENTROPY), connect(LOG), connect(GCS)))
        negotiate(kept[-1])

    assert "the guest runs windows, not linux" in str(machine.refusal(guest))
