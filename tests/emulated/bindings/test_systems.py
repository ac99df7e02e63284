"""Compute systems through the bindings, on the emulator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shim.hcs_bindings import errors
from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.events import Exit
from shim.hcs_bindings.system import ComputeSystem
from tests.support.bindings import command, container
from tests.support.emulator import Emulator
from tests.support.eventually import eventually

ROOT = Path(__file__).resolve().parents[3]


def test_example_of_the_documentation_runs(emulator: Emulator) -> None:
    page = (ROOT / "docs" / "reference" / "hcs-bindings.md").read_text()
    code = (ROOT / "docs" / "examples" / "hello_hcs.py").read_text()
    assert code.split('"""\n\n', 1)[1] in page
    done = subprocess.run(
        [sys.executable, "docs/examples/hello_hcs.py"],
        cwd=ROOT,
        env={**emulator.env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("hello\nexit code 0\n", "", 0)


def test_system_lifecycle(hcs: Emulator) -> None:
    seen: list[Exit] = []
    with ComputeSystem.create("web 1 \u00e4", container()) as system:
        assert system.properties()["State"] == "Created"
        system.start()
        assert system.properties()["State"] == "Running"
        assert [found["Id"] for found in ComputeSystem.enumerate({"Owners": ["tests"]})] == ["web 1 \u00e4"]
        assert ComputeSystem.enumerate({"Owners": ["nobody"]}) == []
        system.on_exit(seen.append)
        assert system.exited is None
        assert system.terminate() is True
        ended = system.wait_exit(60)
        assert (ended.type, ended.error) == ("ForcedExit", None)
        assert system.exited is ended
        system.terminate()  # no failure: it is stopped
        system.shutdown()
        eventually(lambda: len(seen) == 1)
    with pytest.raises(HcsError) as caught:
        ComputeSystem.open("web 1 \u00e4")
    assert errors.is_not_exist(caught.value)


def test_shutdown_exits_gracefully(running: ComputeSystem) -> None:
    assert running.shutdown() is True
    assert running.wait_exit(60).type == "GracefulExit"


def test_pause_resume_and_save_of_container_fail(running: ComputeSystem) -> None:
    for call in (running.pause, running.resume, running.save):
        with pytest.raises(HcsError) as caught:
            call()
        assert errors.is_not_supported(caught.value), str(caught.value)


def test_rejected_document_error_has_path(hcs: Emulator) -> None:
    with pytest.raises(HcsError) as caught:
        ComputeSystem.create("c1", container(Container={"FooBar": 1}))
    error = caught.value
    assert error.name == "HCS_E_INVALID_JSON"
    assert errors.is_not_supported(error)
    assert "Container.FooBar" in str(error)
    assert error.events and error.next_step in str(error)


def test_second_system_of_same_id_is_rejected(running: ComputeSystem) -> None:
    with pytest.raises(HcsError) as caught:
        ComputeSystem.create("c1", container())
    assert errors.is_already_exists(caught.value)
    assert running.properties()["State"] == "Running"


def test_second_start_fails(running: ComputeSystem) -> None:
    with pytest.raises(HcsError) as caught:
        running.start()
    assert errors.is_invalid_state(caught.value)


def test_statistics_and_modify(running: ComputeSystem) -> None:
    with running.create_process(command("ping -t localhost", "Out")) as process:
        found = running.properties("Statistics", "ProcessList")
        assert found["Statistics"]["Uptime100ns"] > 0
        assert process.pid in [one["ProcessId"] for one in found["ProcessList"]]
        running.modify({"ResourcePath": "Container/Memory/SizeInMB", "RequestType": "Update", "Settings": 512})
        with pytest.raises(HcsError):
            running.modify({"ResourcePath": "Container/Nonsense", "RequestType": "Update", "Settings": 1})
        assert process.stdout is not None
        os.close(process.stdout)


def test_fault_raises_its_code(hcs: Emulator) -> None:
    hcs.fault("HcsStartComputeSystem", nth=1, error=0x80370109)
    hcs.fault("HcsGetComputeSystemProperties", nth=1, error=0xC0370105)
    with ComputeSystem.create("c1", container()) as system:
        with pytest.raises(HcsError, match="HCS_E_CONNECTION_TIMEOUT"):
            system.start()
        with pytest.raises(HcsError) as caught:
            system.properties()
        assert errors.stats_not_found(caught.value)


def test_slow_call_times_out(hcs: Emulator) -> None:
    hcs.fault("HcsStartComputeSystem", nth=1, delay=1)
    with ComputeSystem.create("c1", container()) as system:
        with pytest.raises(HcsError) as caught:
            system.start(timeout=0.05)
        assert errors.is_timeout(caught.value)
        with pytest.raises(HcsError) as caught:
            system.wait_exit(timeout=0.01)
        assert errors.is_timeout(caught.value)


def test_last_handle_closed_terminates_system(hcs: Emulator) -> None:
    system = ComputeSystem.create("c1", container())
    second = ComputeSystem.open("c1")
    system.close()
    assert second.properties()["Id"] == "c1"
    second.close()
    eventually(lambda: ComputeSystem.enumerate() == [], "the end of the system")
