"""Traces of real shims, through `runhcs agent`, in an OTLP receiver."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from shim.api import task as api
from tests.support.agent import Agent
from tests.support.emulator import Emulator
from tests.support.otlp import OtlpReceiver, ReceivedSpan
from tests.support.runhcs_tools import ToolShims
from tests.support.shims import Shim
from tests.support.vm_image import SLEEP, VmShims

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SERVER = 2

Start = Callable[..., Agent]


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    receiver = OtlpReceiver()
    yield receiver
    receiver.close()


@pytest.fixture
def start_agent(tools: ToolShims) -> Iterator[Start]:
    agents: list[Agent] = []

    def start(endpoint: str, **env: str) -> Agent:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50", **env}
        agents.append(Agent(tools, **variables))
        return agents[-1]

    yield start
    for agent in agents:
        agent.close()


def call(shim: Shim, method: str, request: object, flags: str = "01") -> None:
    """As containerd calls with tracing."""
    metadata = [("traceparent", f"00-{TRACE}-{PARENT}-{flags}")]
    shim.client.call(shim.service, method, request.encode(), timeout=60, metadata=metadata)  # type: ignore[attr-defined]


def create(tools: ToolShims, shim: Shim, flags: str = "01") -> None:
    call(shim, "Create", api.CreateTaskRequest(id=shim.id, bundle=shim.bundle, rootfs=tools.rootfs()), flags)


def ancestors(span: ReceivedSpan, receiver: OtlpReceiver) -> list[str]:
    by_id = {one.id: one for one in receiver.spans}
    found = []
    while span.parent in by_id:
        span = by_id[span.parent]
        found.append(span.name)
    return found


def test_rpc_continues_the_callers_trace(tools: ToolShims, receiver: OtlpReceiver, start_agent: Start) -> None:
    start_agent(receiver.endpoint, OTEL_RESOURCE_ATTRIBUTES="k8s.node.name=n1")
    shim = tools.start("c1", tools.spec(*SLEEP))
    create(tools, shim)
    call(shim, "Start", api.StartRequest(id="c1"))
    whole = receiver.expect("Task/Create")
    assert (whole.trace_id, whole.parent, whole.kind) == (TRACE, PARENT, SERVER)
    assert whole.attributes["container.id"] == "c1" and whole.attributes["runhcs.isolation"] == "process"
    assert "/tasks/create" in whole.events and not whole.is_error
    assert whole.service == "containerd-shim-runhcs-v1" and whole.resource["containerd.namespace"] == "tests"
    assert whole.resource["k8s.node.name"] == "n1" and whole.resource["host.name"] and whole.resource["service.version"]
    launched = receiver.expect("HcsStartComputeSystem")
    assert ancestors(launched, receiver)[-1] == "Task/Start" and "hcs::System::Start" in ancestors(launched, receiver)
    assert launched.trace_id == TRACE
    inside = [span for span in receiver.spans if "Task/Create" in ancestors(span, receiver)]
    assert {"layers", "document", "system", "HcsCreateComputeSystem"} <= {span.name for span in inside}
    assert all(whole.begin <= span.begin <= span.end <= whole.end for span in inside)


def test_exit_links_to_the_start(tools: ToolShims, receiver: OtlpReceiver, start_agent: Start) -> None:
    start_agent(receiver.endpoint)
    shim = tools.start("c1", tools.spec("cmd", "/c", "exit 3"))
    create(tools, shim)
    call(shim, "Start", api.StartRequest(id="c1"))
    shim.wait()
    exited = receiver.expect("exit")
    assert exited.links == [receiver.expect("Task/Start").id]
    assert exited.attributes["process.exit.code"] == 3 and exited.trace_id != TRACE


def test_messages_to_a_guest_are_spans(
    tools: ToolShims, receiver: OtlpReceiver, start_agent: Start, emulator: Emulator
) -> None:
    start_agent(receiver.endpoint)
    vms = VmShims(emulator, tools)
    vms.run_in(vms.pod(), "c1", *SLEEP)
    message = receiver.expect("guest Create", container_id="c1")
    assert ancestors(message, receiver)[-1] == "Task/Create" and message.resource["runhcs.pod.id"] == "pod"
    assert receiver.expect("Task/Create", container_id="c1").attributes["runhcs.isolation"] == "hypervisor"


def test_error_has_its_catalogue_name_and_no_text(
    tools: ToolShims, receiver: OtlpReceiver, start_agent: Start, emulator: Emulator
) -> None:
    start_agent(receiver.endpoint)
    emulator.fault("HcsStartComputeSystem", error=0x80370109)
    shim = tools.start("c1", tools.spec("cmd", "/c", "echo hunter2"))
    create(tools, shim)
    with pytest.raises(Exception, match="80370109"):
        call(shim, "Start", api.StartRequest(id="c1"))
    failed = receiver.expect("Task/Start")
    assert failed.is_error and failed.message == "HCS_E_CONNECTION_TIMEOUT" and "exception" in failed.events
    assert failed.attributes["hcs.code"] == "0x80370109"
    assert not any("hunter2" in str(span.__dict__) for span in receiver.spans)


def test_sampling_follows_the_caller_and_the_variables(
    tools: ToolShims, receiver: OtlpReceiver, start_agent: Start
) -> None:
    agent = start_agent(receiver.endpoint, OTEL_TRACES_SAMPLER="parentbased_always_off")
    shim = tools.start("c1", tools.spec(*SLEEP))
    create(tools, shim, flags="00")  # the caller does not sample
    shim.start()  # no trace context
    call(shim, "State", api.StateRequest(id="c1"))
    state = receiver.expect("Task/State")
    assert state.trace_id == TRACE and {span.trace_id for span in receiver.spans} == {TRACE}
    assert not receiver.named("Task/Create") and not receiver.named("Task/Start")
    agent.expect(1, "runhcs_rpc_duration_seconds_count", method="Create")  # metrics have all


def test_invalid_trace_context_begins_a_new_trace(tools: ToolShims, receiver: OtlpReceiver, start_agent: Start) -> None:
    start_agent(receiver.endpoint)
    shim = tools.start("c1", tools.spec(*SLEEP))
    request = api.CreateTaskRequest(id="c1", bundle=shim.bundle, rootfs=tools.rootfs())
    metadata = [("traceparent", "00-zz-" + "x" * 5000), ("tracestate", "=,=")]
    shim.client.call(shim.service, "Create", request.encode(), timeout=60, metadata=metadata)
    assert receiver.expect("Task/Create").parent == ""


def test_grpc_collector(tools: ToolShims, start_agent: Start) -> None:
    receiver = OtlpReceiver(http=False)
    try:
        start_agent(receiver.endpoint, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
        shim = tools.start("c1", tools.spec(*SLEEP))
        create(tools, shim)
        assert receiver.expect("Task/Create").trace_id == TRACE
    finally:
        receiver.close()


@pytest.mark.parametrize("answer", [400, 503])
def test_refusing_collector_delays_no_task_and_drops_are_counted(
    tools: ToolShims, receiver: OtlpReceiver, start_agent: Start, answer: int
) -> None:
    receiver.status = answer
    agent = start_agent(receiver.endpoint, OTEL_EXPORTER_OTLP_TIMEOUT="1")
    shim = tools.start("c1", tools.spec(*SLEEP))
    shim.run(rootfs=tools.rootfs())
    agent.expect(1, "runhcs_telemetry_dropped_total", where="exporter")
    assert agent.value("runhcs_telemetry_dropped_total", where="shim") == 0
    receiver.status = 200
    shim.kill(9)
    receiver.expect("Task/Kill")


def test_silent_collector_delays_no_task_and_the_queue_is_bounded(tools: ToolShims, start_agent: Start) -> None:
    """It accepts connections and never answers."""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        agent = start_agent(endpoint, OTEL_BSP_MAX_QUEUE_SIZE="10", OTEL_EXPORTER_OTLP_TIMEOUT="60")
        shim = tools.start("c1", tools.spec("cmd", "/c", "exit 0"))
        shim.run(rootfs=tools.rootfs())
        shim.wait()
        shim.delete()
        agent.expect(1, "runhcs_telemetry_dropped_total", where="agent")
        agent.expect(1, "runhcs_rpc_duration_seconds_count", method="Delete")
