"""The teardown of a VM and of what runs in it completes, whatever a step raises."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shim.commands.serve import PodServer
from shim.container.base import BaseContainer, ExitCallbacks
from shim.container.container import Container
from shim.container.ledger import Ledger
from shim.hcs_bindings.errors import UNEXPECTED, HcsError
from shim.logs import Log, NullChannel
from shim.oci.spec import Spec
from shim.uvm.container import VmContainer
from shim.uvm.guest import Guest
from shim.uvm.network import VmNetwork
from shim.uvm.sandbox_vm import SandboxVm
from shim.uvm.vm import Vm

# What the parts below a teardown may raise: HCS's errors, and those of a bug or of input that nobody thought of.
ERRORS = [TypeError("unexpected"), HcsError(UNEXPECTED, "x"), OSError("broken"), AttributeError("x")]


class FakeSystem:
    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[str] = []
        self._error = error

    def terminate(self) -> bool:
        self.calls.append("terminate")
        if self._error is not None:
            raise self._error
        return True

    def wait_exit(self, timeout: float) -> None:
        self.calls.append("wait_exit")

    def close(self) -> None:
        self.calls.append("close")


class FailingGuest:
    """Raises in each call of a teardown."""

    os_type = "windows"
    scsi_controllers = 1
    reserved_slots = ((0, 0),)

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.calls: list[str] = []
        self.vm: Any = None

    def attach(self, vm: Any) -> None:
        self.vm = vm

    def __getattr__(self, name: str) -> Any:
        setting = getattr(Guest, name, None)
        if setting is not None and not callable(setting):
            return setting

        def call(*args: object, **kwargs: object) -> None:
            self.calls.append(name)
            raise self._error

        return call


class FailingGcs:
    is_closed = False

    def __init__(self, error: Exception) -> None:
        self._error = error

    def close(self) -> None:
        pass

    def supports(self, capability: str) -> bool:
        return True

    def forget_container(self, id: str) -> None:
        pass

    def shut_down_container(self, id: str, *, force: bool) -> None:
        raise self._error


def make_vm(tmp_path: Path, guest: Any, system: FakeSystem) -> tuple[Vm, Ledger]:
    ledger = Ledger(str(tmp_path))
    vm = Vm("pod@vm", "runtime", guest, system, ledger.enter("vm", id="pod@vm"), ledger, Log(NullChannel()))  # type: ignore[arg-type]
    return vm, ledger


@pytest.fixture(params=ERRORS, ids=lambda error: type(error).__name__)
def error(request: pytest.FixtureRequest) -> Exception:
    found: Exception = request.param
    return found


def test_vm_close_with_failing_guest_terminates_and_releases(tmp_path: Path, error: Exception) -> None:
    guest, system = FailingGuest(error), FakeSystem()
    vm, ledger = make_vm(tmp_path, guest, system)
    vm.close()
    assert system.calls == ["terminate", "wait_exit", "close"] and guest.calls == ["interrupt", "close"]
    assert ledger.entries() == []


def test_vm_close_with_failing_exit_callback_runs_the_others(tmp_path: Path, error: Exception) -> None:
    guest, system = FailingGuest(error), FakeSystem()
    vm, _ = make_vm(tmp_path, guest, system)
    told: list[str] = []

    def fail() -> None:
        raise error

    vm.on_exit(fail)
    vm.on_exit(lambda: told.append("second"))
    vm.close()
    assert told == ["second"] and system.calls[-1] == "close"


def test_vm_close_with_failing_terminate_keeps_ledger_entry(tmp_path: Path) -> None:
    system = FakeSystem(TypeError("unexpected"))
    vm, ledger = make_vm(tmp_path, FailingGuest(OSError()), system)
    vm.close()
    assert system.calls == ["terminate", "close"]
    assert [entry.kind for entry in ledger.entries()] == ["vm"]


def test_sandbox_teardown_with_failing_network_closes_vm(tmp_path: Path, error: Exception) -> None:
    """An ill-typed response to the removal of a network adapter must not keep the VM running."""
    system = FakeSystem()
    vm, ledger = make_vm(tmp_path, FailingGuest(error), system)
    vm.namespace = "ns"
    vm.network._namespaces["ns"] = {"adapter": {}}
    vm._gcs = FailingGcs(error)  # type: ignore[assignment]
    sandbox = SandboxVm("pod", Spec({}), vm, ledger, Log(NullChannel()))
    sandbox.teardown()
    assert system.calls == ["terminate", "wait_exit", "close"]
    assert ledger.entries() == []


def test_container_teardown_with_failing_guest_closes_vm(tmp_path: Path, error: Exception) -> None:
    system = FakeSystem()
    vm, ledger = make_vm(tmp_path, FailingGuest(error), system)
    vm._gcs = FailingGcs(error)  # type: ignore[assignment]
    container = VmContainer("c1", Spec({}), None, vm, ledger, Log(NullChannel()), owns_vm=True)  # type: ignore[arg-type]
    container._init_failed = True
    released: list[str] = []

    def fail() -> None:
        raise error

    container._exit.fire()
    container.releases = [lambda: released.append("first"), fail]
    container.layer_releases = [lambda: released.append("layer"), fail]
    container.teardown()
    assert released == ["first", "layer"]
    assert system.calls == ["terminate", "wait_exit", "close"] and ledger.entries() == []


def test_container_teardown_with_failing_shutdown_closes_vm(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shim.uvm.container.TERMINATE_SECONDS", 0.05)
    system = FakeSystem()
    vm, ledger = make_vm(tmp_path, FailingGuest(error), system)
    vm._gcs = FailingGcs(error)  # type: ignore[assignment]
    container = VmContainer("c1", Spec({}), None, vm, ledger, Log(NullChannel()), owns_vm=True)  # type: ignore[arg-type]
    container._init_failed = True  # one attempt to shut it down, by force
    container.teardown()
    assert system.calls == ["terminate", "wait_exit", "close"] and ledger.entries() == []


def test_network_removal_with_failing_guest_does_not_raise(error: Exception) -> None:
    guest = FailingGuest(error)
    guest.vm = type("FakeVm", (), {"gcs": FailingGcs(error)})
    warnings: list[str] = []
    network = VmNetwork(lambda request: None, guest, warnings.append)  # type: ignore[arg-type]
    network._namespaces["ns"] = {"adapter": {}}
    network.remove("ns")
    assert len(warnings) == 1 and "ns" in warnings[0]


def test_exit_callback_that_raises_does_not_keep_others_from_being_called() -> None:
    callbacks = ExitCallbacks()
    told: list[str] = []

    def fail() -> None:
        raise KeyError("unexpected")

    callbacks.add(fail)
    callbacks.add(lambda: told.append("second"))
    with pytest.raises(KeyError):
        callbacks.fire()
    assert told == ["second"]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("init_failed", [False, True])
def test_container_teardown_with_failing_close_releases_ledger(
    tmp_path: Path, error: Exception, init_failed: bool
) -> None:
    """Of a process-isolated container: a handle that cannot be closed keeps nothing else from being released."""
    ledger = Ledger(str(tmp_path))
    container = Container.__new__(Container)
    BaseContainer.__init__(container, "c1", lambda text: None)
    container.ledger, container._entry, container._init_failed = ledger, ledger.enter("system", id="c1"), init_failed
    mounted = ledger.enter("mount", target=str(tmp_path / "none"))
    system = FakeSystem()
    container.system = system  # type: ignore[assignment]

    def close() -> None:
        system.calls.append("close")
        raise error

    system.close = close  # type: ignore[method-assign]
    with pytest.raises(type(error)):
        container._teardown(stopped=True)
    assert mounted.number not in {entry.number for entry in ledger.entries()} and ledger.entries() == []


@pytest.mark.parametrize("failing", range(5))
def test_end_of_a_pod_runs_every_step(monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    """In a shared daemon what is left of a pod stays for as long as the others run."""
    done: list[str] = []

    def step(number: int, name: str) -> Any:
        def run(*args: object, **kwargs: object) -> None:
            done.append(name)
            if number == failing:
                raise TypeError(name)

        return run

    server = PodServer.__new__(PodServer)
    names = ("endpoint", "server", "listener", "publisher", "recording", "telemetry")
    steps = {name: step(number, name) for number, name in enumerate(names)}
    monkeypatch.setattr("shim.commands.serve.endpoint", SimpleNamespace(remove=steps["endpoint"]))
    server.address, server._identity, server._is_listening = "a", None, False
    server._server = SimpleNamespace(shutdown=steps["server"])  # type: ignore[assignment]
    for name in ("listener", "publisher", "recording", "telemetry"):
        setattr(server, f"_{name}", SimpleNamespace(close=steps[name]))
    with pytest.raises(TypeError):
        server.end_calls(now=True)
    assert done == list(names)
