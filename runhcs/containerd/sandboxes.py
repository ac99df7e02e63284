"""containerd's sandbox API (2.x): records of sandboxes in the store, and their lifecycle in a sandbox controller.

    sandboxes = Sandboxes(client)
    sandboxes.create("pod1")
    sandboxes.start("pod1")
    client.create_container("c1", spec, sandbox="pod1")
    client.create_task("c1")

With the sandboxer "shim" containerd starts the shim and forwards every call to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runhcs.containerd.api.services import sandboxes_pb2 as api
from runhcs.containerd.api.services.sandboxes_pb2_grpc import ControllerStub, StoreStub
from runhcs.containerd.api.types.metrics_pb2 import Metric
from runhcs.containerd.api.types.sandbox_pb2 import Sandbox
from runhcs.containerd.client import (
    LONG_TIMEOUT,
    RUNTIME,
    SPEC_TYPE,
    Client,
    Exit,
    Json,
    Packed,
    Pending,
    as_any,
    pack_json,
)  # fmt: skip

SANDBOXER = "shim"


class Sandboxes:
    def __init__(self, client: Client, sandboxer: str = SANDBOXER) -> None:
        self._client = client
        self._sandboxer = sandboxer
        self._store: Any = StoreStub(client.channel)
        self._controller: Any = ControllerStub(client.channel)

    def create(
        self,
        id: str,
        spec: Json | None = None,
        *,
        runtime: str = RUNTIME,
        runtime_options: Packed | None = None,
        options: Packed | None = None,
        annotations: Mapping[str, str] | None = None,
        netns: str = "",
    ) -> None:
        """Store the record, then create the sandbox. The record is deleted again if the controller fails. CRI passes no
        spec; it passes the pod's configuration as `options`."""
        record = Sandbox(
            sandbox_id=id,
            runtime=Sandbox.Runtime(name=runtime, options=as_any(runtime_options)),
            spec=pack_json(SPEC_TYPE, spec) if spec is not None else None,
            sandboxer=self._sandboxer,
        )
        self._client.call(self._store.Create, api.StoreCreateRequest(sandbox=record))
        request = api.ControllerCreateRequest(
            sandbox_id=id,
            options=as_any(options),
            netns_path=netns,
            annotations=annotations,
            sandbox=record,
            sandboxer=self._sandboxer,
        )
        try:
            self._client.call(self._controller.Create, request)
        except BaseException:
            self.delete_record(id)
            raise

    def start(self, id: str) -> api.ControllerStartResponse:
        request = api.ControllerStartRequest(sandbox_id=id, sandboxer=self._sandboxer)
        answer: api.ControllerStartResponse = self._client.call(self._controller.Start, request)
        return answer

    def status(self, id: str, *, verbose: bool = False) -> api.ControllerStatusResponse:
        request = api.ControllerStatusRequest(sandbox_id=id, verbose=verbose, sandboxer=self._sandboxer)
        answer: api.ControllerStatusResponse = self._client.call(self._controller.Status, request)
        return answer

    def begin_wait(self, id: str, timeout: float = LONG_TIMEOUT) -> Pending[api.ControllerWaitResponse]:
        request = api.ControllerWaitRequest(sandbox_id=id, sandboxer=self._sandboxer)
        return self._client.begin(self._controller.Wait, request, timeout)

    def wait(self, id: str, timeout: float | None = None) -> Exit:
        answer = self.begin_wait(id, self._client.timeout if timeout is None else timeout).result()
        return Exit(answer.exit_status, answer.exited_at)

    def metrics(self, id: str) -> Metric:
        request = api.ControllerMetricsRequest(sandbox_id=id, sandboxer=self._sandboxer)
        answer: api.ControllerMetricsResponse = self._client.call(self._controller.Metrics, request)
        return answer.metrics

    def stop(self, id: str, seconds: int = 0) -> None:
        request = api.ControllerStopRequest(sandbox_id=id, timeout_secs=seconds, sandboxer=self._sandboxer)
        self._client.call(self._controller.Stop, request)

    def shutdown(self, id: str) -> None:
        """Stop the sandbox and its shim; the record stays."""
        request = api.ControllerShutdownRequest(sandbox_id=id, sandboxer=self._sandboxer)
        self._client.call(self._controller.Shutdown, request)

    def delete_record(self, id: str) -> None:
        self._client.call(self._store.Delete, api.StoreDeleteRequest(sandbox_id=id))

    def records(self) -> Sequence[Sandbox]:
        answer: api.StoreListResponse = self._client.call(self._store.List, api.StoreListRequest())
        return answer.list
