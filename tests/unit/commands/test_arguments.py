"""argv, and what it is turned into."""

from __future__ import annotations

import pytest

from shim.__main__ import QUERIES, SWITCHES, TEXT_FLAGS, main, parse
from shim.commands import CommandError, usage

# As containerd writes it.
CONTAINERD = [
    "-namespace", "k8s.io", "-address", "/run/c.sock", "-publish-binary", "/usr/bin/containerd", "-id", "abc", "-debug",
    "start",
]  # fmt: skip


def test_command_line_of_containerd_is_parsed() -> None:
    action, flags = parse(CONTAINERD)
    assert action == "start"
    assert (flags.namespace, flags.address, flags.publish_binary, flags.id, flags.debug) == (
        "k8s.io", "/run/c.sock", "/usr/bin/containerd", "abc", True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        ["-namespace", "n", "-id", "x", "start"],
        ["--namespace", "n", "--id", "x", "start"],
        ["-namespace=n", "-id=x", "start"],
        ["--namespace=n", "--id=x", "start"],
        ["start", "-namespace", "n", "--id=x"],
        ["-namespace", "n", "start", "-id", "x"],
        ["-id", "wrong", "-id", "x", "--namespace", "n", "start", "-debug=false"],
    ],
)
def test_flag_forms_are_equivalent(arguments: list[str]) -> None:
    action, flags = parse(arguments)
    assert (action, flags.namespace, flags.id, flags.debug) == ("start", "n", "x", False)


def test_flag_value_may_begin_with_dash() -> None:
    _, flags = parse(["-id", "-start", "-namespace", "start", "-address=", "-bundle=a=b", "delete"])
    assert (flags.id, flags.namespace, flags.address, flags.bundle) == ("-start", "start", "", "a=b")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(["-v"], "version"), (["--version"], "version"), (["-info"], "info"), (["--help"], "help"), (["-h"], "help")],
)
def test_query_flags_need_no_action(arguments: list[str], expected: str) -> None:
    assert parse(arguments)[0] == expected
    assert parse([*CONTAINERD, *arguments])[0] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no action"),
        (["-id", "x"], "no action"),
        (["stop"], "unknown action 'stop'"),
        (["start", "delete"], "two actions"),
        (["-nonsense", "start"], "unknown flag -nonsense"),
        (["--nonsense=1", "start"], "unknown flag --nonsense"),
        (["start", "-id"], "-id needs a value"),
        (["-debug=perhaps", "start"], "neither true nor false"),
        (["-", "start"], "unknown action '-'"),
        (["--", "start"], "unknown flag --"),
        (["", "start"], "unknown action ''"),
    ],
)
def test_command_line_error_names_the_cause(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        parse(arguments)


@pytest.mark.parametrize("id", ["a/b", "..", ".", "a\\b", "a\0b"])
def test_id_with_path_separator_is_rejected(id: str) -> None:
    _, flags = parse(["-namespace", "n", "-id", id, "start"])
    with pytest.raises(CommandError, match=r"-id .* cannot be part of a file name"):
        flags.require("namespace", "id")


def test_help_lists_commands_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for word in ("start", "delete", "serve", "-namespace", "-bundle", "-info", "RUNHCS_SOCKET_DIR", "ctr run"):
        assert word in text


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-v"]) == 0
    assert capsys.readouterr().out.startswith("containerd-shim-runhcs-v1:\n  Version: ")


def test_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-wrong\nflag", "start"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and captured.err.startswith("containerd-shim-runhcs-v1: unknown flag")


def test_usage_documents_every_flag_of_the_parser() -> None:
    documented = {flag: bool(value) for flag, value, _, _ in usage.FLAGS}
    internal = set(usage.INTERNAL_FLAGS)
    assert {flag for flag, has_value in documented.items() if has_value} == set(TEXT_FLAGS) - internal
    assert {flag for flag, has_value in documented.items() if not has_value} == set(SWITCHES) - internal
    queries = {arguments.lstrip("-") for arguments, _ in usage.COMMANDS if arguments.startswith("-")}
    assert queries | {"help"} == set(QUERIES.values())
