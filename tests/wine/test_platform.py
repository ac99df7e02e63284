"""Logs, long paths, and what a restarted containerd finds again: the Windows half of the shim's platform layer."""

from __future__ import annotations

import struct
import subprocess
import uuid
from typing import Any

import pytest

from tests.support.tracelogging import decode
from tests.wine.conftest import ROOT, Machine


def drive(machine: Machine, scenario: str) -> Any:
    return machine.drive_shim(scenario, script="platform_scenarios.py")


def test_file_log_uri(machine: Machine) -> None:
    result = drive(machine, "file_log")
    assert result["status"] == 0
    assert result["out"] == "to the output\n"
    assert result["err"].strip() == "to the errors"
    assert result["gone"]


def test_binary_log_uri(machine: Machine) -> None:
    result = drive(machine, "binary_log")
    assert result["status"] == 0
    assert result["written"]
    assert result["out"].strip() == "to the output"
    assert result["err"].strip() == "to the errors"
    assert result["gone"]


def test_failing_binary_logger_is_reported(machine: Machine) -> None:
    missing, gone, mute, gone_too = drive(machine, "binary_log_missing")
    assert "logger" in missing and "nowhere" in missing
    assert "ended before it had opened its pipes" in mute
    assert gone == gone_too == "True"


def test_layers_and_log_with_long_paths(machine: Machine) -> None:
    result = drive(machine, "long_paths")
    assert result["length"] > 300
    assert result["status"] == 0
    assert result["out"].strip() == "to the output"
    assert result["gone"]


def test_bundle_with_long_path(machine: Machine) -> None:
    exited, killed = drive(machine, "long_bundle")
    assert exited["length"] > 300 and killed["length"] > 300
    assert {"config.json", "exit", "ledger.jsonl"} <= set(exited["files"])
    assert (exited["status"], killed["status"]) == (9, 255)
    assert exited["gone"] and killed["gone"]
    assert exited["ledger"] == killed["ledger"] == 0, "everything is released"


def test_launcher_disables_error_dialogs(machine: Machine) -> None:
    """A crashed shim must exit at once, and in session 0 no user could answer a dialog."""
    result = drive(machine, "error_mode")
    assert result["daemon"] == 0x8003  # SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX
    assert result["driver"] != 0x8003, "it is the launcher's own"
    assert result["gone"]


def test_error_mode_is_restored_after_modules_are_loaded(machine: Machine) -> None:
    assert drive(machine, "restored_error_mode") == 0x8003


def test_directory_that_is_read_is_removed_when_it_is_closed(machine: Machine) -> None:
    assert drive(machine, "read_directory") == {"read": True, "in use": False}


def test_environment_names_no_other_hcs_libraries(machine: Machine) -> None:
    """The shim runs as SYSTEM: a variable must not make it load other code."""
    assert drive(machine, "other_libraries") == {"status": 5, "gone": True}


def test_library_is_loaded_neither_from_the_bundle_nor_from_path(machine: Machine) -> None:
    assert drive(machine, "planted_library") == {"loaded": [False, False, True], "gone": True}


def test_stdio_pipes_of_host_processes_are_for_administrators(machine: Machine) -> None:
    assert drive(machine, "job_pipes") == [["D:P(A;;GA;;;BA)(A;;GA;;;SY)"] * 2] * 2


def test_log_pipe_reconnects_after_containerd_restart(machine: Machine) -> None:
    result = drive(machine, "log_pipe")
    assert "starting containerd-shim-runhcs-v1" in result["before"]
    assert 'msg="shutting down"' in result["after"]
    assert "starting" not in result["after"], "only the first reader gets it"
    assert all(line.startswith("time=") for line in result["after"].splitlines())
    assert result["gone"]


def test_stdio_pipes_reconnect_after_containerd_restart(machine: Machine) -> None:
    """No line of those that the first reader did not get is lost or torn."""
    result = drive(machine, "redialled")
    assert result["heard"] and result["again"]
    second = result["second"].splitlines()
    assert len(second) >= 3
    numbers = [int(line.split()[1]) for line in second]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[0] > 1
    assert result["gone"]


def test_squatted_log_pipe_does_not_stop_the_shim(machine: Machine) -> None:
    result = drive(machine, "squatted_log")
    assert result["status"] == 4
    assert result["gone"]


@pytest.fixture(scope="module")
def crash_libraries(machine: Machine) -> tuple[str, str]:
    """crash_filter.c of the launcher and raise.c as DLLs."""
    directory = machine.drive / "crash"
    directory.mkdir()
    for source in (ROOT / "launcher" / "windows" / "crash_filter.c", ROOT / "tests" / "wine" / "raise.c"):
        compiler = ["x86_64-w64-mingw32-gcc", "-O2", "-s", "-shared", str(source)]
        subprocess.run([*compiler, "-o", str(directory / f"{source.stem}.dll")], check=True)
    return r"C:\crash\crash_filter.dll", r"C:\crash\raise.dll"


def crash(machine: Machine, crash_filter: str, raising: str, code: str, handled: bool) -> tuple[bytes, str]:
    """What the driver printed, and what faulthandler has written."""
    driver = "Z:" + str(ROOT / "tests" / "wine" / "crash_driver.py").replace("/", "\\")
    arguments = (crash_filter, raising, r"C:\crash\dump.log", code, str(int(handled)))
    done = machine.run(r"C:\python\python.exe", driver, *arguments)
    return done.stdout.split(b"\n")[-2].strip() if handled else b"", (machine.drive / "crash" / "dump.log").read_text()


@pytest.mark.parametrize("code", ["80010108", "8001010D", "800706BA"])
def test_handled_exception_of_rpc_is_not_dumped(
    machine: Machine, crash_libraries: tuple[str, str], code: str
) -> None:
    crash_filter, raising = crash_libraries
    assert crash(machine, crash_filter, raising, code, handled=True) == (b"1", "")
    seen, dump = crash(machine, "", raising, code, handled=True)
    assert seen == b"1" and f"code 0x{code.lower()}" in dump, "without the filter"


@pytest.mark.parametrize("code", ["80010108", "C0000005", "C00000FD"])
def test_unhandled_exception_is_dumped_once(machine: Machine, crash_libraries: tuple[str, str], code: str) -> None:
    _, dump = crash(machine, *crash_libraries, code, handled=False)
    assert dump.count("Windows fatal exception") == 1
    assert "crash_driver.py" in dump, "the stack"


def test_stream_of_a_shim_that_has_left(machine: Machine) -> None:
    result = drive(machine, "departed_clients")
    assert result == {"read": ["the last words", ""], "failed": True}


def test_stop_ends_the_wait_for_a_shim(machine: Machine) -> None:
    result = drive(machine, "stopped_accept")
    assert result["ended"] and len(result["errors"]) == 2
    assert all("closed" in error for error in result["errors"])


def test_environment_lookup_ignores_case(machine: Machine) -> None:
    """`SystemRoot`, say, without which many programs do not start."""
    result = drive(machine, "variables")
    assert result["found"] == [result["system"], "found"]


def recorded_events(data: bytes) -> tuple[uuid.UUID, list[tuple[int, str, list[tuple[str, Any]]]]]:
    """The provider and its events (level, name, fields) from what etw_stub.c wrote."""
    provider, position, events = uuid.UUID(bytes_le=data[:16]), 16, []
    while position < len(data):
        level, count = struct.unpack_from("<II", data, position)
        position += 8
        parts = []
        for _ in range(count):
            kind, size = struct.unpack_from("<II", data, position)
            parts.append((kind, data[position + 8 : position + 8 + size]))
            position += 8 + size
        assert [kind for kind, _ in parts[:2]] == [2, 1]
        assert parts[0][1][2:] == b"Microsoft.Virtualization.RunHCS\0"
        events.append((level, *decode(parts[1][1], b"".join(blob for kind, blob in parts[2:]))))
    return provider, events


def test_etw_events_equal_the_log(machine: Machine) -> None:
    result = drive(machine, "etw_events")
    path = machine.drive / result["recording"].removeprefix("C:\\").replace("\\", "/")
    provider, (launched, *entries) = recorded_events(path.read_bytes())
    assert result["captured"]
    assert provider == uuid.UUID("0b52781f-b24d-5685-ddf6-69830ed40ec3")
    assert launched == (5, "ShimLaunched", [("Args", ["shim.exe", "serve"]), ("version", "1.2.3"), ("commit", "")])
    assert [(level, name) for level, name, _ in entries] == [
        (level, "LogrusEntry") for level in (4, 2, 5, 4)
    ]
    without_time = [[field for field in fields if field[0] != "Time"] for _, _, fields in entries]
    assert without_time == [
        [("Message", "task created"), ("pid", 42), ("rootfs", "C:\\layers"), ("terminal", True), ("tid", "c1")],
        [("Message", "failed to publish exit"), ("attempt", 3), ("tid", "c1"), ("error", "r\u00e9seau")],
        [("Message", "rpc"), ("duration", 0.25), ("method", "State"), ("tid", "c1")],
        [("Message", "goroutine stack dump"), ("stack", "thread 1"), ("tid", "c1")],
    ]
    for line, (_, _, fields) in zip(result["lines"], entries, strict=True):
        message, time = fields[0][1], fields[1][1]
        assert message in line and time.strftime("%Y-%m-%dT%H:%M:%S.%f") in line
