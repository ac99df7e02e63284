"""The client of containerd's gRPC API against a gRPC server in this process, and its generated modules."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from runhcs.containerd.api.services import tasks_pb2, tasks_pb2_grpc
from runhcs.containerd.client import Client, ContainerdError, Streams, as_any, pack_json
from shim.api.wellknown import Any as ShimAny

ROOT = Path(__file__).resolve().parents[3]
API = ROOT / "runhcs" / "containerd" / "api"


class Tasks(tasks_pb2_grpc.TasksServicer):
    """Records requests; Wait blocks until the client cancels or its deadline passes."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.metadata: dict[str, Any] = {}

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.requests.append(request)
        self.metadata = dict(context.invocation_metadata())
        return tasks_pb2.CreateTaskResponse(pid=7)

    def Start(self, request: Any, context: Any) -> Any:  # noqa: N802
        context.abort(grpc.StatusCode.NOT_FOUND, f"no task {request.container_id}")

    def Wait(self, request: Any, context: Any) -> Any:  # noqa: N802
        ended = threading.Event()
        context.add_callback(ended.set)
        ended.wait(30)
        return tasks_pb2.WaitResponse()


@pytest.fixture
def tasks() -> Tasks:
    return Tasks()


@pytest.fixture
def client(tmp_path: Path, tasks: Tasks) -> Iterator[Client]:
    server = grpc.server(ThreadPoolExecutor(2))
    tasks_pb2_grpc.add_TasksServicer_to_server(tasks, server)
    server.add_insecure_port(f"unix://{tmp_path}/c.sock")
    server.start()
    with Client(f"{tmp_path}/c.sock", "k8s.io") as client:
        yield client
    server.stop(0)


def test_create_task_sends_streams_and_namespace(client: Client, tasks: Tasks) -> None:
    assert client.create_task("one", Streams(stdout="/out", terminal=True)) == 7
    (request,) = tasks.requests
    assert (request.container_id, request.stdout, request.terminal) == ("one", "/out", True)
    assert tasks.metadata["containerd-namespace"] == "k8s.io"


def test_error_of_containerd_has_call_code_and_details(client: Client) -> None:
    with pytest.raises(ContainerdError, match=r"^Start: NOT_FOUND: no task one$") as raised:
        client.start("one")
    assert raised.value.code == grpc.StatusCode.NOT_FOUND


def test_missing_service_is_unimplemented(client: Client) -> None:
    with pytest.raises(ContainerdError, match=r"^Version: UNIMPLEMENTED"):
        client.version()


def test_wait_past_its_deadline_raises_deadline_exceeded(client: Client) -> None:
    with pytest.raises(ContainerdError) as raised:
        client.wait("one", timeout=0.05)
    assert raised.value.code == grpc.StatusCode.DEADLINE_EXCEEDED


def test_pending_result_times_out_without_ending_the_call(client: Client) -> None:
    pending = client.begin_wait("one")
    with pytest.raises(TimeoutError, match="Wait: no response after"):
        pending.result(0.05)
    assert not pending.done
    pending.cancel()


def test_as_any_accepts_messages_of_the_shims_codecs() -> None:
    packed = as_any(ShimAny(type_url="a.B", value=b"\x08\x01"))
    assert packed is not None and (packed.type_url, packed.value) == ("a.B", b"\x08\x01")
    assert as_any(None) is None
    assert pack_json("t", {"a": 1}).value == b'{"a": 1}'


def test_generated_modules_are_current(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        importlib.import_module("generate_grpc").generate(tmp_path)
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.py*")}
    kept = {path.relative_to(ROOT): path.read_text() for path in API.rglob("*.py*") if "__pycache__" not in path.parts}
    made.pop(Path("runhcs/containerd/__init__.py"), None)
    assert made == kept


def test_generated_modules_add_no_top_level_packages() -> None:
    code = "import sys, runhcs.containerd.sandboxes; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"containerd", "cri", "runhcs_pb2"} & set(done.stdout.split())


def test_extra_requires_the_versions_of_the_generator() -> None:
    """Generated modules refuse older runtimes than their generator's."""
    client = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["client"]
    stubs = (API / "services" / "tasks_pb2_grpc.py").read_text()
    messages = (API / "services" / "tasks_pb2.py").read_text()
    grpcio = re.search(r"GRPC_GENERATED_VERSION = '([\d.]+)'", stubs)
    protobuf = re.search(r"Protobuf Python Version: ([\d.]+)", messages)
    assert grpcio is not None and f"grpcio>={grpcio[1]}" in client
    assert protobuf is not None and f"protobuf>={protobuf[1]}" in client
