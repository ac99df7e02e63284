"""The harness: dialects, event order, bundles, the leak check, control groups; and timelines of phases."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from bench import suite
from bench.harness import leaks
from bench.harness.bundles import MARK, PROCESS, Bundle, Role
from bench.harness.candidates import Candidate
from bench.harness.cgroup import Group, is_autogrouped, one_scheduling_group
from bench.harness.dialects import DIALECTS, Endpoint
from bench.harness.driver import write_input
from bench.harness.event_log import Event, order_errors
from bench.harness.sizes import SIZES
from bench.harness.spans import Span
from bench.measures import lifecycle, phases
from shim.api.bootstrap import BootstrapParams, BootstrapResult
from shim.api.packing import type_name
from shim.api.wellknown import Any as PackedAny
from tests.support.eventually import eventually

ADDRESS = "/run/c.sock"
SOCKET = "unix:///run/s/1"
OPTIONS = PackedAny(type_url="a.Options", value=b"\x0a\x01x")
RUNC = Path("/usr/bin/containerd-shim-runc-v2")
OURS = Path("/usr/bin/containerd-shim-runhcs-v1")


def test_dialect_flags() -> None:
    dialect = DIALECTS["2.3"]
    common = ["-namespace", "bench", "-address", ADDRESS, "-publish-binary", "/bin/true", "-id", "c1"]
    assert dialect.flags(ADDRESS, "c1", "start") == [*common, "start"]
    assert dialect.flags(ADDRESS, "c1", "delete", "/b") == [*common, "-bundle", "/b", "delete"]


def test_dialect_variables_by_version() -> None:
    assert set(DIALECTS["1.6"].variables(ADDRESS)) == {"TTRPC_ADDRESS", "GOMAXPROCS"}
    more = DIALECTS["1.7"].variables(ADDRESS)
    assert more["MAX_SHIM_VERSION"] == "2" and more["GRPC_ADDRESS"] == ADDRESS
    assert DIALECTS["2.3"].variables(ADDRESS) == more


def test_dialect_stdin_of_start() -> None:
    assert DIALECTS["1.6"].stdin(RUNC, ADDRESS, "c1", None) == b""
    assert DIALECTS["1.7"].stdin(RUNC, ADDRESS, "c1", OPTIONS) == OPTIONS.encode()
    assert DIALECTS["2.3"].stdin(OURS, ADDRESS, "c1", OPTIONS) == OPTIONS.encode()
    sent = BootstrapParams.decode(DIALECTS["2.3"].stdin(RUNC, ADDRESS, "c1", OPTIONS))
    assert (sent.instance_id, sent.namespace, sent.containerd_grpc_address) == ("c1", "bench", ADDRESS)
    assert [type_name(one.value) for one in sent.extensions if one.value] == ["a.Options"]


def test_dialect_parses_output_of_start() -> None:
    plain, version_3 = SOCKET.encode() + b"\n", b'{"version":3,"address":"unix:///run/s/1","protocol":"ttrpc"}'
    result = BootstrapResult(version=3, address=SOCKET, protocol="ttrpc").encode()
    for dialect in DIALECTS.values():
        assert dialect.endpoint(plain) == Endpoint(SOCKET, 2)
    assert DIALECTS["2.3"].endpoint(version_3) == Endpoint(SOCKET, 3)
    assert DIALECTS["2.3"].endpoint(result).service == "containerd.task.v3.Task"
    for version, output in (("1.6", version_3), ("1.7", result), ("2.3", b""), ("1.7", b"c1"), ("2.3", b"panic: no")):
        with pytest.raises(ValueError, match="no usable address"):
            DIALECTS[version].endpoint(output)


def events(*words: str) -> list[Event]:
    """`exit` of the task, `exit:e1` of an exec."""
    return [Event(*word.partition(":")[::2], 0.0) for word in words]


TASK = ("create", "start", "exit", "delete")


def test_event_order_valid() -> None:
    assert not order_errors(events(*TASK))
    probe = ("exec-added:e", "exec-started:e", "exit:e")
    assert not order_errors(events("create", "start", *probe, "exit", "delete"))
    assert not order_errors(events("create", "start", *probe, "delete:e", "exit", "delete"))
    assert not order_errors(events("create", "start", *probe, "exit", "delete:e", "delete"))
    assert not order_errors(events("create", "start", "paused", "resumed", "exit", "delete"))


@pytest.mark.parametrize(
    "words",
    [
        (), TASK[:-1], TASK[1:], ("create", "exit", "start", "delete"), (*TASK[:3], "exit", "delete"),
        ("create", "start", "exec-started:e", "exec-added:e", "exit:e", "exit", "delete"),
        ("create", "start", "exec-added:e", "exec-started:e", "exit", "exit:e", "delete"),
        ("create", "start", "exec-added:e", "exec-started:e", "exit", "delete"),
    ],
)  # fmt: skip
def test_event_order_invalid(words: tuple[str, ...]) -> None:
    assert order_errors(events(*words))


def test_bundle_of_pod_member(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path, "c1", PROCESS, role=Role("container", "pod"))
    assert bundle.spec["annotations"]["io.kubernetes.cri.sandbox-id"] == "pod"
    assert f"{MARK}=c1" in bundle.spec["process"]["env"]
    assert (bundle.path / "config.json").exists() and (bundle.path / "log").is_fifo()


def test_candidate_options_only_for_runc() -> None:
    assert Candidate("a", OURS).options(Path("/d")) is None and Candidate("a", OURS).is_ours
    options = Candidate("b", RUNC).options(Path("/d"))
    assert options is not None and type_name(options) == "containerd.runc.v1.Options" and b"/d/runc" in options.value


def test_command_need_not_read_its_input() -> None:
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        write_input(process.stdin, bytes(1 << 20))  # more than a pipe holds: the write outlasts the process
        assert process.stdin.closed
    assert process.returncode == 0


def test_processes_found_and_killed_by_mark(tmp_path: Path) -> None:
    mark = f"{MARK}=c1-{os.getpid()}"
    process = subprocess.Popen(["sleep", "1000"], env={MARK: mark.partition("=")[2]})
    try:
        # Popen returns when exec has closed the parent's pipe; the kernel shows the new environment a moment later.
        eventually(lambda: leaks.processes([mark]), "the environment of the new program")
        assert [line.split()[1] for line in leaks.processes([mark])] == [f"{process.pid}:"]
        assert not leaks.processes([mark], [process.pid]) and not leaks.processes([f"{MARK}=c2"])
        assert not lifecycle.kill_process(process.pid, "c2") and process.poll() is None
        assert lifecycle.kill_process(process.pid, mark.partition("=")[2])
        assert process.wait(30) == -9
        assert not lifecycle.kill_process(0, "c1")
    finally:
        process.kill()
        process.wait()


def test_leak_check_finds_sockets_runc_state_and_systems(tmp_path: Path) -> None:
    address, own = tmp_path / "address", tmp_path / "s"
    own.mkdir()
    assert not leaks.sockets([str(address)], [own, tmp_path / "missing"])
    address.touch()
    (own / "1").touch()
    (own / "standby-1").touch()
    assert leaks.sockets([str(address)], [own]) == [f"socket {address}", f"socket {own / '1'}"]
    assert not leaks.runc_state(tmp_path / "runc")
    (tmp_path / "runc" / "bench" / "c1").mkdir(parents=True)
    assert leaks.runc_state(tmp_path / "runc") == ["runc state of c1"]
    status = {"systems": [{"Id": "c1", "State": "Running"}]}
    assert leaks.systems(status) == ["compute system c1 (Running)"]


def test_leak_check_finds_control_groups(tmp_path: Path) -> None:
    (tmp_path / "cpu" / "c1").mkdir(parents=True)
    (tmp_path / "memory").mkdir()
    assert leaks.control_groups(["c1", "c2"], tmp_path) == [f"control group {tmp_path / 'cpu' / 'c1'}"]
    (tmp_path / "c2").mkdir()
    assert len(leaks.control_groups(["c1", "c2"], tmp_path)) == 2


def test_wait_none_returns_what_remains_after_timeout() -> None:
    found = iter([["a"], ["a"], []])
    assert leaks.wait_none(lambda: next(found)) == []
    assert leaks.wait_none(lambda: ["a"], 0.0) == ["a"]


def test_timeline_nested_spans() -> None:
    whole = Span("c1", 1, "rpc Create", 1_000_000, 9_000_000)
    inside = [
        Span("c1", 1, "layers", 2_000_000, 5_000_000), Span("c1", 1, "hcs A", 3_000_000, 4_000_000),
        Span("c1", 1, "hcs B", 6_000_000, 8_000_000),
    ]  # fmt: skip
    assert phases.timeline(whole, inside) == [("layers", 1.0, 3.0), ("layers/A", 2.0, 1.0), ("B", 5.0, 2.0)]


def test_timeline_has_calls_of_hcs_in_the_phase_around_their_operation() -> None:
    whole = Span("c1", 1, "rpc Start", 0, 9_000_000)
    inside = [
        Span("c1", 1, "launch", 1_000_000, 8_000_000), Span("c1", 1, "hcs::System::Start", 2_000_000, 6_000_000),
        Span("c1", 1, "hcs HcsStartComputeSystem", 2_000_000, 3_000_000),
        Span("c1", 1, "hcs HcsWaitForOperationResult", 3_000_000, 6_000_000),
    ]  # fmt: skip
    assert phases.timeline(whole, inside) == [
        ("launch", 1.0, 7.0), ("launch/HcsStartComputeSystem", 2.0, 1.0), ("launch/HcsWaitForOperationResult", 3.0, 3.0)
    ]  # fmt: skip


def test_sizes_increase() -> None:
    quick, normal, full = (SIZES[name] for name in ("quick", "normal", "full"))
    assert quick.lifecycle_rounds < normal.lifecycle_rounds < full.lifecycle_rounds
    assert full.exec_probes == 1000 and full.pods[-1] == 200
    assert set(normal.concurrency) == {1, 4, 8, 16, 32} and set(normal.idle_shims) == {1, 5, 10, 25, 50}


@pytest.mark.parametrize(
    ("field", "value"),
    [("lifecycle_rounds", 0), ("warm_up", -1), ("pods", (3, 1)), ("pods", ()), ("concurrency", (0, 1))],
)
def test_sizes_reject_invalid_value(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        evolve(SIZES["quick"], **{field: value})


def test_unknown_measure_rejected_with_choices() -> None:
    command = [sys.executable, "-m", "bench", "suite", "--measure", "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "invalid choice: 'x' (choose from" in done.stderr and "lifecycles" in done.stderr


def test_group_without_hierarchy_has_no_path() -> None:
    group = Group("bench-test", ("no-such-hierarchy", "x"))
    assert group.path is None
    group.close()


def test_scheduling_group_is_left_at_end() -> None:
    before = Path("/proc/self/cgroup").read_text()
    with one_scheduling_group() as how:
        assert how in ("no autogroups", "one control group") or how.startswith("autogroups: ")
        assert how != "one control group" or not is_autogrouped()
    assert Path("/proc/self/cgroup").read_text() == before


@pytest.mark.parametrize("name", suite.MEASURES)
def test_suite_measure_has_function(name: str) -> None:
    assert callable(suite.function_of(name))
