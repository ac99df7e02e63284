"""The base class of containers: stop once, teardown once, defaults of optional capabilities, release of the ledger."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from shim.container import base
from shim.container.base import BaseContainer, ExitCallbacks, ReleaseOnError, release_ledger
from shim.container.ledger import Ledger
from shim.oci.errors import UNIMPLEMENTED, InvalidSpec
from shim.oci.spec import Spec


class Recorder(BaseContainer):
    """Records its steps; `gate` holds `_stop` until it is set."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        super().__init__("c1", self.warnings.append)
        self.steps: list[str] = []
        self.stopping = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.result = True

    def _stop(self) -> bool:
        self.steps.append("stop")
        self.stopping.set()
        assert self.gate.wait(60)
        if self.error is not None:
            raise self.error
        return self.result

    def _teardown(self, stopped: bool) -> None:
        self.steps.append(f"teardown {stopped}")


def test_stop_and_teardown_run_once() -> None:
    container = Recorder()
    for step in (container.stop, container.stop, container.teardown, container.teardown, container.stop):
        step()
    assert container.steps == ["stop", "teardown True"]


def test_teardown_stops_first_and_passes_the_result() -> None:
    container = Recorder()
    container.result = False
    container.teardown()
    assert container.steps == ["stop", "teardown False"]


def test_teardown_retries_a_stop_that_raised() -> None:
    container = Recorder()
    container.error = OSError("broken")
    with pytest.raises(OSError, match="broken"):
        container.stop()
    container.error = None
    container.teardown()
    assert container.steps == ["stop", "stop", "teardown True"]


def test_teardown_releases_after_a_stop_that_raises() -> None:
    container = Recorder()
    container.error = TypeError("unexpected")
    container.teardown()
    assert container.steps == ["stop", "teardown False"]


def test_concurrent_teardown_waits_for_stop() -> None:
    container = Recorder()
    container.gate.clear()
    stop = threading.Thread(target=container.stop)
    stop.start()
    assert container.stopping.wait(60)
    teardown = threading.Thread(target=container.teardown)
    teardown.start()
    assert container.steps == ["stop"]
    container.gate.set()
    for thread in (stop, teardown):
        thread.join(60)
        assert not thread.is_alive()
    assert container.steps == ["stop", "teardown True"]


def test_concurrent_teardown_gives_up_after_wait_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "WAIT_SECONDS", 0.05)
    container = Recorder()
    container.gate.clear()
    stop = threading.Thread(target=container.stop)
    stop.start()
    assert container.stopping.wait(60)
    container.teardown()
    assert container.steps == ["stop"] and "still runs" in container.warnings[0]
    container.gate.set()
    stop.join(60)


def test_optional_capabilities_have_defaults() -> None:
    container = Recorder()
    container.admit("c2", Spec({}))
    assert not container.memory_breached and not container.in_vm
    with pytest.raises(InvalidSpec) as refused:
        container.set_affinity([(1, 0)])
    assert refused.value.kind == UNIMPLEMENTED


def test_exit_callbacks_are_called_once_and_at_once_after_the_exit() -> None:
    called: list[str] = []
    callbacks = ExitCallbacks()
    callbacks.add(lambda: called.append(f"first {callbacks.fired}"))
    callbacks.add(lambda: called.append("second"))
    callbacks.fire()
    callbacks.fire()
    callbacks.add(lambda: called.append("late"))
    assert called == ["first True", "second", "late"]


def test_release_logs_and_returns_failures(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    kept = ledger.enter("comet", id="1")
    ledger.enter("comet", id="2")
    warnings: list[str] = []
    assert release_ledger(ledger, warnings.append, keep=[kept]) == warnings
    assert len(warnings) == 1 and "cannot release a comet" in warnings[0]


def test_release_on_error_adds_failures_as_notes(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    warnings: list[str] = []
    with ReleaseOnError(ledger, warnings.append):
        ledger.enter("comet", id="1")
    assert warnings == []
    with pytest.raises(OSError, match="broken") as raised, ReleaseOnError(ledger, warnings.append):
        raise OSError("broken")
    assert raised.value.__notes__ == warnings and len(warnings) == 1
