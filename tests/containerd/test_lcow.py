"""`ctr run` of a Linux image: a Linux container in a utility VM, with the emulator's guest agent and Microsoft's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runhcs.containerd.client import LINUX_RESOURCES
from tests.containerd.daemon import VERSIONS
from tests.containerd.lcow import GUESTS, LinuxNode
from tests.containerd.node import Node
from tests.containerd.terminal import Terminal
from tests.support.busybox_image import GREETING, PAGE
from tests.support.eventually import eventually
from tests.support.vm_image import vm_workers

# Every version with both guests for what differs between versions, each version with one guest otherwise.
ALL = [(version, guest) for version in VERSIONS for guest in GUESTS]
SOME = [("1.6", "emulated"), ("1.7", "gcs"), ("2.3", "emulated"), ("2.3", "gcs")]
every_pair = pytest.mark.parametrize(("version", "guest"), ALL)
some_pairs = pytest.mark.parametrize(("version", "guest"), SOME)


@pytest.fixture
def linux(node: Node, guest: str) -> LinuxNode:
    return LinuxNode(node, guest)


@every_pair
def test_run_returns_output_of_image_and_exit_code(linux: LinuxNode) -> None:
    assert linux.output() == GREETING
    name = linux.name()
    result = linux.run("sh", "-c", "echo out; echo err >&2; exit 7", id=name)
    assert (result.returncode, result.stdout) == (7, "out\n")
    assert result.stderr.endswith("err\n")  # after warnings of ctr
    linux.events.expect(name, [f"create {name}", f"start {name}", f"exit {name}", f"delete {name}"])
    assert dict(linux.events.with_fields(name))["exit"]["exit_status"] == 7


@every_pair
def test_exec_in_a_running_container(linux: LinuxNode) -> None:
    with linux.running() as name:
        assert vm_workers(linux.node.emulator), "it runs in a utility VM"
        result = linux.node.exec(name, "e1", "sh", "-c", "echo from exec; exit 9")
        assert (result.returncode, result.stdout) == (9, "from exec\n"), result.stderr
        assert linux.node.exec(name, "e2", "cat", stdin="piped\n").stdout == "piped\n"
    published = [f"create {name}", f"start {name}"]
    for exec_id in ("e1", "e2"):
        published += [f"exec-added {exec_id}", f"exec-started {exec_id}", f"exit {exec_id}", f"delete {exec_id}"]
    linux.events.expect(name, [*published, f"exit {name}", f"delete {name}"])


@some_pairs
@pytest.mark.parametrize("snapshotter", ["overlayfs", "native"])
def test_image_environment_directory_and_mounts(linux: LinuxNode, snapshotter: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mounted\n")
    (tmp_path / "written").mkdir()
    flags = (
        "--snapshotter", snapshotter, "--env", "MORE=less",
        "--mount", f"type=bind,src={tmp_path},dst=/data,options=rbind:ro",
        "--mount", f"type=bind,src={tmp_path / 'written'},dst=/out,options=rbind:rw",
        "--mount", f"type=bind,src={tmp_path / 'file'},dst=/one,options=rbind:ro",
    )  # fmt: skip
    script = (
        "pwd; cat index.html /data/file /one; echo $FROM $MORE; touch /new && ls /new; echo text > /out/file; "
        "touch /data/no 2>/dev/null || echo read-only; id -u; hostname"
    )
    lines = linux.output("sh", "-c", script, flags=flags).splitlines()
    expected = ["/www", PAGE.strip(), "mounted", "mounted", "image less", "/new", "read-only", "0"]
    assert lines[: len(expected)] == expected and len(lines) == len(expected) + 1
    assert (tmp_path / "written" / "file").read_text() == "text\n"


@some_pairs
def test_missing_program_is_reported_and_mounted_files_stay(linux: LinuxNode, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept\n")
    result = linux.run("/none", flags=("--mount", f"type=bind,src={tmp_path},dst=/data,options=rbind:rw"))
    assert result.returncode and "/none" in result.stderr
    assert (tmp_path / "file").read_text() == "kept\n"


@some_pairs
def test_working_directory_and_read_only_root(linux: LinuxNode) -> None:
    assert linux.output("pwd", flags=("--cwd", "/tmp")) == "/tmp\n"
    script = "touch /new 2>/dev/null || echo read-only"
    assert linux.output("sh", "-c", script, flags=("--read-only",)) == "read-only\n"


@some_pairs
def test_piped_stdin_is_passed_and_closed(linux: LinuxNode) -> None:
    text = "".join(f"line {number}\n" for number in range(20_000))
    result = linux.run("sh", "-c", "cat; exit 4", stdin=text)
    assert (result.returncode, result.stdout) == (4, text), result.stderr


@some_pairs
def test_megabyte_of_output_is_complete_before_exit(linux: LinuxNode) -> None:
    result = linux.run("sh", "-c", "dd if=/dev/zero bs=1024 count=1024 2>/dev/null; exit 3")
    assert (result.returncode, len(result.stdout)) == (3, 1 << 20), result.stderr


@some_pairs
def test_terminal_output_input_and_resize(linux: LinuxNode) -> None:
    name = linux.name()
    script = "echo begin; read line; echo got $line; stty size; exit 5"
    command = linux.run_arguments(name, "sh", "-c", script, flags=("--rm", "--tty"))
    with Terminal(linux.node.containerd.ctr_command(*command), linux.node.containerd.env, 31, 97) as terminal:
        terminal.expect("begin\r")
        resize_until_received(linux, name, terminal)
        terminal.type("words\r")
        assert terminal.wait() == 5, terminal.shown
    assert "got words" in terminal.shown and "41 123" in terminal.shown


def resize_until_received(linux: LinuxNode, name: str, terminal: Terminal) -> None:
    """ctr may show output before it handles SIGWINCH, and then misses the first change of size. A shell in the
    container sees the size of the terminal of its first process."""

    def resized() -> bool:
        terminal.resize(41, 123)
        return linux.node.exec(name, f"e{linux.name()}", "sh", "-c", "stty size < /dev/console").stdout == "41 123\n"

    eventually(resized, "the new size in the container")


@some_pairs
def test_exec_with_terminal(linux: LinuxNode) -> None:
    with linux.running() as name:
        script = "[ -t 0 ] && echo a terminal; read x; exit $x"
        command = ["task", "exec", "--tty", "--exec-id", "e1", name, "sh", "-c", script]
        with Terminal(linux.node.containerd.ctr_command(*command), linux.node.containerd.env) as terminal:
            terminal.expect("\n")
            terminal.type("6\r")
            assert terminal.wait() == 6
        assert "a terminal" in terminal.shown


@some_pairs
def test_attach_to_detached_container(linux: LinuxNode, tmp_path: Path) -> None:
    name = linux.name()
    script = "while [ ! -e /gate/open ]; do sleep 0.05; done; echo late; exit 8"
    mount = f"type=bind,src={tmp_path},dst=/gate,options=rbind:ro"
    linux.ctr(*linux.run_arguments(name, "sh", "-c", script, flags=("-d", "--mount", mount)))
    with linux.node.popen("task", "attach", name) as attached:
        linux.node.expect_open(attached.pid, f"{name}-stdout")
        (tmp_path / "open").touch()
        out, _ = attached.communicate(timeout=60)
    assert (out, attached.returncode) == ("late\n", 8)
    linux.ctr("task", "delete", name, check=False)
    linux.ctr("container", "rm", name)


@some_pairs
def test_user_by_name_is_resolved_in_the_container(linux: LinuxNode) -> None:
    shown = linux.run_spec("sh", "-c", "id -un; id -u; id -g", process={"user": {"username": "alice"}})
    assert shown.stdout.split() == ["alice", "1234", "4321"], shown.stderr
    shown = linux.run_spec("sh", "-c", "id -u; id -g", process={"user": {"username": "alice:audio"}})
    assert shown.stdout.split() == ["1234", "29"], shown.stderr
    unknown = linux.run_spec("true", process={"user": {"username": "mallory"}})
    assert unknown.returncode == 1 and "mallory" in unknown.stderr, unknown.stderr


@some_pairs
def test_missing_program_is_reported(linux: LinuxNode) -> None:
    result = linux.run("no-such-program")
    assert result.returncode == 1
    assert "executable file not found in $PATH" in result.stderr, result.stderr
    with linux.running() as name:
        failed = linux.node.exec(name, "e1", "no-such-program")
        assert failed.returncode == 1 and "executable file not found in $PATH" in failed.stderr, failed.stderr
        assert linux.sh(name, "echo still running") == "still running\n"


@some_pairs
def test_signals_and_exit_codes(linux: LinuxNode) -> None:
    script = "trap 'echo user; exit 21' USR1; trap 'exit 22' TERM; echo ready; while :; do sleep 0.05; done"
    for name_of_signal, code in (("SIGUSR1", 21), ("SIGTERM", 22), ("SIGKILL", 137)):
        name = linux.detach("sh", "-c", f"touch /tmp/up; {script}")
        eventually(
            lambda name=name: linux.node.exec(name, f"e{linux.name()}", "ls", "/tmp/up").returncode == 0, "it runs"
        )
        linux.ctr("task", "kill", "-s", name_of_signal, name)
        linux.node.expect_status(name, "STOPPED")
        assert f"exit code {code}" in linux.ctr("task", "delete", name, check=False).stderr
        linux.ctr("container", "rm", name)


@some_pairs
def test_kill_exec_and_kill_all(linux: LinuxNode) -> None:
    name = linux.detach()
    for exec_id in ("e1", "e2"):
        linux.ctr("task", "exec", "--detach", "--exec-id", exec_id, name, "sleep", "infinity")
    linux.ctr("task", "kill", "-s", "9", "--exec-id", "e1", name)
    eventually(lambda: "exit e1" in linux.events.received(name), "the exit of the exec")
    assert linux.node.status(name) == "RUNNING"
    linux.ctr("task", "delete", "--exec-id", "e1", name, check=False)
    linux.ctr("task", "kill", "-s", "9", "--all", name)
    linux.node.expect_status(name, "STOPPED")
    again = linux.ctr("task", "kill", "-s", "9", name, check=False)
    assert again.returncode == 1 and "not found" in again.stderr
    linux.ctr("task", "delete", name, check=False)
    eventually(lambda: f"delete {name}" in linux.events.received(name), "the container's delete event")
    published = linux.events.received(name)
    assert published.index("exit e2") < published.index(f"exit {name}") < published.index(f"delete {name}")
    linux.ctr("container", "rm", name)


def container_metrics(linux: LinuxNode, name: str) -> dict[str, Any]:
    """Metrics of the control group. ctr 1.x knows no other; for later ones they come with those of the VM."""
    metrics = json.loads(linux.ctr("task", "metrics", "--format", "json", name).stdout)
    if "Container" in metrics:
        assert metrics["vm"]["memory"]["working_set_bytes"] > 0
        statistics = metrics["Container"]
        return dict(statistics.get("Linux") or statistics["linux"])  # ctr 1.7 spells it in lower case
    return dict(metrics)


@every_pair
def test_metrics_and_processes(linux: LinuxNode) -> None:
    with linux.running() as name:
        linux.ctr("task", "exec", "--detach", "--exec-id", "e1", name, "sleep", "infinity")
        metrics = container_metrics(linux, name)
        assert metrics["memory"]["usage"]["usage"] > 0, metrics
        assert metrics["pids"]["current"] == 2, metrics
        assert metrics["cpu"]["usage"]["total"] > 0, metrics
        rows = [line.split() for line in linux.ctr("task", "ps", name).stdout.splitlines()[1:]]
        assert len(rows) == 2, rows
        listing = [line.split() for line in linux.ctr("task", "ls").stdout.splitlines()[1:]]
        pid = next(row[1] for row in listing if row[0] == name)
        assert int(pid) > 0 and pid in {row[0] for row in rows}
        assert any("e1" in " ".join(row) for row in rows), rows


@some_pairs
def test_memory_limit_is_enforced_and_reported(linux: LinuxNode) -> None:
    limit = 32 << 20
    with linux.running(flags=("--memory-limit", str(limit))) as name:
        metrics = container_metrics(linux, name)
        assert metrics["memory"]["usage"]["limit"] == limit, metrics["memory"]
    name = linux.name()
    result = linux.run("tail", "/dev/zero", flags=("--memory-limit", str(limit)), id=name)
    assert result.returncode == 137, result.stderr
    eventually(lambda: f"oom {name}" in linux.events.received(name), "the event of the OOM kill")


@some_pairs
def test_update_changes_memory_of_the_vm(linux: LinuxNode) -> None:
    with linux.running() as name, linux.node.client() as tasks:
        tasks.update(name, {"memory": {"limit": 512 << 20}}, kind=LINUX_RESOURCES)
        changes = [str(entry["arguments"]) for entry in linux.node.emulator.journal("HcsModifyComputeSystem")]
        assert any("Memory/SizeInMB" in change and "512" in change for change in changes), changes


@some_pairs
def test_pause_is_refused(linux: LinuxNode) -> None:
    with linux.running() as name:
        for verb in ("pause", "resume"):
            result = linux.ctr("task", verb, name, check=False)
            assert result.returncode == 1 and verb in result.stderr, result.stderr
        assert linux.sh(name, "echo alive") == "alive\n"


@some_pairs
def test_container_has_its_own_namespaces_and_hostname(linux: LinuxNode) -> None:
    script = "hostname; echo $$; ls /sys/class/net; for n in pid uts net ipc mnt; do readlink /proc/self/ns/$n; done"
    result = linux.run_spec("sh", "-c", script, hostname="inside")
    hostname, pid, interface, *namespaces = result.stdout.split()
    assert (hostname, pid, interface) == ("inside", "1", "lo"), result.stderr
    assert len(namespaces) == 5
    own = {str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("pid", "uts", "net", "ipc", "mnt")}
    assert not own & set(namespaces)


@some_pairs
def test_two_containers_have_separate_vms(linux: LinuxNode) -> None:
    with linux.running() as first, linux.running() as second:
        assert len(vm_workers(linux.node.emulator)) == 2
        linux.sh(first, "echo secret > /dev/shm/file")
        assert linux.sh(second, "ls /dev/shm") == ""
