"""Parsers of untrusted input as functions of bytes: each accepts any input, or raises what its callers expect.

`PARSERS` has them by name. Anything else that one raises, and any broken promise that it checks, is a finding.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from hcs_emulator.service.transport.wire import RequestReader, WireError
from hcs_emulator.vm import bridge_frames
from shim import api, lean_json
from shim.__main__ import parse
from shim.api.wire import DecodeError, Message
from shim.commands import CommandError, Flags, decode_bootstrap
from shim.container import process_document
from shim.container.ledger import FILE, Ledger
from shim.container.registry_hive import Hive, HiveError
from shim.hcs_bindings import errors, process, strings, system
from shim.hcs_bindings.errors import HcsError
from shim.logs import Log
from shim.oci import options
from shim.oci import spec as oci_spec
from shim.oci.annotations import container, linux, vm
from shim.oci.annotations.container import Annotations
from shim.oci.annotations.table import module_rows
from shim.oci.errors import InvalidSpec
from shim.task import exit_record
from shim.task.stats import linux_messages, messages
from shim.task.stdio import log_uri
from shim.ttrpc.status import StatusError
from shim.ttrpc.streams import ClientStreams, ServerStreams
from shim.uvm.gcs import members, protocol
from shim.uvm.gcs.log_forwarding import GuestLog
from shim.uvm.linux import process_parameters, users
from shim.uvm.linux.boot_files import BootFiles
from shim.uvm.linux.log_connection import Entries
from shim.uvm.linux.settings import LinuxVmSettings
from shim.uvm.windows.settings import WindowsVmSettings
from tests.fuzz.conversations import guest_bridge, handovers, hcs_events
from tests.fuzz.tool_parsers import agent_reports, recordings

Parser = Callable[[bytes], None]


def ttrpc_frames(data: bytes) -> None:
    """The same events whether the bytes arrive at once or in pieces, and a bounded buffer."""
    for streams in (ServerStreams, ClientStreams):
        whole, pieces = streams(), streams()
        if isinstance(whole, ClientStreams) and isinstance(pieces, ClientStreams):
            for _ in range(2):
                whole.open()
                pieces.open()
        at_once = list(whole.receive(data))
        middle = len(data) // 3
        one_by_one = [event for part in (data[:middle], data[middle:]) for event in pieces.receive(part)]
        assert at_once == one_by_one


def _message_classes() -> list[type[Message]]:
    import importlib
    import pkgutil

    found: list[type[Message]] = []
    for module in pkgutil.iter_modules(api.__path__):
        for value in vars(importlib.import_module(f"shim.api.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message and value not in found:
                found.append(value)
    return sorted(found, key=lambda one: f"{one.__module__}.{one.__name__}")


_MESSAGES = _message_classes()


def protobuf(data: bytes) -> None:
    """The first byte chooses the message. What can be decoded is encoded to something that decodes to the same."""
    if not data:
        return
    kind = _MESSAGES[data[0] % len(_MESSAGES)]
    try:
        decoded = kind.decode(data[1:])
    except DecodeError:
        return
    encoded = decoded.encode()
    assert kind.decode(encoded).encode() == encoded


def toml_options(data: bytes) -> None:
    try:
        options.from_toml(data, "options.toml")
    except InvalidSpec as error:
        assert str(error)


_ROWS = [row for module in (container, vm, linux) for row in module_rows(module).values()]


def annotations(data: bytes) -> None:
    """Every annotation with this value, by every reader."""
    text = data.decode("utf-8", "surrogateescape")
    for row in _ROWS:
        values = Annotations({row: text})
        for read in (values.text, values.flag, values.number, values.numbers, values.texts, values.guid):
            try:
                read(row)
            except InvalidSpec as error:
                assert str(error)


def config_json(data: bytes) -> None:
    try:
        spec = oci_spec.Spec(oci_spec.parse(data, "config.json"))
        for read in (
            lambda: spec.pod_role, lambda: spec.sandbox_id, lambda: spec.requested_build, lambda: spec.windows,
            lambda: spec.linux, lambda: spec.root, lambda: spec.hostname, lambda: spec.mounts, lambda: spec.process,
            lambda: spec.is_isolated, lambda: spec.is_host_process,
        ):  # fmt: skip
            read()
    except (InvalidSpec, StatusError) as error:
        assert str(error)


def vm_settings(data: bytes) -> None:
    """A spec with these annotations: the settings of a VM with either guest."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(found, dict):
        return
    document = {"annotations": {name: value for name, value in found.items() if isinstance(value, str)}}
    for read in (_windows_settings, _linux_settings):
        try:
            read(oci_spec.Spec({**document, "windows": {"hyperv": {}}}))
        except (InvalidSpec, StatusError) as error:
            assert str(error)


def _windows_settings(spec: oci_spec.Spec) -> None:
    WindowsVmSettings(spec, 8, 20348, lambda text: None)


def _linux_settings(spec: oci_spec.Spec) -> None:
    boot = BootFiles(spec.annotations, kernel_direct=True)
    LinuxVmSettings(spec, boot, 8, 20348, lambda text: None)


def exec_process(data: bytes) -> None:
    """The process of an exec, as parameters for either guest."""
    try:
        process = oci_spec.parse_process(data)
        process_document.parameters(process, stdin=True, stdout=True, stderr=False, terminal=None)
        process_parameters.exec_parameters(process, stdin=True, stdout=True, stderr=False, terminal=None)
    except (InvalidSpec, StatusError) as error:
        assert str(error)


def start_stdin(data: bytes) -> None:
    """What containerd writes to a `start`: options in one of two forms."""
    flags = Flags()
    flags.id, flags.namespace = "c1", "n"
    try:
        decode_bootstrap(flags, data)
    except CommandError as error:
        assert str(error)


def guest_messages(data: bytes) -> None:
    """Frames of a hostile guest: as responses to every request, and as notifications."""
    try:
        received = protocol.Decoder().feed(data)
    except protocol.ProtocolError:
        return
    for message in received:
        for procedure in protocol.NAMES:
            try:
                members.check_response(procedure, message.body)
                members.number(message.body, "Result")
            except protocol.ProtocolError:
                pass
        try:
            members.check_notification(message.body)
        except protocol.ProtocolError:
            pass


def guest_properties(data: bytes) -> None:
    """Properties of a container in a VM, down to the messages of Stats."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(found, dict):
        return
    try:
        members.check_properties(found)
    except protocol.ProtocolError:
        return
    statistics = found.get("Statistics") or {}
    messages.windows_statistics(statistics).encode()
    linux_messages.metrics(found).encode()


def linux_guest_log(data: bytes) -> None:
    entries = Entries(Log(_Channel()))
    entries.feed(data)
    entries.end()


class _Channel:
    """Every line in the log is one line of printable text."""

    def write(self, line: bytes) -> None:
        text = line.decode("utf-8")
        assert text.endswith("\n") and text.count("\n") == 1
        assert all(char.isprintable() for char in text[:-1]), text

    def close(self) -> None:
        pass


def windows_guest_log(data: bytes) -> None:
    log = GuestLog.__new__(GuestLog)
    log._log = Log(_Channel())
    from shim.uvm.gcs.guest_entries import RateLimit

    log._rate = RateLimit(log._log)
    for line in data.split(b"\n"):
        log._emit(line)


def hcs_documents(data: bytes) -> None:
    """Results and events of HCS: an exit is an exit, whatever the document says."""
    text = data.decode("utf-8", "replace")
    for decode in (system._decode_exit, process._decode_exit):
        assert -1 <= decode(text, "fuzz").code <= 0xFFFFFFFF
    assert str(errors.from_document(0x80370100, "fuzz", text))
    try:
        strings.load_object(text, "fuzz")
    except HcsError:
        pass


def json_values(data: bytes) -> None:
    """The lean parser accepts what the standard library accepts, and returns the same."""
    try:
        expected = json.dumps(json.loads(data.decode("utf-8"), parse_constant=_refuse))
    except (ValueError, RecursionError):
        expected = ""
    try:
        found = json.dumps(lean_json.loads(data))
    except (ValueError, RecursionError):
        found = ""
    assert found == expected


def _refuse(name: str) -> float:
    raise ValueError(name)


def ledger(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, FILE).write_bytes(data)
        held = Ledger(directory)
        entry = held.enter("system", id="c1")
        assert entry.number in {one.number for one in Ledger(directory).entries()}


def exit_records(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, exit_record.FILE_NAME).write_bytes(data)
        found = exit_record.read(directory)
        assert found is None or len(found) == 4


def command_line(data: bytes) -> None:
    arguments = data.decode("utf-8", "surrogateescape").split("\0")
    try:
        parse(arguments)
    except CommandError as error:
        assert str(error)


def stdio_uris(data: bytes) -> None:
    try:
        log_uri.parse("stdout", data.decode("utf-8", "surrogateescape"))
    except (StatusError, InvalidSpec) as error:
        assert str(error)


def user_names(data: bytes) -> None:
    """A name of a spec, and the two files of an image, with a zero byte between them."""
    name, passwd, group, *_ = [*data.decode("utf-8", "replace").split("\0"), "", ""]
    try:
        uid, gid = users.resolve(name, {"passwd": passwd, "group": group}.__getitem__)
    except InvalidSpec as error:
        assert str(error)
    else:
        assert 0 <= uid < 1 << 32 and 0 <= gid < 1 << 32


def registry_hive(data: bytes) -> None:
    try:
        Hive(io.BytesIO(data)).text("Microsoft\\Windows NT\\CurrentVersion", "CurrentBuildNumber")  # type: ignore[arg-type]
    except HiveError:
        pass


def emulator_requests(data: bytes) -> None:
    try:
        list(RequestReader().feed(data))
    except WireError as error:
        assert str(error)


def emulator_frames(data: bytes) -> None:
    """Frames of the GCS bridge, as the emulator's guest reads them."""
    try:
        list(bridge_frames.Reader().feed(data))
    except bridge_frames.FrameError as error:
        assert str(error)


PARSERS: dict[str, Parser] = {
    parser.__name__.replace("_", "-"): parser
    for parser in (
        ttrpc_frames, protobuf, toml_options, annotations, config_json, guest_messages, guest_properties,
        linux_guest_log, windows_guest_log, hcs_documents, json_values, ledger, exit_records, command_line, stdio_uris,
        user_names, registry_hive, emulator_requests, emulator_frames, vm_settings, exec_process, start_stdin,
        hcs_events, guest_bridge, handovers, agent_reports, recordings,
    )
}  # fmt: skip
