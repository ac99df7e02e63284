"""containerd's sandbox API (2.x): records of sandboxes, and their lives in the hands of a sandboxer.

    sandboxes = Sandboxes(client)
    sandboxes.create("pod1")
    sandboxes.start("pod1")
    client.create_container("c1", spec, sandbox="pod1")
    client.create_task("c1")

With the sandboxer "shim" containerd starts the shim and passes everything on to it.
"""

from __future__ import annotations

from collections.abc import Mapping

from runhcs.containerd.client import LONG_TIMEOUT, RUNTIME, SPEC_TYPE, Client, Exit, Json, Pending, pack_json
from runhcs.containerd_api import sandboxes
from shim.api.sandbox_store import Sandbox
from shim.api.types import Metric
from shim.api.wellknown import Any as PackedAny

STORE = "containerd.services.sandbox.v1.Store"
CONTROLLER = "containerd.services.sandbox.v1.Controller"
SANDBOXER = "shim"


class Sandboxes:
    def __init__(self, client: Client, sandboxer: str = SANDBOXER) -> None:
        self._client = client
        self._sandboxer = sandboxer

    def create(
        self,
        id: str,
        spec: Json | None = None,
        *,
        runtime: str = RUNTIME,
        runtime_options: PackedAny | None = None,
        options: PackedAny | None = None,
        annotations: Mapping[str, str] | None = None,
        netns: str = "",
    ) -> None:
        """The record, and what the sandboxer prepares for it; the record goes again if that fails. CRI passes no
        spec, and its pod's configuration as `options`."""
        record = Sandbox(
            sandbox_id=id,
            runtime=Sandbox.Runtime(name=runtime, options=runtime_options),
            spec=pack_json(SPEC_TYPE, spec) if spec is not None else None,
            sandboxer=self._sandboxer,
        )
        request = sandboxes.StoreCreateRequest(sandbox=record)
        self._client.call(STORE, "Create", request, sandboxes.StoreCreateResponse)
        prepare = sandboxes.ControllerCreateRequest(
            sandbox_id=id,
            options=options,
            netns_path=netns,
            annotations=dict(annotations or {}),
            sandbox=record,
            sandboxer=self._sandboxer,
        )
        try:
            self._client.call(CONTROLLER, "Create", prepare, sandboxes.ControllerCreateResponse)
        except BaseException:
            self.forget(id)
            raise

    def start(self, id: str) -> sandboxes.ControllerStartResponse:
        request = sandboxes.ControllerStartRequest(sandbox_id=id, sandboxer=self._sandboxer)
        return self._client.call(CONTROLLER, "Start", request, sandboxes.ControllerStartResponse)

    def status(self, id: str, *, verbose: bool = False) -> sandboxes.ControllerStatusResponse:
        request = sandboxes.ControllerStatusRequest(sandbox_id=id, verbose=verbose, sandboxer=self._sandboxer)
        return self._client.call(CONTROLLER, "Status", request, sandboxes.ControllerStatusResponse)

    def begin_wait(self, id: str, timeout: float = LONG_TIMEOUT) -> Pending[sandboxes.ControllerWaitResponse]:
        request = sandboxes.ControllerWaitRequest(sandbox_id=id, sandboxer=self._sandboxer)
        return self._client.begin(CONTROLLER, "Wait", request, sandboxes.ControllerWaitResponse, timeout)

    def wait(self, id: str, timeout: float | None = None) -> Exit:
        answer = self.begin_wait(id, self._client.timeout if timeout is None else timeout).result()
        return Exit(answer.exit_status, answer.exited_at)

    def metrics(self, id: str) -> Metric:
        request = sandboxes.ControllerMetricsRequest(sandbox_id=id, sandboxer=self._sandboxer)
        answer = self._client.call(CONTROLLER, "Metrics", request, sandboxes.ControllerMetricsResponse)
        return answer.metrics or Metric()

    def stop(self, id: str, seconds: int = 0) -> None:
        request = sandboxes.ControllerStopRequest(sandbox_id=id, timeout_secs=seconds, sandboxer=self._sandboxer)
        self._client.call(CONTROLLER, "Stop", request, sandboxes.ControllerStopResponse)

    def shutdown(self, id: str) -> None:
        """End it; its record stays."""
        request = sandboxes.ControllerShutdownRequest(sandbox_id=id, sandboxer=self._sandboxer)
        self._client.call(CONTROLLER, "Shutdown", request, sandboxes.ControllerShutdownResponse)

    def forget(self, id: str) -> None:
        """Delete the record."""
        request = sandboxes.StoreDeleteRequest(sandbox_id=id)
        self._client.call(STORE, "Delete", request, sandboxes.StoreDeleteResponse)

    def records(self) -> list[Sandbox]:
        return self._client.call(STORE, "List", sandboxes.StoreListRequest(), sandboxes.StoreListResponse).list
