"""Single calls: the client that times them, time in HCS by their spans, and the forms of stdin of `start`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness.candidates import COLD, STANDBY, Candidate
from bench.harness.dialects import DIALECTS
from bench.harness.direct_client import DirectClient
from bench.harness.goals import goals_of
from bench.harness.spans import Span
from bench.measures import later_calls, start_formats
from bench.measures.call_session import CALLS, Sample, hcs_milliseconds
from bench.measures.start_formats import FORMATS, OTHER_NAME, as_run_by, options_of
from shim.api.bootstrap import BootstrapParams
from shim.api.packing import type_name
from shim.api.wellknown import Any as PackedAny
from shim.commands import Flags, bootstrap
from shim.ttrpc.server import Call, Method, Server
from shim.ttrpc.status import NOT_FOUND, ClosedError, StatusError

SERVICE = "test.Service"
OURS = Candidate(COLD, Path("/usr/bin/containerd-shim-runhcs-v1"))
RUNC = Candidate("runc 2.3.4", Path("/usr/bin/containerd-shim-runc-v2"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Echo answers at once, Wait when Kill is called."""
    killed = threading.Event()

    def missing(call: Call) -> bytes:
        raise StatusError(NOT_FOUND, "no such task")

    def wait(call: Call) -> bytes:
        assert killed.wait(60)
        return b"exited"

    def kill(call: Call) -> bytes:
        killed.set()
        return b""

    methods = {
        "Echo": Method.inline(lambda call: call.payload),
        "Missing": Method.inline(missing),
        "Wait": Method.worker(wait),
        "Kill": Method.inline(kill),
    }
    path = str(tmp_path / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(8)
    server = Server({SERVICE: methods})
    threading.Thread(target=server.serve, args=(listener,), daemon=True).start()
    yield path
    server.shutdown(5)


def test_direct_client_returns_payload_and_time(server: str) -> None:
    client = DirectClient(server)
    large = bytes(200_000)  # more than one read
    for payload in (b"\n\x01x", large, b""):
        done = client.call(SERVICE, "Echo", payload)
        assert done.payload == payload
        assert done.end > done.begin and done.milliseconds == pytest.approx((done.end - done.begin) * 1e3)
    client.close()


def test_direct_client_raises_status_and_goes_on(server: str) -> None:
    client = DirectClient(server)
    with pytest.raises(StatusError, match="no such task"):
        client.call(SERVICE, "Missing", b"")
    assert client.call(SERVICE, "Echo", b"x").payload == b"x"
    client.close()


def test_direct_client_receives_what_it_sent_before(server: str) -> None:
    """A Wait is sent, and answered after a Kill by another client."""
    waiter, client = DirectClient(server), DirectClient(server)
    waiter.send(SERVICE, "Wait", b"")
    begin = client.call(SERVICE, "Kill", b"").begin
    done = waiter.receive(begin)
    assert done.payload == b"exited" and done.begin == begin
    waiter.close()
    client.close()


@pytest.mark.parametrize("sent", [b"", b"\x00\x00\x00\x09\x00"])
def test_direct_client_reports_end_of_connection(tmp_path: Path, sent: bytes) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        client = DirectClient(path)
        connection, _ = listener.accept()
        client.send(SERVICE, "Echo", b"")
        connection.recv(1 << 16)
        connection.sendall(sent)
        connection.close()
        with pytest.raises(ClosedError):
            client.receive(0.0)
        client.close()


def span(name: str, begin: int, end: int) -> Span:
    return Span("t", 1, name, begin, end)


def test_time_in_hcs_belongs_to_the_call_at_that_time() -> None:
    recorded = [
        span("rpc Start", 1_000_000, 9_000_000),
        span("hcs HcsCreateProcess", 2_000_000, 5_000_000),
        span("rpc Start", 21_000_000, 29_000_000),
        span("hcs HcsStartComputeSystem", 22_000_000, 27_000_000),
        span("rpc Kill", 41_000_000, 42_000_000),
    ]
    samples = [
        Sample("Start of an exec", 0.000, 0.010),
        Sample("Start", 0.020, 0.030),
        Sample("Kill", 0.040, 0.043),
        Sample("Kill to Wait", 0.040, 0.050),
        Sample("Delete", 0.060, 0.070),
    ]
    found = {sample.name: waited for sample, waited in hcs_milliseconds(samples, recorded)}
    assert found == {"Start of an exec": 3.0, "Start": 5.0, "Kill": 0.0}


def test_every_later_call_has_a_goal_and_what_explains_it_has_none() -> None:
    for name in CALLS:
        assert goals_of(name, later_calls.PROFILE) == {COLD: 1.0}
        assert goals_of(f"{name} without HCS", later_calls.PROFILE) == {}


def test_every_form_of_stdin_has_a_goal() -> None:
    for form in FORMATS:
        assert goals_of(f"start, {form.name}", start_formats.PROFILE) == {COLD: 0.25, STANDBY: 0.25}
        assert goals_of(f"start to Connect, {form.name}", start_formats.PROFILE) == {}
    assert len({form.name for form in FORMATS}) == len(FORMATS)


def test_goal_of_measure_applies_to_profiles_without_their_own() -> None:
    assert goals_of("start to Connect")[COLD] == 0.7
    assert goals_of("start to Connect", "load")[COLD] == 1.0
    assert goals_of("start to Connect", "hypervisor") == goals_of("start to Connect")
    assert goals_of("start", "load") == {}


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_form_of_stdin_is_what_containerd_sends(form: start_formats.Format, tmp_path: Path) -> None:
    """Decoded by the shim's own reader, and sent to both shims in the same form."""
    variant = as_run_by(OURS, form, tmp_path)
    stdin = DIALECTS[form.containerd].stdin(variant.program, "/run/c", "c1", options_of(OURS, form, tmp_path))
    program = as_run_by(RUNC, form, tmp_path).program
    other = DIALECTS[form.containerd].stdin(program, "/run/c", "c1", options_of(RUNC, form, tmp_path))
    assert program == RUNC.program and bool(stdin) == bool(other)
    assert (variant.program.name == OTHER_NAME) == form.has_params
    if form.has_params:
        assert BootstrapParams.decode(stdin).instance_id == BootstrapParams.decode(other).instance_id == "c1"
    elif stdin:
        assert type_name(PackedAny.decode(other)) == "containerd.runc.v1.Options"
    if not stdin:
        assert form.options == "none"
        return
    flags = Flags()
    flags.id, flags.namespace = "c1", "bench"
    found = bootstrap.read(stdin, flags)
    expected = {"none": "", "message": bootstrap.RUNHCS_OPTIONS, "TOML": bootstrap.GENERIC_OPTIONS}
    assert found.options_type == expected[form.options]
    assert found.ttrpc_address == ("/run/c.ttrpc" if form.has_params else "")


def test_old_shim_gets_no_bootstrap_params() -> None:
    old = Candidate("runc 1.7.34", RUNC.program, dialect="1.7.34")
    assert start_formats.formats_for(old) == [form for form in FORMATS if form.containerd != "2.3"]
    assert start_formats.formats_for(RUNC) == start_formats.formats_for(OURS) == list(FORMATS)


def test_program_with_other_name_is_the_same_program(tmp_path: Path) -> None:
    program = tmp_path / "containerd-shim-runhcs-v1"
    program.touch()
    (form,) = [one for one in FORMATS if one.has_params and one.options == "none"]
    for name in (COLD, STANDBY, COLD):
        found = as_run_by(Candidate(name, program), form, tmp_path).program
        assert found.name == OTHER_NAME and found.samefile(program)
