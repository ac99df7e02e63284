"""The debug line of an RPC: its ids, its status code, and when it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shim.api import shimdiag
from shim.api import task as api
from shim.logs import DEBUG, Log
from shim.task.rpc_log import log_calls, request_ids
from shim.ttrpc import status
from shim.ttrpc.status import StatusError


class Lines:
    """A log channel that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: bytes) -> None:
        self.lines.append(line.decode())

    def close(self) -> None:
        pass

    def codes(self) -> list[str]:
        return [line.partition(" code=")[2].split()[0] for line in self.lines]


class FakeCall:
    service = "containerd.task.v2.Task"

    def __init__(self, payload: bytes = api.WaitRequest(id="c1").encode()) -> None:
        self.payload = payload
        self.is_answered = False
        self.cancel: Callable[[], None] | None = None

    def defer(self, cancelled: Callable[[], None] | None = None) -> bytes:
        self.cancel = cancelled
        return b""

    def reply(self, payload: bytes) -> bool:
        first, self.is_answered = not self.is_answered, True
        return first

    def fail(self, error: BaseException) -> bool:
        return self.reply(b"")


def call_logged(handler: Callable[[Any], bytes], call: FakeCall | None = None) -> Lines:
    channel = Lines()
    log_calls("Wait", handler, Log(channel, DEBUG))(call or FakeCall())  # type: ignore[arg-type]
    return channel


@pytest.mark.parametrize(
    ("method", "payload", "expected"),
    [
        ("State", api.StateRequest(id="c1", exec_id="e1").encode(), {"tid": "c1", "eid": "e1"}),
        ("State", api.StateRequest(id="c1").encode(), {"tid": "c1"}),
        ("Create", api.CreateTaskRequest(id="c1", bundle="/b").encode(), {"tid": "c1"}),
        ("Update", api.UpdateTaskRequest(id="c1").encode(), {"tid": "c1"}),
        ("DiagExecInHost", shimdiag.ExecProcessRequest(args=["secret"]).encode(), {}),
        ("State", b"\xff\xff", {}),
    ],
)
def test_ids_of_requests(method: str, payload: bytes, expected: dict[str, object]) -> None:
    assert request_ids(method, payload) == expected


def test_answered_call_is_logged_once() -> None:
    channel = call_logged(lambda call: b"answer")
    assert channel.codes() == ["OK"]
    assert "level=debug msg=rpc" in channel.lines[0] and "method=Wait" in channel.lines[0]
    assert "tid=c1" in channel.lines[0] and "ms " in channel.lines[0]


def test_failed_call_is_logged_with_its_code() -> None:
    def fail(call: Any) -> bytes:
        raise StatusError(status.NOT_FOUND, "no")

    channel = Lines()
    with pytest.raises(StatusError):
        log_calls("Wait", fail, Log(channel, DEBUG))(FakeCall())  # type: ignore[arg-type]
    assert channel.codes() == ["NotFound"]


def test_deferred_call_is_logged_with_its_answer() -> None:
    deferred: list[Any] = []

    def defer(call: Any) -> bytes:
        deferred.append(call)
        answer: bytes = call.defer()
        return answer

    channel = call_logged(defer)
    assert channel.lines == []
    assert deferred[0].reply(b"answer")
    assert not deferred[0].reply(b"again")
    assert channel.codes() == ["OK"]


def test_deferred_call_is_logged_when_it_fails() -> None:
    deferred: list[Any] = []

    def defer(call: Any) -> bytes:
        deferred.append(call)
        answer: bytes = call.defer()
        return answer

    channel = call_logged(defer)
    deferred[0].fail(StatusError(status.ABORTED, "no"))
    assert channel.codes() == ["Aborted"]


def test_cancelled_call_is_logged_and_its_handler_called_back() -> None:
    cancelled: list[bool] = []
    call = FakeCall()
    channel = call_logged(lambda logged: logged.defer(lambda: cancelled.append(True)), call)
    assert call.cancel is not None
    call.cancel()
    assert channel.codes() == ["Canceled"] and cancelled == [True]
