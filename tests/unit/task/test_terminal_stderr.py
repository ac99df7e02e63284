"""A stderr in a request for a terminal: an error on Windows, ignored on Linux, where CRI always names one."""

from __future__ import annotations

import sys
from unittest.mock import Mock

import pytest

from shim.api.task import CreateTaskRequest
from shim.task import create
from shim.task.context import ShimContext
from shim.ttrpc.status import StatusError


def request_() -> CreateTaskRequest:
    return CreateTaskRequest(id="c1", terminal=True, stdout="", stderr="a path")


def open_stdio(request: CreateTaskRequest) -> None:
    context = Mock(spec=ShimContext, namespace="ns", log=None)
    create._open_stdio(context, request, "c1", "", 0).close()


def test_terminal_with_stderr_on_windows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(StatusError, match="if using terminal, stderr must be empty"):
        open_stdio(request_())


def test_terminal_with_stderr_on_linux_is_accepted() -> None:
    request = request_()
    open_stdio(request)
    assert request.stderr == ""
