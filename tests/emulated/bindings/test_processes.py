"""Processes through the bindings, on the emulator."""

from __future__ import annotations

import os
import threading

import pytest

from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.system import ComputeSystem
from tests.support.bindings import command, container, descriptors, read_all
from tests.support.emulator import Emulator


def test_stdio_and_exit_code(running: ComputeSystem) -> None:
    with running.create_process(command("cmd /c echo out& echo err>&2& exit 3", "Out", "Err")) as process:
        assert process.stdin is None
        assert read_all(process.stdout).strip() == "out"
        assert read_all(process.stderr).strip() == "err"
        assert process.wait_exit(60).code == 3
        assert process.properties()["ExitCode"] == 3


def test_close_stdin_reaches_the_process(running: ComputeSystem) -> None:
    with running.create_process(command("/bin/cat", "In", "Out")) as process:
        assert process.stdin is not None
        os.write(process.stdin, "gr\u00fc\u00dfe\n".encode())
        process.modify({"Operation": "CloseHandle", "CloseHandle": {"Handle": "StdIn"}})
        os.close(process.stdin)
        assert read_all(process.stdout) == "gr\u00fc\u00dfe\n"
        assert process.wait_exit(60).code == 0


def test_console_size_is_set(running: ComputeSystem) -> None:
    parameters = command("ping -t localhost", "In", "Out") | {"EmulateConsole": True, "ConsoleSize": [24, 80]}
    with running.create_process(parameters) as process:
        process.modify({"Operation": "ConsoleSize", "ConsoleSize": {"Height": 50, "Width": 132}})
        assert process.terminate() is True
        process.wait_exit(60)
        for descriptor in (process.stdin, process.stdout):
            assert descriptor is not None
            os.close(descriptor)


def test_missing_program_fails(running: ComputeSystem) -> None:
    before = descriptors()
    with pytest.raises(HcsError) as caught:
        running.create_process(command("no-such-program", "In", "Out", "Err"))
    assert caught.value.code == 0x80070002
    assert caught.value.operation == "hcs::System::CreateProcess c1"
    assert descriptors() == before


def test_kill_and_signal(running: ComputeSystem) -> None:
    with running.create_process(command("ping -t localhost")) as process:
        with running.open_process(process.pid) as other:
            assert other.pid == process.pid
            assert process.terminate() is True
            assert other.wait_exit(60).code == process.wait_exit(60).code != 0
        assert process.terminate() is False
        assert process.signal({"Signal": "CtrlC"}) is False
    with running.create_process(command("ping -t localhost")) as process:
        assert process.signal({"Signal": "CtrlC"}) is True
        assert process.wait_exit(60).code == 0xC000013A
    with pytest.raises(HcsError):
        running.open_process(999_999)


def test_info_returns_stdio_of_opened_process(running: ComputeSystem) -> None:
    with running.create_process(command("ping -t localhost", "Out")) as process:
        info = process.info()
        assert info.pid == process.pid
        info.close()
        assert process.stdout is not None
        os.close(process.stdout)


def test_terminated_system_ends_its_processes(running: ComputeSystem) -> None:
    with running.create_process(command("ping -t localhost")) as process:
        running.terminate()
        running.wait_exit(60)
        process.wait_exit(60)


@pytest.mark.parametrize("quirk", ["synchronous-create-process", "blocking-signal"])
def test_quirks_of_windows_builds(hcs: Emulator, quirk: str) -> None:
    hcs.control("quirk", name=quirk)
    with ComputeSystem.create("c1", container()) as system:
        system.start()
        with system.create_process(command("ping -t localhost")) as process:
            assert process.signal({"Signal": "CtrlC"}) is True
            process.wait_exit(60)


def test_concurrent_calls(running: ComputeSystem) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(5):
                with running.create_process(command(f"cmd /c echo {number}", "Out")) as process:
                    assert read_all(process.stdout).strip() == str(number)
                    assert process.wait_exit(60).code == 0
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert failures == []


def test_hundred_processes_leak_no_descriptor(running: ComputeSystem) -> None:
    def once() -> None:
        with running.create_process(command("cmd /c exit 1", "In", "Out", "Err")) as process:
            for descriptor in (process.stdin, process.stdout, process.stderr):
                assert descriptor is not None
                os.close(descriptor)
            assert process.wait_exit(60).code == 1

    once()
    before = descriptors()
    for _ in range(100):
        once()
    assert descriptors() == before
