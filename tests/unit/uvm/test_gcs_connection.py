"""A GCS connection to a scripted guest: the messages it sends, document by document, and what the responses become."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from shim.hcs_bindings import errors
from shim.hcs_bindings.errors import HcsError
from shim.logs import Log, NullChannel
from shim.oci.annotations import vm as names
from shim.oci.spec import Spec
from shim.platform import time_zone
from shim.platform.linux.hvsocket import Stream
from shim.task.stats.messages import windows_statistics
from shim.uvm.gcs import connection, members, protocol
from shim.uvm.gcs.connection import GcsConnection
from shim.uvm.windows.boot_files import BootFiles
from shim.uvm.windows.guest import WindowsGuest
from shim.uvm.windows.settings import WindowsVmSettings

NULL = "00000000-0000-0000-0000-000000000000"
RUNTIME_ID = "1f3c0a51-8a4e-4b59-8d21-5b9f6d7e8c90"
CAPABILITIES = {
    "SendHostCreateMessage": True,
    "SendHostStartMessage": True,
    "RuntimeOsType": "Windows",
    "GuestDefinedCapabilities": {"SignalProcessSupported": True},
}


class Script:
    """The guest's end: responds by procedure, and records requests."""

    def __init__(self) -> None:
        ours, self._socket = socket.socketpair()
        self.received: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, dict[str, Any]] = {
            "NegotiateProtocol": {"Version": 4, "Capabilities": CAPABILITIES},
        }
        self.silent: set[str] = set()
        self.closed: list[str] = []
        self.arrived = threading.Event()
        self._server = threading.Thread(target=self._serve, daemon=True)
        self._server.start()
        self.gcs = GcsConnection(Stream(ours), self.closed.append)

    def _serve(self) -> None:
        decoder = protocol.Decoder(limit=1 << 24)
        while data := self._socket.recv(65536):
            for message in decoder.feed(data):
                name = protocol.NAMES[message.procedure]
                assert message.body.pop("ActivityId") == NULL
                self.received.append((name, message.body))
                self.arrived.set()
                if name not in self.silent:
                    body = {"Result": 0, **self.answers.get(name, {})}
                    self._send(protocol.RESPONSE, message.procedure, message.id, body)

    def _send(self, kind: int, procedure: int, id: int, body: dict[str, Any]) -> None:
        self._socket.sendall(protocol.encode(kind, procedure, id, body))

    def notify(self, container: str) -> None:
        body = {"ContainerId": container, "Type": "UnexpectedExit", "Operation": "None", "Result": 0}
        self._send(protocol.NOTIFICATION, protocol.CONTAINER_NOTIFICATION, 0, body)

    def hang_up(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.gcs.close()  # which the server sees
        self._server.join(60)
        self._socket.close()


@pytest.fixture
def script() -> Iterator[Script]:
    script = Script()
    yield script
    script.close()


def refused(call: Callable[[], Any]) -> HcsError:
    with pytest.raises(HcsError) as caught:
        call()
    return caught.value


def windows_guest(script: Script, **annotations: str) -> WindowsGuest:
    spec = Spec({"annotations": {getattr(names, name): value for name, value in annotations.items()}})
    log = Log(NullChannel())
    guest = WindowsGuest(WindowsVmSettings(spec, 8, 20348, log.warning), BootFiles("", "", ""), 0, spec, log)
    guest.vm = SimpleNamespace(gcs=script.gcs, id="vm", runtime_id=RUNTIME_ID)  # type: ignore[assignment]
    return guest


def test_windows_guest_initialize_sends_time_zone_and_addresses(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_zone, "host", lambda: {"Bias": -60})
    script.gcs.negotiate("windows", 10)
    windows_guest(script).initialize(10)
    document = json.loads(script.received[1][1].pop("ContainerConfig"))
    assert document == {"SystemType": "Container", "TimeZoneInformation": {"Bias": -60}}
    settings = {"LocalAddress": RUNTIME_ID, "ParentAddress": "894cc2d6-9d79-424f-93fe-42969ae6d8d1"}
    assert script.received == [
        ("NegotiateProtocol", {"ContainerId": "", "MinimumVersion": 4, "MaximumVersion": 4}),
        ("Create", {"ContainerId": NULL}),
        ("Start", {"ContainerId": NULL}),
        (
            "ModifySettings",
            {
                "ContainerId": NULL,
                "Request": {"RequestType": "Update", "ResourceType": "HvSocket", "Settings": settings},
            },
        ),
    ]
    assert script.gcs.supports("SignalProcessSupported") and not script.gcs.supports("DumpStacksSupported")


def test_windows_guest_initialize_without_capabilities_sends_addresses_only(script: Script) -> None:
    script.answers["NegotiateProtocol"] = {"Version": 4, "Capabilities": {}}
    script.gcs.negotiate("windows", 10)
    windows_guest(script).initialize(10)
    assert [name for name, _ in script.received] == ["NegotiateProtocol", "ModifySettings"]


def test_windows_guest_initialize_starts_log_forwarding(script: Script) -> None:
    capabilities = {"GuestDefinedCapabilities": {"LogForwardingSupported": True}}
    script.answers["NegotiateProtocol"] = {"Version": 4, "Capabilities": capabilities}
    script.gcs.negotiate("windows", 10)
    guest = windows_guest(script, FORWARD_LOGS="true")
    guest.settings.log_sources = "e30="
    guest.initialize(10)
    service = {"ContainerId": NULL, "PropertyType": "LogForwardService"}
    assert script.received[2:] == [
        ("ModifyServiceSettings", {**service, "Settings": {"RPCType": "ModifyServiceSettings", "Settings": "e30="}}),
        ("ModifyServiceSettings", {**service, "Settings": {"RPCType": "StartLogForwarding"}}),
    ]


@pytest.mark.parametrize("answer", [{"Version": 3}, {}, {"Version": 4, "Capabilities": {"RuntimeOsType": "Linux"}}])
def test_negotiate_refuses_other_version_or_os(script: Script, answer: dict[str, Any]) -> None:
    script.answers["NegotiateProtocol"] = answer
    assert refused(lambda: script.gcs.negotiate("windows", 10)).code == errors.UNEXPECTED


def test_container_and_process_messages(script: Script) -> None:
    script.answers["ExecuteProcess"] = {"ProcessId": 1001}
    script.answers["GetProperties"] = {"Properties": json.dumps({"ProcessList": [{"ProcessId": 1001}]})}
    gcs = script.gcs
    gcs.create_container("c1", {"Container": {}})
    gcs.start_container("c1")
    assert gcs.execute("c1", {"CommandLine": "cmd"}, {"StdioRelaySettings": {"StdOut": "s1"}}) == 1001
    gcs.signal("c1", 1001, {"Signal": "CtrlC"})
    gcs.signal("c1", 1001, None)
    gcs.resize("c1", 1001, 25, 80)
    assert gcs.properties("c1", "ProcessList") == {"ProcessList": [{"ProcessId": 1001}]}
    gcs.modify("c1", {"ResourcePath": "Container/Processor"})
    gcs.shut_down_container("c1", force=False)
    gcs.shut_down_container("c1", force=True)
    gcs.delete_container_state("c1")
    c1 = {"ContainerId": "c1"}
    process = {**c1, "ProcessId": 1001}
    assert script.received == [
        ("Create", {**c1, "ContainerConfig": '{"Container":{}}'}),
        ("Start", c1),
        (
            "ExecuteProcess",
            {
                **c1,
                "Settings": {"ProcessParameters": '{"CommandLine":"cmd"}', "StdioRelaySettings": {"StdOut": "s1"}},
            },
        ),
        ("SignalProcess", {**process, "Options": {"Signal": "CtrlC"}}),
        ("SignalProcess", process),
        ("ResizeConsole", {**process, "Height": 25, "Width": 80}),
        ("GetProperties", {**c1, "Query": '{"PropertyTypes":["ProcessList"]}'}),
        ("ModifySettings", {**c1, "Request": {"ResourcePath": "Container/Processor"}}),
        ("ShutdownGraceful", c1),
        ("ShutdownForced", c1),
        ("DeleteContainerState", c1),
    ]


def test_process_exit_calls_back_once(script: Script) -> None:
    codes: list[int] = []
    reported = threading.Event()
    script.answers["WaitForProcess"] = {"ExitCode": 7}
    script.gcs.on_process_exit("c1", 1001, lambda code: (codes.append(code), reported.set()))
    assert reported.wait(60) and codes == [7]
    assert script.received == [("WaitForProcess", {"ContainerId": "c1", "ProcessId": 1001, "TimeoutInMs": 0xFFFFFFFF})]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"Result": -2147023728, "ExitCode": 7}, 7),  # 0x80070490
        ({"Result": 0x80070490}, 0),
        ({"Result": -1070137074, "ExitCode": 7}, -1),  # 0xC037010E
    ],
)
def test_process_that_exited_before_the_wait(script: Script, answer: dict[str, int], code: int) -> None:
    codes: list[int] = []
    reported = threading.Event()
    script.answers["WaitForProcess"] = answer
    script.gcs.on_process_exit("c1", 1001, lambda code: (codes.append(code), reported.set()))
    assert reported.wait(60) and codes == [code]


def test_failure_that_a_linux_guest_explains_has_only_its_words(script: Script) -> None:
    system = {"RuntimeOsType": "Linux"}
    script.answers["NegotiateProtocol"] = {"Version": 4, "Capabilities": system}
    script.gcs.negotiate("linux", 60)
    words = "failed to create container: runc create failed: exec: no-such: executable file not found in $PATH"
    script.answers["Create"] = {"Result": -2147467259, "ErrorMessage": words, "ErrorRecords": [{"Message": "x"}]}
    error = refused(lambda: script.gcs.create_container("c1", {}))
    assert str(error) == f"guest RPC failure: {words}" and error.code == 0x80004005


def test_failed_response_raises_hcs_error(script: Script) -> None:
    record = {"Result": -1, "Message": "no such container", "ModuleName": "gcs"}
    script.answers["Start"] = {"Result": -1070137074, "ErrorMessage": "x", "ErrorRecords": [record]}  # 0xC037010E
    error = refused(lambda: script.gcs.start_container("c1"))
    assert errors.is_not_exist(error)
    assert str(error).startswith("guest RPC failure: Start c1: ") and "no such container" in str(error)
    script.answers["GetProperties"] = {"Properties": "nonsense"}
    assert refused(lambda: script.gcs.properties("c1")).code == errors.UNEXPECTED


@pytest.mark.parametrize(
    ("procedure", "answer", "call"),
    [
        ("NegotiateProtocol", {"Version": "4"}, lambda gcs: gcs.negotiate("windows", 10)),
        ("NegotiateProtocol", {"Version": 4, "Capabilities": [1]}, lambda gcs: gcs.negotiate("windows", 10)),
        (
            "NegotiateProtocol",
            {"Version": 4, "Capabilities": {"GuestDefinedCapabilities": "x"}},
            lambda gcs: gcs.negotiate("windows", 10),
        ),
        (
            "NegotiateProtocol",
            {"Version": 4, "Capabilities": {"RuntimeOsType": 5}},
            lambda gcs: gcs.negotiate("windows", 10),
        ),
        ("ExecuteProcess", {"ProcessId": "1001"}, lambda gcs: gcs.execute("c1", {}, {})),
        ("GetProperties", {"Properties": {}}, lambda gcs: gcs.properties("c1")),
        ("DumpStacks", {"GuestStacks": ["x"]}, lambda gcs: gcs.stacks(10)),
        ("ModifySettings", {"Result": None, "ErrorRecords": 5}, lambda gcs: gcs.modify_vm("Network", "Remove", {})),
        ("ShutdownGraceful", {"Result": "x"}, lambda gcs: gcs.shut_down_container("c1", force=False)),
    ],
)
def test_ill_typed_response_raises_hcs_error_and_ends_connection(
    script: Script, procedure: str, answer: dict[str, Any], call: Callable[[GcsConnection], Any]
) -> None:
    exited = threading.Event()
    codes: list[int] = []
    script.silent = {"WaitForProcess"}
    script.gcs.on_container_exit("c1", exited.set)
    script.gcs.on_process_exit("c1", 1, codes.append)
    script.answers[procedure] = answer
    assert errors.is_already_stopped(refused(lambda: call(script.gcs)))
    assert exited.wait(60) and codes == [-1] and script.gcs.is_closed
    assert "violated the bridge protocol" in script.closed[0]


@pytest.mark.parametrize("answer", [{"ExitCode": [1]}, {"ExitCode": "x"}, {"Result": "x"}, {"Result": [1]}])
def test_ill_typed_exit_reports_unknown_exit_and_ends_connection(script: Script, answer: dict[str, Any]) -> None:
    codes: list[int] = []
    reported = threading.Event()
    script.answers["WaitForProcess"] = answer
    script.gcs.on_process_exit("c1", 1001, lambda code: (codes.append(code), reported.set()))
    assert reported.wait(60) and codes == [-1]
    assert errors.is_already_stopped(refused(lambda: script.gcs.start_container("c1")))


def test_properties_nested_too_deeply_raise_hcs_error(script: Script) -> None:
    script.answers["GetProperties"] = {"Properties": "[" * 30000}
    assert refused(lambda: script.gcs.properties("c1")).code == errors.UNEXPECTED


@pytest.mark.parametrize(
    "properties",
    [
        {"SystemGUID": 5},
        {"SystemGUID": "../../../etc/cron.d/x"},
        {"SystemGUID": "/etc/cron.d/x"},
        {"SystemGUID": "11111111-2222-3333-4444-55555555555"},
        {"SystemGUID": "11111111-2222-3333-4444-55555555555/"},
        {"SystemGUID": "11111111-2222-3333-4444-555555555555\n"},
        {"SystemGUID": "00000000-0000-0000-0000-000000000000"},
        {"SystemGUID": "A42E7CDA-D03F-480C-9CC2-A4DE20ABB878"},
        {"Statistics": [1]},
        {"Statistics": {"Uptime100ns": "x"}},
        {"Statistics": {"Uptime100ns": 1 << 70}},
        {"Statistics": {"Timestamp": 5}},
        {"Statistics": {"Processor": "x"}},
        {"Statistics": {"Processor": {"TotalRuntime100ns": 1.5}}},
        {"Statistics": {"Memory": {"MemoryUsageCommitBytes": -1}}},
        {"Statistics": {"Storage": {"ReadSizeBytes": True}}},
        {"ProcessList": {}},
        {"ProcessList": [5]},
        {"ProcessList": [{"ProcessId": [1]}]},
        {"ProcessList": [{"ImageName": 5}]},
        {"ProcessList": [{"UserTime100ns": "x"}]},
    ],
)
def test_ill_typed_properties_raise_hcs_error(script: Script, properties: dict[str, Any]) -> None:
    """Only this call fails: what the guest says about a container is of no use, but everything else goes on."""
    script.answers["GetProperties"] = {"Properties": json.dumps(properties)}
    assert refused(lambda: script.gcs.properties("c1")).code == errors.UNEXPECTED
    assert not script.gcs.is_closed


def test_guid_in_properties_is_read_in_lower_case(script: Script) -> None:
    script.answers["GetProperties"] = {"Properties": json.dumps({"SystemGUID": "1111111A-2222-3333-4444-55555555555B"})}
    found = script.gcs.properties("c1", "SystemGUID")
    assert members.guid(found, "SystemGUID") == "1111111a-2222-3333-4444-55555555555b"
    assert members.guid({}, "SystemGUID") == ""


def test_forgotten_process_exit_holds_nothing(script: Script) -> None:
    """A guest that never reports the exits of execs must not make the shim keep them."""
    codes: list[int] = []
    script.silent.add("WaitForProcess")
    forget = script.gcs.on_process_exit("c1", 1001, codes.append)
    assert len(script.gcs._bridge._calls) == 1
    forget()
    assert not script.gcs._bridge._calls
    forget()
    script.gcs.close()
    assert codes == []


def test_null_in_properties_counts_as_absent(script: Script) -> None:
    given = {"Statistics": {"Uptime100ns": None, "Processor": {"TotalRuntime100ns": None}}, "ProcessList": None}
    script.answers["GetProperties"] = {"Properties": json.dumps(given)}
    found = script.gcs.properties("c1")
    assert found["Statistics"] == {"Processor": {}} and not found["ProcessList"]
    assert windows_statistics(found["Statistics"]).uptime_ns == 0


def test_exit_callback_that_raises_does_not_keep_others_from_being_called(script: Script) -> None:
    exited: list[str] = []

    def fail() -> None:
        raise KeyError("unexpected")

    script.gcs.on_container_exit("c1", fail)
    script.gcs.on_container_exit("c2", lambda: exited.append("c2"))
    with pytest.raises(KeyError):
        script.gcs.close()
    assert exited == ["c2"] and len(script.closed) == 1


def test_shutdown_timeout_keeps_connection_open(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SHUTDOWN_SECONDS", 0.05)
    script.silent = {"ShutdownGraceful"}
    assert errors.is_timeout(refused(lambda: script.gcs.shut_down_container("c1", force=False)))
    script.gcs.start_container("c1")
    assert not script.gcs.is_closed


def test_connection_loss_ends_calls_containers_and_processes(script: Script) -> None:
    exited: list[str] = []
    codes: list[int] = []
    script.silent = {"WaitForProcess", "Start"}
    script.gcs.on_container_exit("c1", lambda: exited.append("c1"))
    script.gcs.on_container_exit("c2", lambda: exited.append("c2"))
    script.gcs.on_process_exit("c1", 1, codes.append)
    failures: list[HcsError] = []
    waiting = threading.Thread(target=lambda: failures.append(refused(lambda: script.gcs.start_container("c1"))))
    waiting.start()
    while [name for name, _ in script.received] != ["WaitForProcess", "Start"]:
        assert script.arrived.wait(60)
    script.hang_up()
    waiting.join(60)
    assert errors.is_already_stopped(failures[0]) and errors.is_process_exited(failures[0])
    assert sorted(exited) == ["c1", "c2"] and codes == [-1] and script.gcs.is_closed
    assert script.closed == ["the guest closed its connection"]
    # Later calls fail at once.
    assert errors.is_already_stopped(refused(lambda: script.gcs.create_container("c3", {})))
    script.gcs.on_container_exit("c3", lambda: exited.append("c3"))
    script.gcs.on_process_exit("c3", 2, codes.append)
    assert "c3" in exited and codes == [-1, -1]


def test_container_exit_calls_back_once(script: Script) -> None:
    ended = threading.Event()
    count: list[int] = []
    script.gcs.on_container_exit("c1", lambda: (count.append(1), ended.set()))
    script.notify("other")
    script.notify("c1")
    script.notify("c1")
    assert ended.wait(60)
    script.gcs.start_container("x")  # all notices have been read
    assert count == [1]
