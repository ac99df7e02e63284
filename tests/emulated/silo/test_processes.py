"""A process in a silo: its command line, its streams, its exit, and errors at start."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hcs_emulator.service.silo.namespaces import LaunchError
from tests.support.silo import exists, finished, in_loop, programs, read_all, read_until, running, until

__all__ = ["programs"]


@in_loop
async def test_stdout_and_stderr_are_separate_pipes() -> None:
    async with running() as silo:
        result = await finished(silo, 'sh -c "cat; echo oops >&2"', stdin=b"to and fro\n")
    assert (result.code, result.out, result.error) == (0, b"to and fro\n", b"oops\n")


@in_loop
async def test_streams_not_requested_are_absent() -> None:
    async with running() as silo:
        process = await silo.spawn({"CommandLine": 'sh -c "echo lost; read line; exit 4"'})
        assert (process.stdin, process.stdout, process.stderr) == (None, None, None)
        assert await process.exited == 4


@in_loop
async def test_stdin_ends_when_service_and_client_have_closed_it() -> None:
    async with running() as silo:
        process = await silo.spawn({"CommandLine": "cat", "CreateStdInPipe": True, "CreateStdOutPipe": True})
        assert process.stdin is not None
        client = os.dup(process.stdin)
        os.write(client, b"still open")
        process.close_stdin()
        assert await read_until(process, b"open") == b"still open"
        assert not process.exited.done()
        os.close(client)
        assert await process.exited == 0
        process.close()


@pytest.mark.parametrize(
    ("command_line", "code"),
    [
        ('sh -c "exit 0"', 0),
        ('sh -c "exit 7"', 7),
        ('sh -c "exit 255"', 255),
        ("cmd /c exit 256", 256),
        ("cmd /c exit 3221225786", 0xC000013A),
        ("cmd /c exit -1", 0xFFFFFFFF),
        ('sh -c "kill -SEGV $$"', 0xC0000005),
        ('sh -c "kill -ILL $$"', 0xC000001D),
        ('sh -c "kill -FPE $$"', 0xC0000094),
        ('sh -c "kill -ABRT $$"', 0xC0000409),
        ('sh -c "kill -BUS $$"', 0xC0000006),
        ('sh -c "kill -KILL $$"', 0xFFFFFFFF),
        ('sh -c "kill -INT $$"', 0xC000013A),
    ],
)
@in_loop
async def test_exit_codes_are_windows_codes(command_line: str, code: int) -> None:
    async with running() as silo:
        assert (await finished(silo, command_line)).code == code


@pytest.mark.parametrize("event", ["CtrlC", "CtrlBreak", "CtrlClose", "CtrlLogOff", "CtrlShutdown"])
@in_loop
async def test_console_event_terminates_a_process_without_handler(event: str) -> None:
    async with running() as silo:
        process = await silo.spawn({"CommandLine": "sleep 1000"})
        assert process.signal(event)
        assert await process.exited == 0xC000013A
        assert not process.signal(event)


@in_loop
async def test_console_event_reaches_all_processes_of_the_group() -> None:
    async with running() as silo:
        script = "trap 'echo caught; exit 5' TERM; sleep 1000 & wait"
        process = await silo.spawn({"CommandLine": f'sh -c "{script}"', "CreateStdOutPipe": True})
        await until(lambda: "sleep" in [entry["ImageName"] for entry in silo.process_list()], "both processes run")
        process.signal("CtrlShutdown")
        assert process.stdout is not None
        # The stream ends only because the sleep, which holds it too, was signalled as well.
        assert await read_all(process.stdout) == b"caught\n"
        assert await process.exited == 5
        process.close()


@in_loop
async def test_kill_terminates_one_process_only() -> None:
    async with running() as silo:
        process = await silo.spawn({"CommandLine": 'sh -c "sleep 1000 & echo $!; wait"', "CreateStdOutPipe": True})
        await read_until(process, b"\n")
        assert process.kill()
        assert await process.exited == 0xFFFFFFFF
        assert not process.kill()
        await until(
            lambda: [entry["ImageName"] for entry in silo.process_list()] == ["sleep"], "only the child is left"
        )
        process.close()


def make_tools(root: Path) -> None:
    """A root file system for the test: only the programs that are added here, none of the host."""
    (root / "bin").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "Tools").mkdir()
    (root / "Program Files").mkdir()
    (root / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\nalice:x:1234:1234::/:/bin/sh\n")
    (root / "Tools" / "plain.txt").write_text("not a program\n")
    (root / "Tools" / "garbage.exe").write_bytes(b"\0\1\2\3")
    (root / "Tools" / "windows.exe").write_bytes(b"MZ\x90\0 not for us")
    (root / "Tools" / "hello.cmd").write_text("@echo off\r\necho batch %1\r\nexit /b 12\r\n")
    for name in ("garbage.exe", "windows.exe"):
        (root / "Tools" / name).chmod(0o755)


@pytest.mark.parametrize(
    ("parameters", "hresult"),
    [
        ({"CommandLine": "nowhere.exe /x"}, 0x80070002),
        ({"CommandLine": r"C:\Tools\nowhere.exe"}, 0x80070002),
        ({"CommandLine": r"C:\Tools"}, 0x80070002),
        ({"CommandLine": r"C:\Tools\plain.txt"}, 0x80070005),
        ({"CommandLine": r"C:\Tools\garbage.exe"}, 0x800700C1),
        ({"CommandLine": r"C:\Tools\windows.exe"}, 0x800700C1),
        ({"CommandLine": "cmd /c exit 0", "WorkingDirectory": r"C:\nowhere"}, 0x8007010B),
        ({"CommandLine": "cmd /c exit 0", "WorkingDirectory": r"C:\Tools\plain.txt"}, 0x8007010B),
        ({"CommandLine": "cmd /c exit 0", "User": "nobody-known"}, 0x80070525),
        ({"CommandLine": ""}, 0x80070057),
        ({}, 0x80070057),
        ({"CommandLine": "cmd /c echo a\0b"}, 0x80070057),
        ({"CommandLine": "cmd /c echo " + "a" * 300_000}, 0x800700CE),
        ({"CommandLine": "cmd /c echo " + "a" * 2_000_000}, 0x800700CE),
    ],
)
@in_loop
async def test_failed_start_reports_the_windows_error(tmp_path: Path, parameters: dict[str, Any], hresult: int) -> None:
    make_tools(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    async with running(root=str(tmp_path)) as silo:
        with pytest.raises(LaunchError) as caught:
            await silo.spawn({"CreateStdOutPipe": True, **parameters})
        assert f"0x{caught.value.hresult:08x}" == f"0x{hresult:08x}"
        assert (await finished(silo, "cmd /c echo fine")).out == b"fine\r\n"
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize(
    ("command_line", "out"),
    [
        (r"C:\Tools\hello.cmd one", b"batch one\r\n"),
        (r"c:\tools\HELLO one", b"batch one\r\n"),
        (r'"C:/Tools/hello" "one two"', b"batch one two\r\n"),
        (r"\\?\C:\Tools\hello.cmd x", b"batch x\r\n"),
        ("hello.cmd found-by-path", b"batch found-by-path\r\n"),
        (r"C:\Program Files\spaced out.cmd 1", b"spaced\r\n"),
        (r"C:\Windows\System32\cmd.exe /c echo stand-in", b"stand-in\r\n"),
    ],
)
@in_loop
async def test_programs_are_searched_as_on_windows(tmp_path: Path, command_line: str, out: bytes) -> None:
    make_tools(tmp_path)
    (tmp_path / "Program Files" / "spaced out.cmd").write_text("@echo spaced\n")
    async with running(root=str(tmp_path)) as silo:
        path = {"Path": r"C:\Windows\System32;C:\Tools"}
        assert (await finished(silo, command_line, Environment=path)).out == out


@in_loop
async def test_arguments_are_split_by_windows_rules() -> None:
    async with running() as silo:
        result = await finished(silo, r"""/usr/bin/printf "[%s]\n" a "b c" d\"e "f\\" g\h '$HOME' """)
    assert result.out == b"[a]\n[b c]\n[d\"e]\n[f\\]\n[g\\h]\n['$HOME']\n"


@in_loop
async def test_process_has_environment_directory_and_user() -> None:
    async with running(hostname="web-1") as silo:
        result = await finished(
            silo,
            'sh -c "pwd; id -u; hostname; env"',
            Environment={"FOO": 'bär "q"', "path": "/usr/bin:/bin"},
            WorkingDirectory=r"C:\windows\SYSTEM32",
            User="nobody",
        )
        lines = result.out.decode().splitlines()
        assert lines[:3] == ["/Windows/System32", "65534", "web-1"]
        variables = dict(line.split("=", 1) for line in lines[3:])
        assert variables["FOO"] == 'bär "q"'
        assert variables["COMPUTERNAME"] == "WEB-1"
        assert variables["USERNAME"] == "nobody"
        assert variables["path"] == "/usr/bin:/bin"
        assert "PATH" not in variables
        for user in ("", "ContainerUser", "ContainerAdministrator", r"NT AUTHORITY\SYSTEM"):
            assert (await finished(silo, "id -u", User=user)).out == b"0\n"


@in_loop
async def test_large_environment_is_passed() -> None:
    variables = {f"V{number}": "x" * 1000 for number in range(260)}
    async with running() as silo:
        result = await finished(silo, 'sh -c "env | grep -c ^V[0-9]*=xxxx"', Environment=variables)
    assert result.out == b"260\n"


@in_loop
async def test_console_echo_resize_and_end_of_file() -> None:
    async with running() as silo:
        process = await silo.spawn(
            {
                "CommandLine": 'sh -c "stty size; tty; read line; echo got $line; stty size; cat"',
                "EmulateConsole": True,
                "ConsoleSize": [40, 120],
                "CreateStdInPipe": True,
                "CreateStdOutPipe": True,
                "CreateStdErrPipe": True,
            }
        )
        assert process.stdin is not None and process.stdout is not None and process.stderr is None
        assert stat.S_ISCHR(os.fstat(process.stdin).st_mode)
        seen = await read_until(process, b"/dev/pts/0\r\n")
        assert b"40 120\r\n" in seen
        process.resize(50, 132)
        os.write(process.stdin, b"typed\n")
        assert b"got typed\r\n50 132\r\n" in await read_until(process, b"132\r\n")
        process.close_stdin()  # sends the end-of-file character: cat exits
        assert await process.exited == 0
        process.close()


@in_loop
async def test_interrupt_key_of_a_console_interrupts_the_process() -> None:
    async with running() as silo:
        process = await silo.spawn(
            {"CommandLine": "sleep 1000", "EmulateConsole": True, "CreateStdInPipe": True, "CreateStdOutPipe": True}
        )
        assert process.stdin is not None
        os.write(process.stdin, b"\x03")
        assert await process.exited == 0xC000013A
        process.close()


@in_loop
async def test_resize_without_a_console_is_refused() -> None:
    async with running() as silo:
        process = await silo.spawn({"CommandLine": "sleep 1000"})
        with pytest.raises(ValueError, match="no console"):
            process.resize(1, 1)


@in_loop
async def test_many_concurrent_processes_all_report_their_exit() -> None:
    async with running() as silo:
        results = await asyncio.gather(*(finished(silo, f'sh -c "echo {n}; exit {n}"') for n in range(40)))
    assert [(result.code, result.out) for result in results] == [(n, f"{n}\n".encode()) for n in range(40)]


@in_loop
async def test_cancelled_start_leaks_no_process() -> None:
    async with running() as silo:
        starting = asyncio.ensure_future(silo.spawn({"CommandLine": "sleep 1000"}))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await finished(silo, "true")  # served after it
        await until(lambda: silo.process_list() == [], "the exit of the process without a waiter")


@in_loop
async def test_pid_is_that_of_the_host() -> None:
    async with running() as silo:
        process = await silo.spawn({"CommandLine": "sleep 1000"})
        assert exists(process.pid)
        assert Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n"
        assert os.readlink(f"/proc/{process.pid}/ns/pid") == os.readlink(f"/proc/{silo.pid}/ns/pid_for_children")
