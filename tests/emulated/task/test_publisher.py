"""The event transports: ttrpc to an endpoint that is restarted, and the publish command."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from shim.api.events import TaskExit, TaskStart
from shim.api.wellknown import Any
from shim.logs import Log, NullChannel
from shim.task.events.publisher import EventRejectedError, Publisher, QueuedEvent
from shim.task.events.transports import ForwardTransport, PublishCommandTransport
from shim.ttrpc.server import Call, Method, Server
from shim.ttrpc.status import INVALID_ARGUMENT, StatusError
from tests.support.eventually import eventually
from tests.support.shims import NAMESPACE, Events


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Events]:
    # pytest's directories may be too long for a socket.
    import tempfile

    with tempfile.TemporaryDirectory(prefix="evt-", dir="/tmp") as directory:
        events = Events(Path(directory) / "t.sock")
        yield events
        events.stop()


def open_descriptors() -> set[str]:
    """What is open in this process, each file, socket and pipe by its own name."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the listing's own descriptor
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
    return found


def publisher(endpoint: Events) -> Publisher:
    return Publisher(lambda: ForwardTransport(f"unix://{endpoint.path}", NAMESPACE), Log(NullChannel()))


def test_order_is_kept_across_containerd_restart(endpoint: Events) -> None:
    made = publisher(endpoint)
    for number in range(5):
        made.publish("/tasks/start", TaskStart(container_id="c", pid=number))
    eventually(lambda: len(endpoint.messages) == 5, "the first events")
    endpoint.stop()
    for number in range(5, 15):
        made.publish("/tasks/start", TaskStart(container_id="c", pid=number))
    endpoint.start()
    made.publish("/tasks/exit", TaskExit(container_id="c", pid=15))
    eventually(lambda: len(endpoint.messages) == 16, "the other events")
    assert [event.pid for _, event in endpoint.messages] == list(range(16))
    made.close()


def test_rejected_event_is_not_retried(endpoint: Events) -> None:
    def refuse(call: Call) -> bytes:
        raise StatusError(INVALID_ARGUMENT, "namespace is required")

    endpoint.stop()
    import socket
    import threading

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(endpoint.path))
    listener.listen()
    server = Server({"containerd.services.events.ttrpc.v1.Events": {"Forward": Method.inline(refuse)}})
    threading.Thread(target=server.serve, args=(listener,), daemon=True).start()
    sender = ForwardTransport(str(endpoint.path), NAMESPACE)
    with pytest.raises(EventRejectedError, match="namespace is required"):
        sender.send(QueuedEvent("/tasks/start", TaskStart.FULL_NAME, b""))
    sender.close()
    server.shutdown(5)


def test_publish_command_without_ttrpc_address(tmp_path: Path) -> None:
    binary = tmp_path / "containerd"
    binary.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\ncat > {tmp_path}/stdin\n')
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    made = Publisher(lambda: PublishCommandTransport(str(binary), "/run/c.sock", "n"), Log(NullChannel()))
    event = TaskExit(container_id="c", exit_status=3)
    made.publish("/tasks/exit", event)
    made.close(20)
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments == ["--address", "/run/c.sock", "publish", "--namespace", "n", "--topic", "/tasks/exit"]
    packed = Any.decode((tmp_path / "stdin").read_bytes())
    assert (packed.type_url, TaskExit.decode(packed.value)) == ("containerd.events.TaskExit", event)


def test_failed_connections_leak_no_descriptors(endpoint: Events) -> None:
    endpoint.stop()
    before = open_descriptors()
    for _ in range(20):
        with pytest.raises(OSError):
            ForwardTransport(str(endpoint.path), NAMESPACE)
    # A count would not do: the endpoint's listener is closed by its own thread, perhaps only now.
    assert open_descriptors() - before == set()
