"""The task API of a shim: one method for each RPC, messages in, messages out."""

from __future__ import annotations

import json
from typing import Any

from shim.api import task as api
from shim.api.types import Mount, ProcessInfo
from shim.api.wellknown import Any as PackedAny
from shim.api.wire import Message
from shim.ttrpc.client import Client

TASK_V2 = "containerd.task.v2.Task"
TASK_V3 = "containerd.task.v3.Task"
PROCESS_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Process"
WINDOWS_RESOURCES = "types.containerd.io/opencontainers/runtime-spec/1/WindowsResources"

TIMEOUT = 60.0


class TaskClient:
    def __init__(self, client: Client, id: str, bundle: str, service: str = TASK_V2) -> None:
        self.client = client
        self.id = id
        self.bundle = bundle
        self.service = service

    def call(self, method: str, request: Message, timeout: float | None = TIMEOUT) -> bytes:
        return self.client.call(self.service, method, request.encode(), timeout=timeout)

    def create(
        self, id: str | None = None, bundle: str | None = None, rootfs: list[Mount] | None = None, **fields: Any
    ) -> api.CreateTaskResponse:
        request = api.CreateTaskRequest(id=id or self.id, bundle=bundle or self.bundle, rootfs=rootfs, **fields)
        return api.CreateTaskResponse.decode(self.call("Create", request))

    def start(self, exec_id: str = "", id: str | None = None) -> int:
        return api.StartResponse.decode(self.call("Start", api.StartRequest(id=id or self.id, exec_id=exec_id))).pid

    def state(self, exec_id: str = "", id: str | None = None) -> api.StateResponse:
        return api.StateResponse.decode(self.call("State", api.StateRequest(id=id or self.id, exec_id=exec_id)))

    def wait(self, exec_id: str = "", id: str | None = None, timeout: float = TIMEOUT) -> api.WaitResponse:
        request = api.WaitRequest(id=id or self.id, exec_id=exec_id)
        return api.WaitResponse.decode(self.call("Wait", request, timeout))

    def kill(self, signal: int, exec_id: str = "", id: str | None = None, all: bool = False) -> None:
        self.call("Kill", api.KillRequest(id=id or self.id, exec_id=exec_id, signal=signal, all=all))

    def delete(self, exec_id: str = "", id: str | None = None) -> api.DeleteResponse:
        request = api.DeleteRequest(id=id or self.id, exec_id=exec_id)
        return api.DeleteResponse.decode(self.call("Delete", request))

    def exec(self, exec_id: str, process: dict[str, Any], id: str | None = None, **fields: Any) -> None:
        spec = PackedAny(type_url=PROCESS_TYPE, value=json.dumps(process).encode())
        self.call("Exec", api.ExecProcessRequest(id=id or self.id, exec_id=exec_id, spec=spec, **fields))

    def pids(self, id: str | None = None) -> list[ProcessInfo]:
        return api.PidsResponse.decode(self.call("Pids", api.PidsRequest(id=id or self.id))).processes

    def stats(self, id: str | None = None) -> PackedAny:
        answer = api.StatsResponse.decode(self.call("Stats", api.StatsRequest(id=id or self.id)))
        assert answer.stats is not None
        return answer.stats

    def connect(self, id: str | None = None) -> api.ConnectResponse:
        return api.ConnectResponse.decode(self.call("Connect", api.ConnectRequest(id=id or self.id)))

    def pause(self, id: str | None = None) -> None:
        self.call("Pause", api.PauseRequest(id=id or self.id))

    def resume(self, id: str | None = None) -> None:
        self.call("Resume", api.ResumeRequest(id=id or self.id))

    def checkpoint(self, id: str | None = None) -> None:
        self.call("Checkpoint", api.CheckpointTaskRequest(id=id or self.id))

    def resize(self, width: int, height: int, exec_id: str = "") -> None:
        self.call("ResizePty", api.ResizePtyRequest(id=self.id, exec_id=exec_id, width=width, height=height))

    def close_io(self, exec_id: str = "") -> None:
        self.call("CloseIO", api.CloseIORequest(id=self.id, exec_id=exec_id, stdin=True))

    def update(
        self,
        resources: dict[str, Any] | None,
        type_url: str = WINDOWS_RESOURCES,
        annotations: dict[str, str] | None = None,
    ) -> None:
        value = None if resources is None else PackedAny(type_url=type_url, value=json.dumps(resources).encode())
        self.call("Update", api.UpdateTaskRequest(id=self.id, resources=value, annotations=annotations or {}))

    def shutdown(self, id: str | None = None, now: bool = False) -> None:
        self.call("Shutdown", api.ShutdownRequest(id=id or self.id, now=now))
