"""The hooks of this process (`shim.observers`), for the recordings of its pods.

A daemon of one pod has one recording, which gets everything. A shared daemon has one for each recorded pod: a call and
a guest message belong to the pod of their thread, an event of HCS to the pod that has registered for it.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock

from shim import observers
from shim.recording import job_calls
from shim.threads import current_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from shim.recording.calls import CallRecorder
    from shim.recording.job_calls import JobRecorder

    class Recorder(Protocol):
        @property
        def pod(self) -> str:
            """`NAMESPACE/ID` in a shared daemon; "" for everything."""

        @property
        def calls(self) -> CallRecorder: ...
        @property
        def jobs(self) -> JobRecorder: ...
        def event(self, number: int, type: int, data: str) -> None: ...
        def guest(self, kind: str, id: int, procedure: int, body: dict[str, Any], size: int) -> None: ...


_lock = allocate_lock()
_recorders: tuple[Recorder, ...] = ()


def add(recorder: Recorder) -> None:
    """From now on it gets what its pod does."""
    _set(lambda recorders: (*recorders, recorder))


def remove(recorder: Recorder) -> None:
    _set(lambda recorders: tuple(one for one in recorders if one is not recorder))


def _set(change: Callable[[tuple[Recorder, ...]], tuple[Recorder, ...]]) -> None:
    global _recorders
    with _lock:
        _recorders = change(_recorders)
        if _recorders:
            observers.call, observers.event, observers.guest = _wrap, _event, _guest
            job_calls.install(_jobs_of_thread)
        else:
            observers.call = observers.event = observers.guest = None
            job_calls.uninstall()
        library = sys.modules.get("shim.hcs_bindings.library")
        if library is not None:
            library.reset()


def is_own(pod: str) -> bool:
    """Whether what this thread does belongs to the pod."""
    return pod in ("", current_pod())


def _of_thread() -> Recorder | None:
    return next((one for one in _recorders if is_own(one.pod)), None)


def _jobs_of_thread() -> JobRecorder | None:
    recorder = _of_thread()
    return None if recorder is None else recorder.jobs


def _wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        recorder = _of_thread()
        return (function if recorder is None else recorder.calls.wrapped(name, function))(*arguments)

    return call


def _event(number: int, type: int, data: str) -> None:
    for recorder in _recorders:
        if not recorder.pod or recorder.calls.handle_of(number):
            recorder.event(number, type, data)


def _guest(kind: str, id: int, procedure: int, body: dict[str, Any], size: int) -> None:
    recorder = _of_thread()
    if recorder is not None:
        recorder.guest(kind, id, procedure, body, size)
