"""Traces with real containerds that have tracing enabled: one trace for the calls of a pod's whole lifecycle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runhcs.containerd.client import Client
from tests.containerd.node import Node
from tests.containerd.pods import CriPod, connect
from tests.support.agent import Agent, PlacesOf
from tests.support.collector import Collector
from tests.support.eventually import eventually
from tests.support.otlp import OtlpReceiver, ReceivedSpan
from tests.support.vm_image import options

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
SHIM = "containerd-shim-runhcs-v1"


@pytest.fixture(params=["1.7", "2.3"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["receiver", "collector"])
def receiver(request: pytest.FixtureRequest) -> Iterator[OtlpReceiver]:
    """The tests' own, then the OpenTelemetry Collector."""
    receiver = OtlpReceiver() if request.param == "receiver" else Collector()
    yield receiver
    receiver.close()


@pytest.fixture
def traced_node(version: str, receiver: OtlpReceiver) -> Iterator[Node]:
    node = Node(version, tracing=receiver.endpoint)
    try:
        state, sockets = str(node.containerd.state), str(node.containerd.sockets)
        # Beside containerd's own variables, as in a unit of the node.
        agent = Agent(PlacesOf(["--state", state, "--socket-dir", sockets], node.containerd.env))
        try:
            yield node
        finally:
            agent.close()
        node.expect_clean()
    finally:
        node.stop()


@pytest.fixture
def client(traced_node: Node) -> Iterator[Client]:
    """All its calls belong to one trace."""
    with connect(traced_node) as client:
        client._metadata = (*client._metadata, ("traceparent", f"00-{TRACE}-{CALLER}-01"))  # type: ignore[assignment]
        yield client


def lifecycle(node: Node, client: Client) -> tuple[CriPod, str]:
    pod = CriPod(node, client, options=options())
    pod.run()
    name = pod.add()
    assert pod.exec(name, "cmd", "/c", "exit 4")[0] == 4
    pod.stop()
    pod.remove()
    return pod, name


def shim_spans(receiver: OtlpReceiver) -> list[ReceivedSpan]:
    return [span for span in receiver.spans if span.service == SHIM]


def ancestors(span: ReceivedSpan, receiver: OtlpReceiver) -> list[ReceivedSpan]:
    """The parent, the parent's parent …, as far as they have arrived."""
    by_id = {one.id: one for one in receiver.spans}
    found: list[ReceivedSpan] = []
    while span.parent in by_id:
        span = by_id[span.parent]
        found.append(span)
    return found


def wait_for_ancestors(span: ReceivedSpan, receiver: OtlpReceiver) -> list[ReceivedSpan]:
    """Up to the caller. A span is exported after its end: parents arrive later than their children, and the spans of
    containerd and of the agent in any order."""

    def complete() -> list[ReceivedSpan]:
        found = ancestors(span, receiver)
        return found if found and found[-1].parent == CALLER else []

    return eventually(complete, f"all ancestors of {span.name} {span.attributes}")


def inner_spans(receiver: OtlpReceiver) -> list[ReceivedSpan]:
    return [span for span in shim_spans(receiver) if span.trace_id == TRACE and not span.name.startswith("Task/")]


def wait_for_calls(receiver: OtlpReceiver, pod: CriPod, name: str) -> None:
    for method, container in [("Create", pod.id), ("Start", pod.id), ("Create", name), ("Start", name), ("Exec", name),
                              ("Kill", name), ("Delete", name), ("Kill", pod.id), ("Delete", pod.id)]:  # fmt: skip
        receiver.expect(f"Task/{method}", container_id=container)


@pytest.mark.parametrize("version", ["2.3"])
def test_lifecycle_of_a_pod_is_one_trace_with_the_right_parents(
    traced_node: Node, client: Client, receiver: OtlpReceiver
) -> None:
    pod, name = lifecycle(traced_node, client)
    wait_for_calls(receiver, pod, name)
    rpcs = [span for span in shim_spans(receiver) if span.name.startswith("Task/") and span.trace_id == TRACE]
    assert {"Task/Create", "Task/Start", "Task/Exec", "Task/Kill", "Task/Delete"} <= {span.name for span in rpcs}
    for span in rpcs:
        parent, *above = wait_for_ancestors(span, receiver)
        method = span.name.removeprefix("Task/")
        # The client span of containerd's ttrpc call, for the same method, around ours.
        assert parent.service == "containerd" and parent.name.endswith(f"/{method}"), (span.name, parent.name)
        assert parent.begin <= span.begin
        assert {one.trace_id for one in (parent, *above)} == {TRACE}
        assert {one.service for one in above} <= {"containerd"}
    expected = {"vm", "HcsCreateComputeSystem", "hcs::System::Start", "guest Create"}
    eventually(lambda: expected <= {span.name for span in inner_spans(receiver)}, f"spans {expected}")
    for span in inner_spans(receiver):
        # Below an RPC of the shim, not beside it.
        assert wait_for_ancestors(span, receiver)[0].service == SHIM, span.name


@pytest.mark.parametrize("version", ["1.7"])
def test_containerd_without_context_in_ttrpc_has_a_trace_for_each_call(
    traced_node: Node, client: Client, receiver: OtlpReceiver
) -> None:
    """containerd 1.7 traces its API and sends no trace context to shims: their calls begin traces of their own."""
    pod, name = lifecycle(traced_node, client)
    wait_for_calls(receiver, pod, name)
    eventually(lambda: any(span.service == "containerd" and span.trace_id == TRACE for span in receiver.spans))
    created = receiver.expect("Task/Create", container_id=name)
    assert created.parent == "" and created.trace_id != TRACE
    inside = [span for span in shim_spans(receiver) if span.trace_id == created.trace_id and span is not created]
    assert "guest Create" in {span.name for span in inside}
