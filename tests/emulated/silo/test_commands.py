"""The stand-in Windows commands: command lines and their output."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.silo import finished, in_loop, programs, read_until, running

__all__ = ["programs"]

VERSION = b"\r\nMicrosoft Windows [Version 10.0.20348.0]\r\n"
NOT_RECOGNIZED = b"'nope' is not recognized as an internal or external command,\r\noperable program or batch file.\r\n"
NO_HOST = b"Ping request could not find host elsewhere.invalid. Please check the name and try again.\r\n"

# command line, output, exit code
TABLE: list[tuple[str, bytes, int]] = [
    ("cmd /c echo hello", b"hello\r\n", 0),
    ('cmd /c "echo hello  world"', b"hello  world\r\n", 0),
    ('cmd /s /c "echo "quoted""', b'"quoted"\r\n', 0),
    ("cmd.exe /C ECHO %FOO% %foo% %NOPE%", b"bar bar %NOPE%\r\n", 0),
    ("cmd /q /c echo x", b"x\r\n", 0),
    ("cmd /c echo.", b"\r\n", 0),
    ("cmd /c echo.text", b"text\r\n", 0),
    ("cmd /c echo", b"ECHO is on.\r\n", 0),
    ('cmd /c echo a^&b "c & d" ^> e', b'a&b "c & d" > e\r\n', 0),
    ("cmd /c exit 3", b"", 3),
    ("cmd /c exit /b 5", b"", 5),
    ("cmd /c exit 4 & echo never", b"", 4),
    ("cmd /c cmd /c exit 777", b"", 777),
    ("cmd /c cmd /c exit 777 & echo done", b"done\r\n", 0),
    ("cmd /c echo a&& echo b", b"a\r\nb\r\n", 0),
    ("cmd /c exit 0 || echo no", b"", 0),
    ("cmd /c (exit /b 1) || echo or", b"", 1),
    ("cmd /c type nothing 2>nul || echo or", b"or\r\n", 0),
    ("cmd /c type nothing 2>nul && echo and", b"", 1),
    ("cmd /c nope 2>nul", b"", 1),
    ("cmd /c nope 2>&1", NOT_RECOGNIZED, 1),
    ("cmd /c echo to stderr 1>&2", b"", 0),
    ("cmd /c echo one>f & echo two>>f & type f", b"one\r\ntwo\r\n", 0),
    ("cmd /c (echo b& echo a) | sort", b"a\r\nb\r\n", 0),
    ('cmd /c (echo b& echo a) | sort /r | find "a"', b"a\r\n", 0),
    ("cmd /c (echo b& echo a)>f & sort < f", b"a\r\nb\r\n", 0),
    ("cmd /c for %i in (1 2 3) do @echo %i", b"1\r\n2\r\n3\r\n", 0),
    ("cmd /c for /l %n in (3,-1,1) do @echo %n", b"3\r\n2\r\n1\r\n", 0),
    ("cmd /c for %i in (a b) do (echo %i>%i.txt & type %i.txt)", b"a\r\nb\r\n", 0),
    (
        r"cmd /c md d & echo x>d\1.log & echo x>d\2.log & for %f in (d\*.log) do @echo %f",
        b"d\\1.log\r\nd\\2.log\r\n",
        0,
    ),
    (r"cmd /c if exist C:\windows (echo yes) else echo no", b"yes\r\n", 0),
    (r"cmd /c if not exist C:\nix echo none", b"none\r\n", 0),
    ('cmd /c if "%FOO%"=="bar" (echo same) else (echo different)', b"same\r\n", 0),
    ("cmd /c if 10 GTR 9 echo numbers", b"numbers\r\n", 0),
    ("cmd /c if /i abc==ABC echo alike", b"alike\r\n", 0),
    ("cmd /c if defined NOPE (echo set) else echo unset", b"unset\r\n", 0),
    ("cmd /c cmd /c exit 3 & if errorlevel 3 echo three", b"three\r\n", 0),
    ("cmd /c set FOO", b"FOO=bar\r\n", 0),
    ("cmd /c set NOPE 2>nul", b"", 1),
    ("cmd /c set NEW=1& set new", b"NEW=1\r\n", 0),
    ("cmd /c set /a 3*(4+1)-14/7", b"13", 0),
    (r"cmd /c mkdir \a\b & cd \A\b & cd", b"C:\\a\\b\r\n", 0),
    (r"cmd /c cd \nowhere 2>nul", b"", 1),
    ("cmd /c cd", b"C:\\tmp\r\n", 0),
    (r"cmd /c cd.. & cd", b"C:\\\r\n", 0),
    (r"cmd /c md x\y & rd x 2>&1 & rd /s x & if not exist x echo gone", b"The directory is not empty.\r\ngone\r\n", 0),
    ("cmd /c echo 1>a.txt & copy a.txt b.txt & type b.txt", b"        1 file(s) copied.\r\nECHO is on.\r\n", 0),
    ("cmd /c echo m>m1 & move m1 m2 & dir /b m*", b"        1 file(s) moved.\r\nm2\r\n", 0),
    ("cmd /c echo r>r1 & ren r1 r2 & type R2", b"r\r\n", 0),
    ("cmd /c echo d>d1.x & echo d>d2.x & del *.x & dir /b *.x 2>&1", b"File Not Found\r\n", 1),
    ("cmd /c ver", VERSION, 0),
    ("ver", VERSION, 0),
    ("cmd /c hostname", b"box\r\n", 0),
    ("hostname.exe", b"box\r\n", 0),
    ("cmd /c whoami", b"user manager\\containeradministrator\r\n", 0),
    ("cmd /c rem echo nothing & echo nothing", b"", 0),
    ("cmd /c echo ab| findstr /i AB", b"ab\r\n", 0),
    ("cmd /c echo ab| findstr /r a.$", b"ab\r\n", 0),
    ("cmd /c echo ab| findstr xy", b"", 1),
    ('cmd /c echo ab| find /c "b"', b"1\r\n", 0),
    ('cmd /c (echo a& echo b)| find /v /n "a"', b"[2]b\r\n", 0),
    ("cmd /c echo x| more", b"x\r\n", 0),
    ("cmd /c timeout /t 0 >nul", b"", 0),
    ("timeout /t 0 /nobreak", b"\r\nWaiting for 0 seconds, press CTRL+C to quit ...\r\n", 0),
    ("ping -n 1 elsewhere.invalid", NO_HOST, 1),
    ('powershell -Command "Write-Output hi; exit 5"', b"hi\r\n", 5),
    ("powershell.exe -NoProfile -c \"Write-Host $env:FOO; 'lit'; Start-Sleep -Milliseconds 1\"", b"bar\r\nlit\r\n", 0),
    ('powershell "[Environment]::Exit(300)"', b"", 300),
    ('cmd /c sh -c "echo $0 ; exit 9"', b"sh\n", 9),
    ('cmd /c ""sh" -c "exit 8""', b"", 8),
    ("cmd /c if a==b (echo", b"", 255),
]


@pytest.mark.parametrize(("command_line", "out", "code"), TABLE, ids=[row[0] for row in TABLE])
@in_loop
async def test_command_line_output_and_exit_code(command_line: str, out: bytes, code: int) -> None:
    async with running(hostname="box") as silo:
        result = await finished(silo, command_line, WorkingDirectory=r"C:\tmp", Environment={"FOO": "bar"})
    assert (trailing_blanks_removed(result.out), result.code) == (out, code), result.error


def trailing_blanks_removed(text: bytes) -> bytes:
    """`echo a & …` prints the blank before the &; the table does not."""
    return b"\r\n".join(line.rstrip(b" ") for line in text.split(b"\r\n"))


@in_loop
async def test_cmd_runs_interactive_lines() -> None:
    async with running() as silo:
        typed = b"echo hi\r\ncd \\windows\r\nset X=1\r\necho %X%\r\nexit 4\r\n"
        loud = await finished(silo, "cmd", stdin=typed)
        quiet = await finished(silo, "cmd /q /k echo first", stdin=typed)
    assert loud.code == 4
    assert loud.out.startswith(VERSION)
    assert b"C:\\>echo hi\r\nhi\r\n\r\nC:\\>cd \\windows\r\n\r\nC:\\Windows>set X=1\r\n" in loud.out
    assert (quiet.code, quiet.out) == (4, b"first\r\nhi\r\n1\r\n")


@in_loop
async def test_cmd_leaves_input_after_the_line_to_the_started_program() -> None:
    async with running() as silo:
        result = await finished(silo, "cmd /q", stdin=b"cat\nfor cat\n")
    assert result.out == b"for cat\n"


@in_loop
async def test_dir_lists_files() -> None:
    async with running() as silo:
        result = await finished(silo, r"cmd /c md \d\sub & (echo 12345)>\d\file.txt & dir \D")
    lines = result.out.decode().split("\r\n")
    assert " Directory of C:\\d" in lines
    assert any(line.endswith("    <DIR>          sub") for line in lines)
    assert any(line.endswith("                 7 file.txt") for line in lines)
    assert any("1 File(s)              7 bytes" in line for line in lines)


@in_loop
async def test_batch_files_run(tmp_path: Path) -> None:
    (tmp_path / "loop.cmd").write_text(
        "@echo off\r\n"
        "rem counts to its argument\r\n"
        "set N=0\r\n"
        ":again\r\n"
        "set /a N=%N%+1\r\n"
        "echo %N% of %1 %%\r\n"
        "if %N% LSS %1 goto again\r\n"
        "if exist nothing (\r\n"
        "  echo wrong\r\n"
        ") else (\r\n"
        "  echo right\r\n"
        ")\r\n"
        "call other.bat %*\r\n"
        "exit /b 42\r\n"
    )
    (tmp_path / "other.bat").write_text("@echo other %2\n@goto :eof\n@echo never\n")
    async with running(root=str(tmp_path)) as silo:
        result = await finished(silo, r"C:\loop.cmd 3 x")
    assert result.out == b"1 of 3 %\r\n2 of 3 %\r\n3 of 3 %\r\nright\r\nother x\r\n"
    assert result.code == 42


@pytest.mark.parametrize("command_line", ["ping -t localhost", "cmd /c ping -t 127.0.0.1"])
@in_loop
async def test_ping_t_runs_until_it_is_stopped(command_line: str) -> None:
    async with running() as silo:
        process = await silo.spawn({"CommandLine": command_line, "CreateStdOutPipe": True})
        await read_until(process, b"Reply from 127.0.0.1: bytes=32 time<1ms TTL=128\r\n")
        process.signal("CtrlC")
        assert await asyncio.wait_for(process.exited, 30) == 0xC000013A
        process.close()


@in_loop
async def test_tasklist_shows_only_processes_of_the_silo() -> None:
    async with running() as silo:
        await silo.spawn({"CommandLine": "sleep 1000"})
        result = await finished(silo, "cmd /c tasklist")
    names = [line.split()[0] for line in result.out.decode().splitlines()[3:]]
    assert names == ["silo", "sleep", "cmd.exe", "tasklist.exe"]
