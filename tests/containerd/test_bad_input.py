"""Invalid specs through `ctr`: the error names the problem and its fix, and nothing leaks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.containerd.node import Node

LONG = 40_000
COMMAND = ("cmd", "/c", "exit")

SPECS: dict[str, tuple[dict[str, Any], str]] = {
    "no process": ({"process": None}, "process"),
    "no arguments": ({"process": {"args": []}}, "process.args"),
    "relative layer": ({"windows": {"layerFolders": ["layer", "scratch"]}}, "give an absolute path"),
    "one layer": ({"windows": {"layerFolders": ["/tmp"]}}, "at least two"),
    "no layers": ({"windows": {"layerFolders": []}}, "no root file system"),
    "long command line": ({"process": {"args": ["cmd", "/c", "x" * LONG]}}, "32766"),
    "a megabyte of environment": ({"process": {"env": [f"V{n}={'x' * 30_000}" for n in range(35)]}}, "262144"),
    "relative directory": ({"process": {"cwd": "here"}}, "process.cwd"),
    "read-only root": ({"root": {"path": "", "readonly": True}}, "root.readonly"),
    "mount without source": ({"mounts": [{"destination": "C:\\data"}]}, "no source"),
    "mount of nothing": ({"mounts": [{"source": "/no/such/place", "destination": "C:\\data"}]}, "/no/such/place"),
    "two kinds of processor limit": (
        {"windows": {"resources": {"cpu": {"count": 1, "shares": 5}}}},
        "keep one",
    ),
}


@pytest.mark.parametrize("case", list(SPECS))
def test_create_reports_invalid_spec(node: Node, case: str) -> None:
    members, sentence = SPECS[case]
    members = dict(members)
    spec = node.spec(*COMMAND, **{name: value for name, value in members.items() if value is not None})
    for name in [name for name, value in members.items() if value is None]:
        del spec[name]
    expect_refused(node, spec, sentence)


@pytest.mark.parametrize(
    ("process", "sentence"),
    [
        ({"args": ["no-such-program.exe"]}, "no-such-program.exe"),
        ({"user": {"username": "nobody-here"}}, "nobody-here"),
    ],
    ids=["program", "user"],
)
def test_create_reports_missing_program(node: Node, process: dict[str, Any], sentence: str) -> None:
    """HCS reports these, at the start of the process."""
    expect_refused(node, node.spec(*COMMAND, process=process), sentence)


def test_exec_reports_invalid_process(node: Node) -> None:
    name = node.name()
    node.detach(name)
    result = node.exec(name, "e1", "no-such-program.exe")
    assert result.returncode == 1 and "no-such-program.exe" in result.stderr, result.stderr
    result = node.exec(name, "e2", "cmd", "/c", "x" * LONG)
    assert result.returncode == 1 and "32766" in result.stderr, result.stderr
    assert node.exec(name, "e3", "cmd", "/c", "echo fine").stdout.split() == ["fine"]
    node.remove(name)


def expect_refused(node: Node, spec: dict[str, Any], sentence: str) -> None:
    name = node.name()
    result = node.run(name, spec)
    assert result.returncode == 1, result.stderr
    message = "\n".join(line for line in result.stderr.splitlines() if "DEPRECATION" not in line)
    assert sentence in message, message
    assert "Traceback" not in message and "Error:" not in message, message
    node.ctr("task", "delete", "--force", name, check=False)
    node.ctr("container", "rm", name)
