"""The two ways to containerd's events: its ttrpc endpoint, and for want of one its own `publish` command.

Loaded with the first event, by the publisher's thread.
"""

from __future__ import annotations

from shim.api.events_ttrpc import Envelope, ForwardRequest
from shim.api.wellknown import Any, Timestamp
from shim.platform import endpoint
from shim.task.events.publisher import Queued, RefusedError
from shim.ttrpc.client import Client
from shim.ttrpc.status import INVALID_ARGUMENT, StatusError

SERVICE = "containerd.services.events.ttrpc.v1.Events"
TIMEOUT = 5.0


class ForwardSender:
    """Events/Forward over ttrpc. The endpoint's path outlives containerd, so a new connection finds its successor."""

    def __init__(self, address: str, namespace: str) -> None:
        self._namespace = namespace
        self._client = Client(endpoint.connect(endpoint.path_of(address), TIMEOUT))

    def send(self, item: Queued) -> None:
        seconds, nanos = divmod(item.time_ns, 1_000_000_000)
        envelope = Envelope(
            timestamp=Timestamp(seconds=seconds, nanos=nanos),
            namespace=self._namespace,
            topic=item.topic,
            event=Any(type_url=item.type_name, value=item.payload),
        )
        try:
            self._client.call(SERVICE, "Forward", ForwardRequest(envelope=envelope).encode(), timeout=TIMEOUT)
        except StatusError as error:
            if error.code == INVALID_ARGUMENT:
                raise RefusedError(str(error)) from None
            raise

    def close(self) -> None:
        self._client.close()


class CommandSender:
    """`containerd publish`, a process per event: for a containerd that named no ttrpc endpoint."""

    def __init__(self, binary: str, address: str, namespace: str) -> None:
        self._command = [binary, "--address", address, "publish", "--namespace", namespace]

    def send(self, item: Queued) -> None:
        import subprocess

        packed = Any(type_url=item.type_name, value=item.payload).encode()
        done = subprocess.run(
            [*self._command, "--topic", item.topic], input=packed, capture_output=True, timeout=TIMEOUT, check=False
        )
        if done.returncode:
            raise OSError(done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}")

    def close(self) -> None:
        """Nothing is kept between events."""
