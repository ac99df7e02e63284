"""Process documents from OCI processes: quoting, limits, and errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shim.container.process_document import PAUSE_COMMAND, keep_alive, parameters, quote
from shim.oci.errors import InvalidSpec
from shim.oci.section import Section


def process(**values: Any) -> Section:
    return Section({"args": ["cmd"], **values}, "process")


def document(section: Section, **more: Any) -> dict[str, Any]:
    return parameters(section, **{"stdin": False, "stdout": False, "stderr": False, **more})


def argv(line: str) -> list[str]:
    """CommandLineToArgvW, implemented from its documentation."""
    arguments, at = [], 0
    if line[:1] == '"':
        program, _, rest = line[1:].partition('"')
        arguments.append(program)
        at = len(line) - len(rest)
    else:
        while at < len(line) and line[at] not in " \t":
            at += 1
        arguments.append(line[:at])
    while True:
        while at < len(line) and line[at] in " \t":
            at += 1
        if at >= len(line):
            return arguments
        current, quoted = "", False
        while at < len(line) and (quoted or line[at] not in " \t"):
            slashes = 0
            while at < len(line) and line[at] == "\\":
                slashes += 1
                at += 1
            if line[at : at + 1] == '"':
                current += "\\" * (slashes // 2)
                if slashes % 2:
                    current += '"'
                elif quoted and line[at + 1 : at + 2] == '"':
                    current += '"'
                    at += 1
                else:
                    quoted = not quoted
                at += 1
            else:
                current += "\\" * slashes
                if at < len(line) and (quoted or line[at] not in " \t"):
                    current += line[at]
                    at += 1
        arguments.append(current)


class TestQuoting:
    @pytest.mark.parametrize(
        ("argument", "quoted"),
        [
            ("plain", "plain"),
            ("", '""'),
            ("a b", '"a b"'),
            ("a\tb", '"a\tb"'),
            ('c"d', 'c\\"d'),
            ("e\\", "e\\"),
            ("f g\\", '"f g\\\\"'),
            ('h\\"', 'h\\\\\\"'),
            ("i\\j k", '"i\\j k"'),
            ("l&m", "l&m"),
            ("%PATH%", "%PATH%"),
            ("ä 𐀀", '"ä 𐀀"'),
        ],
    )
    def test_quoted_arguments(self, argument: str, quoted: str) -> None:
        assert quote(argument) == quoted

    @given(st.lists(st.text(st.sampled_from('\\" \tab𐀀\n'), max_size=8), max_size=6))
    @example(["\\\\", '"', '\\"', " ", ""])
    def test_quoted_arguments_parse_back_unchanged(self, arguments: list[str]) -> None:
        line = document(process(args=["tool.exe", *arguments]))["CommandLine"]
        assert argv(line) == ["tool.exe", *arguments]

    def test_program_with_spaces(self) -> None:
        line = document(process(args=["C:\\Program Files\\x.exe", "-v"]))["CommandLine"]
        assert line == '"C:\\Program Files\\x.exe" -v' and argv(line)[0] == "C:\\Program Files\\x.exe"


class TestDocument:
    def test_minimal_process(self) -> None:
        section = process(args=["cmd", "/c", "echo hello"], cwd="C:\\", user={"username": "ContainerUser"})
        assert document(section, stdout=True, stderr=True) == {
            "CommandLine": 'cmd /c "echo hello"',
            "User": "ContainerUser",
            "WorkingDirectory": "C:\\",
            "CreateStdOutPipe": True,
            "CreateStdErrPipe": True,
        }

    def test_environment_and_stdin(self) -> None:
        env = ['FOO=bär "q"', "PATH=C:\\Windows;C:\\Windows\\system32", "EMPTY=", "NOEQ", "=C:=C:\\", "A=1", "A=b=c"]
        section = process(args=["C:\\tool.exe", "env"], env=env)
        assert document(section, stdin=True) == {
            "CommandLine": "C:\\tool.exe env",
            "Environment": {"FOO": 'bär "q"', "PATH": "C:\\Windows;C:\\Windows\\system32", "A": "b=c"},
            "CreateStdInPipe": True,
        }

    def test_terminal_has_no_stderr_pipe(self) -> None:
        section = process(terminal=True, consoleSize={"width": 100, "height": 30})
        expected = {"CommandLine": "cmd", "EmulateConsole": True, "CreateStdOutPipe": True, "ConsoleSize": [30, 100]}
        assert document(section, stdout=True, stderr=True) == expected
        assert document(process(), terminal=True) == {"CommandLine": "cmd", "EmulateConsole": True}

    def test_command_line_precedes_args(self) -> None:
        line = 'C:\\tool.exe raw   "x y"  %PATH%'
        assert document(process(commandLine=line))["CommandLine"] == line

    def test_exec_args_precede_container_command_line(self) -> None:
        own = process(commandLine="server --port 80", args=[])
        assert document(process(commandLine="server --port 80", args=["ps", "-a"]), container=own) == {
            "CommandLine": "ps -a"
        }
        assert document(process(commandLine="other", args=["ps"]), container=own) == {"CommandLine": "other"}
        assert document(own, container=own) == {"CommandLine": "server --port 80"}

    def test_pause_shell_is_replaced(self) -> None:
        assert keep_alive({"CommandLine": "C:\\Windows\\System32\\cmd.exe", "User": "u"}) == {
            "CommandLine": PAUSE_COMMAND,
            "User": "u",
        }
        assert keep_alive({"CommandLine": "cmd.exe /c x"}) == {"CommandLine": "cmd.exe /c x"}


class TestRefusals:
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"args": []}, "names no program"),
            ({"args": None}, "names no program"),
            ({"args": ["", "x"]}, "names no program"),
            ({"cwd": "work"}, "process.cwd is 'work', a relative path"),
            ({"cwd": "C:work"}, "relative path"),
            ({"args": ["x" * 40_000]}, "has 40000 characters and Windows takes 32766"),
            ({"args": ["x" * 32_767]}, "Windows takes 32766"),
            ({"commandLine": "\U00010000" * 16_384}, "has 32768 characters"),
            ({"env": ["A=" + "x" * 32_767]}, "environment variable A"),
            ({"env": [f"V{n}={'x' * 1000}" for n in range(1000)]}, "characters in all"),
            ({"env": ["A=1\x002"]}, "process.env[0] holds a NUL"),
            ({"args": ["a\0b"]}, "holds a NUL"),
            ({"args": ["a", 1]}, "process.args[1] is a number"),
            ({"consoleSize": {"height": 70_000, "width": 1}}, "65535"),
        ],
    )
    def test_invalid_process_is_refused(self, values: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidSpec) as caught:
            document(process(**values))
        assert message in str(caught.value)
        assert len(str(caught.value)) < 400  # it does not repeat what is too long

    def test_longest_command_line_is_accepted(self) -> None:
        assert len(document(process(args=["x" * 32_766]))["CommandLine"]) == 32_766

    @pytest.mark.parametrize("cwd", ["C:\\", "c:/work", "\\work", "/work", ""])
    def test_absolute_paths_in_container(self, cwd: str) -> None:
        assert document(process(cwd=cwd)).get("WorkingDirectory", "") == cwd
