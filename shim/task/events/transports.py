"""The two transports of events: containerd's ttrpc endpoint, and `containerd publish` if there is no endpoint.

Imported with the first event, by the publisher's thread.
"""

from __future__ import annotations

from shim.api.events_ttrpc import Envelope, ForwardRequest
from shim.api.wellknown import Any, Timestamp
from shim.platform import endpoint
from shim.task.events.publisher import EventRejectedError, QueuedEvent
from shim.ttrpc.client import Client
from shim.ttrpc.status import INVALID_ARGUMENT, StatusError

SERVICE = "containerd.services.events.ttrpc.v1.Events"
TIMEOUT = 5.0


class ForwardTransport:
    """Events/Forward over ttrpc. A restarted containerd listens at the same path, so a new connection reaches it."""

    def __init__(self, address: str, namespace: str) -> None:
        self._namespace = namespace
        self._client = Client(endpoint.connect(endpoint.path_of(address), TIMEOUT))

    def send(self, queued: QueuedEvent) -> None:
        seconds, nanos = divmod(queued.time_ns, 1_000_000_000)
        envelope = Envelope(
            timestamp=Timestamp(seconds=seconds, nanos=nanos),
            namespace=self._namespace,
            topic=queued.topic,
            event=Any(type_url=queued.type_name, value=queued.payload),
        )
        try:
            self._client.call(SERVICE, "Forward", ForwardRequest(envelope=envelope).encode(), timeout=TIMEOUT)
        except StatusError as error:
            if error.code == INVALID_ARGUMENT:
                raise EventRejectedError(str(error)) from None
            raise

    def close(self) -> None:
        self._client.close()


class PublishCommandTransport:
    """`containerd publish`, one process per event: for a containerd that passed no ttrpc address."""

    def __init__(self, binary: str, address: str, namespace: str) -> None:
        self._command = [binary, "--address", address, "publish", "--namespace", namespace]

    def send(self, queued: QueuedEvent) -> None:
        import subprocess

        packed = Any(type_url=queued.type_name, value=queued.payload).encode()
        done = subprocess.run(
            [*self._command, "--topic", queued.topic], input=packed, capture_output=True, timeout=TIMEOUT, check=False
        )
        if done.returncode:
            raise OSError(done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}")

    def close(self) -> None:
        """There is no connection."""
