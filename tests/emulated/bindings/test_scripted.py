"""The bindings against a scripted library: failures at every point, late callbacks, blocked calls.

After every test nothing may be left: each operation, document and handle that the library gave must have come back.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.hcs_bindings import errors, library, process
from shim.hcs_bindings.errors import AlreadyClosed, HcsError
from shim.hcs_bindings.events import Exit
from shim.hcs_bindings.system import ComputeSystem
from tests.support import scripted
from tests.support.bindings import reset_libraries
from tests.support.eventually import eventually
from tests.support.scripted import BLOCK, CANCELS, HANDLES, OPERATIONS, TERMINATIONS, Script

ROOT = Path(__file__).resolve().parents[3]
SYSTEM_EXITED, PROCESS_EXITED, SERVICE_DISCONNECT = 0x1, 0x10000, 0x02000000
REASON = '{"Error": -1, "ErrorMessage": "m", "ErrorEvents": [{"Message": "the reason"}]}'


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("scripted")
    scripted.build(directory)
    return directory


@pytest.fixture
def script(built: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    monkeypatch.setenv("HCS_LIBRARY_PATH", str(built))
    reset_libraries()
    script = Script(built)
    yield script
    script.release()
    gc.collect()
    eventually(script.is_clean)
    reset_libraries()


def create() -> ComputeSystem:
    return ComputeSystem.create("c1", {})


def test_all_operations_and_documents_are_freed(script: Script) -> None:
    script.set("HcsGetComputeSystemProperties", document='{"Id": "c1", "Owner": "\u00e4\U0001f600"}')
    with create() as system:
        system.start()
        assert system.properties("Statistics") == {"Id": "c1", "Owner": "\u00e4\U0001f600"}
        assert script.count(HANDLES) == 1
    assert script.is_clean()


@pytest.mark.parametrize("spelling", [0x80370105, 0xC0370105])
def test_rejected_call_has_its_document(script: Script, spelling: int) -> None:
    script.set("HcsStartComputeSystem", submit=spelling, document=REASON)
    with create() as system, pytest.raises(HcsError) as caught:
        system.start()
    assert caught.value.code == spelling
    assert caught.value.messages == ["the reason"]
    assert str(caught.value).startswith("hcs::System::Start c1: ")
    assert errors.is_invalid_state(caught.value)


def test_failed_result_has_its_document(script: Script) -> None:
    script.set("HcsStartComputeSystem", result=0x80370109, document=REASON)
    with create() as system, pytest.raises(HcsError, match="the reason"):
        system.start()


def test_timeout_cancels_and_raises(script: Script) -> None:
    script.set("HcsStartComputeSystem", result=BLOCK)
    with create() as system, pytest.raises(HcsError) as caught:
        system.start(timeout=0.02)
    assert errors.is_timeout(caught.value)
    assert script.count(CANCELS) == 1


def test_missing_operation_raises(script: Script) -> None:
    script.set("HcsCreateOperation", submit=0x80004005)
    with pytest.raises(HcsError, match="HcsCreateOperation"):
        create()


@pytest.mark.parametrize("document", [None, "", "{", "[]"])
def test_missing_result_document_raises(script: Script, document: str | None) -> None:
    script.set("HcsGetComputeSystemProperties", document=document)
    with create() as system, pytest.raises(HcsError) as caught:
        system.properties()
    assert caught.value.code == errors.UNEXPECTED


def test_failed_create_is_undone(script: Script) -> None:
    script.set("HcsCreateComputeSystem", result=0x80370101, document=REASON)
    with pytest.raises(HcsError, match="IMAGE_MISMATCH"):
        create()
    assert script.count(TERMINATIONS) == 0, "a refused create made nothing"
    script.set("HcsCreateComputeSystem", result=BLOCK)
    with pytest.raises(HcsError, match="OPERATION_TIMEOUT"):
        ComputeSystem.create("c1", {}, timeout=0.02)
    assert script.count(TERMINATIONS) == 1, "a late create may still make something"
    script.set("HcsCreateComputeSystem")
    script.set("HcsSetComputeSystemCallback", submit=0x80370119)
    with pytest.raises(HcsError, match="HcsSetComputeSystemCallback"):
        create()
    assert script.count(TERMINATIONS) == 2
    assert script.is_clean()


@pytest.mark.parametrize("code", [0x80370110, 0xC0370110, 0x8037010E, 0xC037010E, 0xC0370103])
def test_stop_of_stopped_system_succeeds(script: Script, code: int) -> None:
    script.set("HcsTerminateComputeSystem", submit=code)
    script.set("HcsShutDownComputeSystem", submit=code)
    with create() as system:
        assert system.terminate() is (code == 0xC0370103)
        assert system.shutdown() is (code == 0xC0370103)


def test_stop_does_not_wait(script: Script) -> None:
    script.set("HcsTerminateComputeSystem", result=BLOCK)
    with create() as system:
        assert system.terminate() is True


def test_process_has_requested_pipes(script: Script) -> None:
    script.pipes()
    with create() as system, system.create_process({}) as started:
        assert started.pid == 4712
        assert started.stdin is not None and started.stdout is not None and started.stderr is None
        os.write(started.stdin, b"x")
        assert os.read(started.stdout, 10) == b"x"
        os.close(started.stdin)
        os.close(started.stdout)


def test_create_process_that_completes_at_once(script: Script) -> None:
    """The wait fails although the process exists: its information is queried again."""
    script.set("HcsCreateProcess", result=0x80070057)
    with create() as system, system.create_process({}) as started:
        assert started.pid == 4712


def test_create_process_raises_first_error(script: Script) -> None:
    script.set("HcsCreateProcess", result=0x80070057)
    script.set("HcsGetProcessInfo", result=0x8037011F)
    with create() as system, pytest.raises(HcsError) as caught:
        system.create_process({})
    assert caught.value.code == 0x80070057


def test_failed_create_process_raises(script: Script) -> None:
    script.set("HcsCreateProcess", result=0x80070002, no_handle=True, document=REASON)
    with create() as system, pytest.raises(HcsError, match="the reason"):
        system.create_process({})


def test_stdio_is_closed_if_registration_fails(script: Script) -> None:
    script.pipes()
    script.set("HcsSetProcessCallback", submit=0x80370119)
    with create() as system:
        before = os.listdir("/proc/self/fd")
        with pytest.raises(HcsError):
            system.create_process({})
        # The library's own two pipe ends are the process's; everything that the bindings got is closed.
        assert len(os.listdir("/proc/self/fd")) == len(before)


def test_exit_is_delivered_once_on_dispatcher_thread(script: Script) -> None:
    seen: list[tuple[Exit, int]] = []
    dispatcher: list[int] = []
    with create() as system:
        system.on_exit(lambda ended: seen.append((ended, threading.get_ident())))
        script.fire(SYSTEM_EXITED, '{"Status": 0, "ExitType": "ForcedExit"}')
        script.fire(SYSTEM_EXITED, '{"Status": 5, "ExitType": "UnexpectedExit"}')
        script.fire(SERVICE_DISCONNECT)
        assert system.wait_exit(60).type == "ForcedExit"
        system.on_exit(lambda ended: dispatcher.append(threading.get_ident()))
        eventually(lambda: bool(dispatcher), "a callback for who asks after the end")
    assert [ended.type for ended, _ in seen] == ["ForcedExit"]
    assert seen[0][1] == dispatcher[0] != threading.get_ident()


def test_unexpected_exit_has_error(script: Script) -> None:
    with create() as system:
        status = '{"Status": -1070137082, "ExitType": "UnexpectedExit", "Attribution": [{"GuestCrash": {}}]}'
        script.fire(SYSTEM_EXITED, status)
        ended = system.wait_exit(60)
    assert ended.code == 0xC0370106
    assert ended.error is not None and ended.error.name == "HCS_E_UNEXPECTED_EXIT"
    assert ended.attribution == [{"GuestCrash": {}}]


@pytest.mark.parametrize("data", [None, "", "{", "null", '{"Status": "x"}'])
def test_broken_exit_document_is_an_exit(script: Script, data: str | None) -> None:
    with create() as system:
        script.fire(SYSTEM_EXITED, data)
        assert system.wait_exit(60).error is None


def test_service_disconnect_ends_wait(script: Script) -> None:
    with create() as system:
        script.fire(SERVICE_DISCONNECT)
        ended = system.wait_exit(60)
    assert ended.code == -1
    assert ended.error is not None and errors.is_service_lost(ended.error)


def test_event_types_are_unsigned(script: Script) -> None:
    seen: list[tuple[int, str]] = []
    with create() as system:
        system.on_event(lambda kind, data: seen.append((kind, data)))
        script.fire(0x80000002, "x")
        script.fire(0x6)
        eventually(lambda: len(seen) == 2)
    assert seen == [(0x80000002, "x"), (0x6, "")]


def test_close_is_not_an_exit(script: Script) -> None:
    system = create()
    called: list[Exit] = []
    outcome: list[BaseException | Exit] = []
    system.on_exit(called.append)

    def wait() -> None:
        try:
            outcome.append(system.wait_exit(60))
        except HcsError as error:
            outcome.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    system.close()
    waiter.join(60)
    assert isinstance(outcome[0], AlreadyClosed)
    script.fire(SYSTEM_EXITED, "{}", times=3)  # late: the handle is closed
    with pytest.raises(AlreadyClosed):
        system.start()
    with pytest.raises(AlreadyClosed):
        system.on_exit(called.append)
    system.close()
    assert called == []


def test_callback_may_close_its_handle(script: Script) -> None:
    system = create()
    done = threading.Event()
    system.on_exit(lambda ended: (system.close(), done.set()))
    script.fire(SYSTEM_EXITED, "{}")
    assert done.wait(60)
    assert script.is_clean()


def test_raising_callback_does_not_affect_others(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    after = threading.Event()
    with create() as system:
        system.on_exit(lambda ended: 1 // 0)
        system.on_exit(lambda ended: after.set())
        script.fire(SYSTEM_EXITED, "{}")
        assert after.wait(60)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_close_waits_for_calls_in_flight(script: Script) -> None:
    script.set("HcsStartComputeSystem", result=BLOCK)
    system = create()
    caller = threading.Thread(target=system.start)
    caller.start()
    eventually(lambda: script.count(OPERATIONS) == 1)
    system.close()
    assert script.count(HANDLES) == 1, "the call still has it"
    script.release()
    caller.join(60)
    assert script.is_clean()


def test_unreferenced_handle_is_closed(script: Script) -> None:
    system = create()
    assert script.count(HANDLES) == 1
    del system
    gc.collect()
    eventually(lambda: script.count(HANDLES) == 0)


def test_process_exit_codes_are_unsigned(script: Script) -> None:
    with create() as system, system.create_process({}) as started:
        script.fire(PROCESS_EXITED, '{"ProcessId": 4712, "Exited": true, "ExitCode": 3221225786}')
        assert started.wait_exit(60).code == 0xC000013A


def test_failed_wait_of_hcs_has_no_exit_code(script: Script) -> None:
    with create() as system, system.create_process({}) as started:
        script.fire(PROCESS_EXITED, '{"Exited": true, "ExitCode": 0, "LastWaitResult": 258}')
        assert started.wait_exit(60).code == -1


def test_exit_before_registration_is_found(script: Script) -> None:
    script.set("HcsGetProcessProperties", document='{"Exited": true, "ExitCode": 7}')
    with create() as system, system.create_process({}) as started:
        assert started.wait_exit(60).code == 7


@pytest.mark.parametrize("code", [0x80370105, 0xC037010E, 0x80070490, 0x8037011F])
def test_lost_exit_event_is_replaced(script: Script, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LOST_EXIT_SECONDS", 0.05)
    script.set("HcsSignalProcess", submit=code)
    script.set("HcsGetProcessProperties", submit=code)
    with create() as system, system.create_process({}) as started:
        assert started.signal({"Signal": "CtrlC"}) is False
        assert started.wait_exit(60).code == -1


def test_blocking_signal_counts_as_delivered(script: Script) -> None:
    script.set("HcsSignalProcess", result=BLOCK)
    with create() as system, system.create_process({}) as started:
        assert started.signal({"Signal": "CtrlC"}) is True
    assert script.count(HANDLES) == 1, "the blocked call still has the process"


def test_rejected_signal_raises(script: Script) -> None:
    script.set("HcsSignalProcess", submit=0x80070057)
    with create() as system, system.create_process({}) as started, pytest.raises(HcsError):
        started.signal()


@pytest.mark.parametrize("code", [0x80070005, 0x8037011F, 0x80370110, 0x80070490])
def test_terminate_of_exited_process_returns_false(script: Script, code: int) -> None:
    script.set("HcsTerminateProcess", result=code)
    with create() as system, system.create_process({}) as started:
        assert started.terminate() is False
        assert script.count(HANDLES) == 2, "the handles of the kill are closed again"


def test_terminate_in_removed_system_returns_false(script: Script) -> None:
    with create() as system, system.create_process({}) as started:
        script.set("HcsOpenComputeSystem", submit=0x8037010E)
        assert started.terminate() is False
        script.set("HcsOpenComputeSystem", submit=0x8037011B)
        with pytest.raises(HcsError, match="run containerd as a service"):
            started.terminate()


def test_missing_export_raises_for_its_caller_only(script: Script) -> None:
    with create() as system, pytest.raises(HcsError, match="HcsPauseComputeSystem") as caught:
        system.pause()
    assert caught.value.code == errors.PROCEDURE_NOT_FOUND
    assert library.has(library.computecore, "HcsStartComputeSystem")
    assert not library.has(library.computecore, "HcsPauseComputeSystem")


def test_missing_library_error_has_next_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HCS_LIBRARY_PATH", str(tmp_path))
    reset_libraries()
    try:
        with pytest.raises(HcsError, match="make native") as caught:
            ComputeSystem.open("c1")
        assert caught.value.code == errors.MODULE_NOT_FOUND
    finally:
        reset_libraries()


def test_nul_in_name_is_rejected(script: Script) -> None:
    with pytest.raises(HcsError, match="NUL"):
        ComputeSystem.create("a\0b", {})
    with pytest.raises(HcsError, match="NUL"):
        ComputeSystem.open("a\0b")


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)", "import threading; threading.Event().wait(0.05)"])
def test_callbacks_during_interpreter_exit(built: Path, ending: str) -> None:
    """Many callbacks from a foreign thread while the main thread exits."""
    program = (
        "from pathlib import Path\n"
        "from tests.support.scripted import Script\n"
        "from shim.hcs_bindings.system import ComputeSystem\n"
        f"script = Script(Path({str(built)!r}))\n"
        "system = ComputeSystem.create('c1', {})\n"
        "process = system.create_process({})\n"
        "system.on_event(lambda kind, data: None)\n"
        "script.fire(6, 'x' * 1000, times=1_000_000, join=False)\n"
        f"{ending}\n"
    )
    environment = {**os.environ, "HCS_LIBRARY_PATH": str(built)}
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
