"""`ctr run` and `ctr task exec`: output, input, terminals, logs and exit codes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runhcs.containerd.client import Streams
from tests.containerd.node import Node
from tests.containerd.terminal import Terminal
from tests.support.eventually import eventually


def test_run_returns_stdout_stderr_and_exit_code(node: Node) -> None:
    name = node.name()
    result = node.run(name, node.spec("cmd", "/c", "echo out & echo err 1>&2 & exit 7"), "--rm")
    assert result.returncode == 7
    assert result.stdout.split() == ["out"]
    assert "err" in result.stderr
    node.events.expect(name, [f"create {name}", f"start {name}", f"exit {name}", f"delete {name}"])
    exited = dict(node.events.with_fields(name))["exit"]
    assert exited["exit_status"] == 7 and exited["id"] == name and exited["pid"] > 0


def test_megabyte_of_output_is_complete_before_exit(node: Node) -> None:
    spec = node.spec("sh", "-c", "dd if=/dev/zero bs=1024 count=1024 2>/dev/null; exit 3")
    result = node.run(node.name(), spec, "--rm")
    assert result.returncode == 3
    assert len(result.stdout) == 1 << 20


def test_piped_stdin_reaches_process_and_is_closed(node: Node) -> None:
    result = node.run(node.name(), node.spec("sh", "-c", "cat; exit 4"), "--rm", stdin="one\ntwo\n")
    assert result.returncode == 4, result.stderr
    assert result.stdout == "one\ntwo\n"


def test_terminal_output_input_and_resize(node: Node) -> None:
    name = node.name()
    spec = node.spec("sh", "-c", "stty size; read line; echo got $line; stty size; exit 5", terminal=True)
    with Terminal(
        node.containerd.ctr_command(*node.run_arguments(name, spec, "--rm", "--tty")), node.containerd.env, 31, 97
    ) as terminal:
        terminal.expect("\r\n")
        # ctr may show output before it handles SIGWINCH, and then misses the first change of size.
        eventually(lambda: terminal.resize(41, 123) or _resized(node), "the new size in a call of HCS")
        terminal.type("words\r")
        assert terminal.wait() == 5
    assert "got words" in terminal.shown
    assert "41 123" in terminal.shown


def _resized(node: Node) -> bool:
    sizes = [entry["arguments"] for entry in node.emulator.journal("HcsModifyProcess")]
    return any("'Width': 123" in str(arguments) for arguments in sizes)


def test_exec_in_a_running_container(node: Node) -> None:
    name = node.name()
    node.detach(name)
    result = node.exec(name, "e1", "cmd", "/c", "echo from exec & exit 9")
    assert result.returncode == 9
    assert result.stdout.split() == ["from", "exec"]
    assert node.exec(name, "e2", "sh", "-c", "cat", stdin="piped\n").stdout == "piped\n"
    node.remove(name)
    published = [f"create {name}", f"start {name}"]
    for exec_id in ("e1", "e2"):
        published += [f"exec-added {exec_id}", f"exec-started {exec_id}", f"exit {exec_id}", f"delete {exec_id}"]
    node.events.expect(name, [*published, f"exit {name}", f"delete {name}"])


def test_exec_with_terminal(node: Node) -> None:
    name = node.name()
    node.detach(name)
    script = "[ -t 0 ] && echo a terminal; read x; exit $x"
    command = ["task", "exec", "--tty", "--exec-id", "e1", name, "sh", "-c", script]
    with Terminal(node.containerd.ctr_command(*command), node.containerd.env) as terminal:
        terminal.expect("\n")
        terminal.type("6\r")
        assert terminal.wait() == 6
    assert "a terminal" in terminal.shown
    node.remove(name)


def test_exec_with_duplicate_id_is_refused(node: Node) -> None:
    name = node.name()
    node.detach(name)
    node.ctr("task", "exec", "--detach", "--exec-id", "e1", name, "ping", "-t", "localhost")
    result = node.exec(name, "e1", "cmd", "/c", "echo no")
    assert result.returncode != 0 and "already exists" in result.stderr
    node.remove(name)


def test_attach_to_detached_container(node: Node, tmp_path: Path) -> None:
    name = node.name()
    spec = node.spec(
        "sh", "-c", "while [ ! -e /gate/open ]; do sleep 0.05; done; echo late; exit 8",
        mounts=[{"source": str(tmp_path), "destination": "C:\\gate"}],
    )  # fmt: skip
    node.ctr(*node.run_arguments(name, spec, "-d"))
    with node.popen("task", "attach", name) as attached:
        node.expect_open(attached.pid, f"{name}-stdout")
        (tmp_path / "open").touch()
        out, _ = attached.communicate(timeout=60)
    assert out == "late\n"
    assert attached.returncode == 8
    node.ctr("task", "delete", name, check=False)
    node.ctr("container", "rm", name)


def test_run_with_null_io(node: Node) -> None:
    result = node.run(node.name(), node.spec("cmd", "/c", "echo unheard & exit 2"), "--rm", "--null-io")
    assert (result.returncode, result.stdout) == (2, "")


def test_run_with_log_file_uri(node: Node, tmp_path: Path) -> None:
    log = tmp_path / "deep" / "log"
    spec = node.spec("cmd", "/c", "echo out & echo err 1>&2 & exit 3")
    result = node.run(node.name(), spec, "--rm", "--log-uri", f"file://{log}")
    assert result.returncode == 3
    assert set(log.read_text().split()) == {"out", "err"}


def test_run_with_binary_logger(node: Node, tmp_path: Path) -> None:
    logger = tmp_path / "logger"
    logger.write_text(
        '#!/bin/sh\nexec 5>&-\n{ echo "$CONTAINER_NAMESPACE $CONTAINER_ID $1 $2"; cat <&3; cat <&4; } > "$2"\n'
    )
    logger.chmod(0o755)
    name = node.name()
    log = tmp_path / "log"
    spec = node.spec("cmd", "/c", "echo out & echo err 1>&2 & exit 3")
    assert node.run(name, spec, "--rm", "--log-uri", f"binary://{logger}?to={log}").returncode == 3
    eventually(lambda: "err" in log.read_text(), "the exit of the logger")
    assert log.read_text().split() == ["tests", name, "to", str(log), "out", "err"]


def test_missing_binary_logger_is_reported(node: Node) -> None:
    name = node.name()
    result = node.run(name, node.spec("cmd", "/c", "exit"), "--log-uri", "binary:///no/such/logger")
    assert result.returncode == 1
    assert "/no/such/logger" in result.stderr and "cannot be started" in result.stderr
    node.ctr("container", "rm", name)


def test_closed_reader_does_not_delay_exit(node: Node) -> None:
    """`ctr run` is killed while its container writes output; the container can still be killed and deleted."""
    name = node.name()
    spec = node.spec("sh", "-c", "echo begun; dd if=/dev/zero bs=1024 count=4096 2>/dev/null; exit 3")
    with node.popen(*node.run_arguments(name, spec), stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "begun\n"
        client.kill()
    node.expect_status(name, "RUNNING")
    node.ctr("task", "kill", "-s", "9", name)
    node.expect_status(name, "STOPPED")
    node.remove(name)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", ["2.3"])
def test_gigabyte_of_output_arrives_unchanged(node: Node, tmp_path: Path) -> None:
    block = os.urandom(64 << 20)
    (tmp_path / "block").write_bytes(block)
    name = node.name()
    mounts = [{"source": str(tmp_path), "destination": "C:\\data"}]
    spec = node.spec("sh", "-c", "cat " + "/data/block " * 16, mounts=mounts)
    os.mkfifo(tmp_path / "out")
    with node.client(timeout=240) as client:
        client.create_container(name, spec)
        client.create_task(name, Streams(stdout=str(tmp_path / "out")))
        client.start(name)
        with open(tmp_path / "out", "rb") as out:
            for turn in range(16):
                assert out.read(len(block)) == block, f"part {turn} differs"
            assert out.read() == b""
        assert client.wait(name).status == 0
        client.delete_task(name)
        client.delete_container(name)
