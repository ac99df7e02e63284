"""Cleanup of systems and layers in every state that a killed shim or a restart of the machine may leave."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from shim.container import cleanup
from shim.hcs_bindings import errors, storage
from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.system import ComputeSystem

NO_FILTER, NOT_READY, INVALID, IN_USE = 0x801F0015, 0x80070015, 0x80070057, 0x80070020
SERVICE_LOST = 0x800706BA


class Layer:
    """The layer calls of one layer: the code that each returns, and the calls made."""

    def __init__(self, unprepare: int = 0, deactivate: int = 0, path: int = 0, mounted: bool = False) -> None:
        self.codes = {"unprepare": unprepare, "deactivate": deactivate, "path": path}
        self.mounted = mounted
        self.calls: list[str] = []

    def step(self, name: str) -> Callable[[str], str]:
        def call(path: str) -> str:
            self.calls.append(name)
            if code := self.codes[name]:
                raise HcsError(code, name)
            return r"\\?\Volume{x}" if self.mounted else ""

        return call


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Callable[[Layer], None]:
    def run(layer: Layer) -> None:
        monkeypatch.setattr(storage, "unprepare_layer", layer.step("unprepare"))
        monkeypatch.setattr(storage, "deactivate_layer", layer.step("deactivate"))
        monkeypatch.setattr(storage, "layer_mount_path", layer.step("path"))
        cleanup.release_layer({"path": "C:\\scratch"}, time.monotonic() + 0.1)

    return run


@pytest.mark.parametrize("code", [NO_FILTER, NOT_READY, INVALID, 0x80004005])
def test_layer_is_deactivated_after_failed_unprepare(release: Callable[[Layer], None], code: int) -> None:
    layer = Layer(unprepare=code)
    release(layer)
    assert layer.calls == ["unprepare", "deactivate"]


@pytest.mark.parametrize("code", [NO_FILTER, NOT_READY, INVALID, 0x80004005])
@pytest.mark.parametrize("path", [0, INVALID])
def test_layer_without_mount_path_is_released(release: Callable[[Layer], None], code: int, path: int) -> None:
    layer = Layer(unprepare=code, deactivate=code, path=path)
    release(layer)
    assert layer.calls == ["unprepare", "deactivate", "path"]


def test_mounted_layer_reports_first_error(release: Callable[[Layer], None]) -> None:
    with pytest.raises(HcsError) as caught:
        release(Layer(unprepare=INVALID, deactivate=NOT_READY, mounted=True))
    assert caught.value.code == INVALID
    with pytest.raises(HcsError) as caught:
        release(Layer(deactivate=IN_USE, mounted=True))
    assert caught.value.code == IN_USE


def test_layer_is_not_released_without_service(release: Callable[[Layer], None]) -> None:
    with pytest.raises(HcsError) as caught:
        release(Layer(SERVICE_LOST, SERVICE_LOST, SERVICE_LOST))
    assert caught.value.code == SERVICE_LOST


class System:
    """A system that stops between open and terminate: HCS accepts the terminate and sends no event."""

    opened = 0
    existing = 1

    @classmethod
    def open(cls, id: str) -> System:
        cls.opened += 1
        if cls.opened > cls.existing:
            raise HcsError(errors.SYSTEM_NOT_FOUND, "open")
        return cls()

    def terminate(self) -> bool:
        return True

    def wait_exit(self, timeout: float) -> None:
        raise HcsError(errors.OPERATION_TIMEOUT, "wait")

    def close(self) -> None:
        pass


def test_system_without_exit_event_is_released_when_it_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(System, "opened", 0)
    monkeypatch.setattr(ComputeSystem, "open", System.open)
    cleanup.release_system({"id": "c1"}, time.monotonic() + 4)
    assert System.opened == 2


def test_system_that_keeps_existing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(System, "opened", 0)
    monkeypatch.setattr(System, "existing", 99)
    monkeypatch.setattr(ComputeSystem, "open", System.open)
    with pytest.raises(HcsError) as caught:
        cleanup.release_system({"id": "c1"}, time.monotonic() + 0.5)
    assert errors.is_timeout(caught.value)
