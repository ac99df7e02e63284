"""`runhcs demo` without containerd: its result, its cleanup and its leak checks."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runhcs.demo import leak_checks
from runhcs.demo.output import Phase, Screen
from runhcs.demo.workspace import Workspace
from tests.support.eventually import eventually

TIMEOUT = 90


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "runhcs", "demo", "--no-containerd", *arguments]


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """The demo's directory is below one of the test's own, with a path short enough for sockets."""
    directory = tempfile.mkdtemp(prefix="d-", dir="/tmp")
    yield os.environ | {"TMPDIR": directory, "NO_COLOR": ""}
    left = os.listdir(directory)
    shutil.rmtree(directory, ignore_errors=True)
    assert not left


def names(part: dict[str, Any], kind: str) -> list[str]:
    return [entry["name"] for entry in part["happened"] if entry["kind"] == kind]


def texts(part: dict[str, Any], name: str) -> list[str]:
    return [entry["text"] for entry in part["happened"] if entry["name"] == name]


def test_json_result_has_all_parts_and_no_leaks(environment: dict[str, str]) -> None:
    done = subprocess.run(
        command("--json"), env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["ok"] and result["error"] is None
    assert result["directory"].startswith(environment["TMPDIR"] + "/")
    parts = {part["name"]: part for part in result["parts"]}

    hello = parts["process"]
    assert hello["exit_status"] == 3
    assert "Hello from a Windows base layer." in hello["output"]
    assert texts(hello, "State") == ["created", "stopped"]
    assert names(hello, "event") == ["create", "start", "exit", "delete"]
    phases = [phase["name"] for phase in hello["phases"]]
    assert phases == ["shim start", "connect", "create", "start", "first byte", "exit", "delete", "shutdown"]
    assert all(phase["ms"] >= 0 and phase["begin_ms"] >= 0 for phase in hello["phases"])
    calls = {call["call"]: call for call in hello["calls"]}
    for made in ("PrepareLayer", "HcsCreateComputeSystem", "HcsStartComputeSystem", "HcsCreateProcess"):
        assert calls[made]["count"] == 1 and not calls[made]["failed"]

    web = parts["exec"]
    assert web["exec_exit_status"] == 7
    assert [text.strip() for text in texts(web, "look")] == ["ContainerUser on WEB"]
    assert "running" in texts(web, "State")
    execs = ["exec-added", "exec-started", "exit", "delete"]
    assert names(web, "event") == ["create", "start", *execs, "exit", "delete"]

    isolated = parts["vm"]
    assert isolated["exit_status"] == 5 and "Hello from a Windows base layer." in isolated["output"]
    assert isolated["vm"]["memory_mb"] == 2048 and 1 <= isolated["vm"]["processors"] <= 2
    assert any(f"{isolated['vm']['memory_mb']} MB" in text for text in texts(isolated, "HCS says"))
    assert names(isolated, "event") == ["create", "start", "exit", "delete"]

    pod = parts["pod"]
    assert pod["exit_statuses"] == {"front": 0xFFFFFFFF, "back": 0xFFFFFFFF, "pod": 0}
    assert sorted(text.strip() for text in texts(pod, "output")) == ["Hello from BACK", "Hello from FRONT"]
    created = [call for call in pod["calls"] if call["call"] == "HcsCreateComputeSystem"]
    assert created[0]["count"] == 1  # one VM for all

    linux = parts["linux"]
    assert linux["exit_status"] == 6
    assert linux["output"].split() == ["GNU/Linux", "CapEff:", "0000000000000020"]
    assert names(linux, "event") == ["create", "start", "exit", "delete"]
    assert any(call["call"] == "guest:Create" for call in linux["calls"])

    looked_for = {"compute systems", "processes", "mounts", "sockets", "control groups", "bundles, layers", "files"}
    assert set(result["left"]) == looked_for
    assert not any(result["left"].values())


def test_text_output_is_plain_and_fits_100_columns(environment: dict[str, str]) -> None:
    done = subprocess.run(command(), env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 100
    parts = re.split(r"^ \d  .* ─+$", done.stdout, flags=re.MULTILINE)
    assert all(len(part.splitlines()) < 50 for part in parts), "a part fills more than a screen"
    assert done.stdout.count("✓") == 7 and "✗" not in done.stdout


class Kept:
    """A demo that waits (--keep), so that a test can leak something."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command("--json", "--keep"), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        text = ""
        while "Ctrl-C" not in text:
            line = self.process.stderr.readline()
            assert line, f"the demo exited: {text}"
            text += line
        for line in self.process.stderr:
            if "HCS_EMULATOR_DIR=" in line:
                self.hcs = Path(line.partition("HCS_EMULATOR_DIR=")[2].strip())
                break

    def stop(self) -> tuple[int, dict[str, Any]]:
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, json.loads(out)


@pytest.fixture
def kept(environment: dict[str, str]) -> Iterator[Kept]:
    demo = Kept(environment)
    yield demo
    if demo.process.poll() is None:
        demo.stop()


def test_keep_runs_until_sigint_and_cleans_up(kept: Kept) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runhcs", "emulator", "--directory", str(kept.hcs), "status"],
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "calls so far" in done.stdout
    code, result = kept.stop()
    assert code == 0 and result["ok"]
    assert not kept.hcs.exists()


CREATE = """
from shim.hcs_bindings.system import ComputeSystem
import os
document = {"SchemaVersion": {"Major": 2, "Minor": 1}, "Owner": "stray", "Container": {}}
system = ComputeSystem.create("stray", document)
system.start()
os._exit(0)
"""


def test_leaked_compute_system_is_reported_and_removed(kept: Kept) -> None:
    env = os.environ | {"HCS_EMULATOR_DIR": str(kept.hcs)}
    subprocess.run([sys.executable, "-c", CREATE], env=env, check=True, timeout=TIMEOUT)
    code, result = kept.stop()
    assert code == 1 and not result["ok"]
    assert "stray" in result["left"]["compute systems"][0]
    assert not result["left"]["processes"] and not kept.hcs.exists()


def test_leaked_mount_is_reported_and_removed(kept: Kept) -> None:
    point = kept.hcs.parent / "left"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "stray", point], check=True, timeout=TIMEOUT)
    code, result = kept.stop()
    assert code == 1
    assert result["left"]["mounts"] == [str(point)]
    assert not point.exists()


def test_sigint_during_a_container_lifecycle_cleans_up(environment: dict[str, str]) -> None:
    process = subprocess.Popen(command(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seen = ""
    while "Create" not in seen:
        seen += process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, out + error
    assert "interrupted" in error and "✗" not in out and out.count("✓") == 7


def test_closed_stdout_does_not_prevent_cleanup(environment: dict[str, str]) -> None:
    process = subprocess.Popen(command(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(TIMEOUT) is not None  # the fixture checks the directory


class TestLeakChecks:
    @pytest.fixture
    def workspace(self) -> Iterator[Workspace]:
        workspace = Workspace()
        yield workspace
        workspace.remove()

    def test_new_workspace_has_no_leaks(self, workspace: Workspace) -> None:
        for look in (leak_checks.mounts, leak_checks.sockets, leak_checks.control_groups, leak_checks.bundles):
            assert look(workspace) == []

    def test_open_and_stale_sockets_are_found(self, workspace: Workspace) -> None:
        path = workspace.sockets / "stray"
        with socket.socket(socket.AF_UNIX) as open_socket:
            open_socket.bind(str(path))
            assert leak_checks.sockets(workspace) == [str(path)]
        assert leak_checks.sockets(workspace) == [str(path)]  # closed, but the file is there
        path.unlink()
        assert leak_checks.sockets(workspace) == []

    def test_bundles_and_scratch_layers_are_found(self, workspace: Workspace) -> None:
        (workspace.directory / "bundles" / "c1").mkdir(parents=True)
        scratch = workspace.scratch("c1")
        assert leak_checks.bundles(workspace) == [str(workspace.directory / "bundles" / "c1"), str(scratch)]

    def test_daemonized_processes_are_found_and_killed(self) -> None:
        """In a process of its own, because a subreaper cannot be undone."""
        script = (
            "import subprocess\nfrom runhcs.demo import leak_checks\nleak_checks.become_subreaper()\n"
            "subprocess.run(['sh', '-c', 'setsid sleep 600 >/dev/null 2>&1 &'], check=True)\n"
            "print(leak_checks.settle(lambda: [] if leak_checks.processes() else ['none']))\n"
            "print(leak_checks.processes())\n"
            "leak_checks.kill_processes(leak_checks.descendants())\nprint(leak_checks.processes())\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=TIMEOUT, check=True
        )
        waited, found, afterwards = done.stdout.splitlines()
        assert waited == "[]" and "sleep 600" in found and afterwards == "[]"


def test_descendants_include_children_only() -> None:
    child = subprocess.Popen(["sleep", "600"])
    try:
        assert child.pid in leak_checks.descendants()
        assert child.pid not in leak_checks.descendants(child.pid)
    finally:
        child.kill()
        child.wait()
    eventually(lambda: child.pid not in leak_checks.descendants(), "exit of the child")


class TestScreen:
    @pytest.fixture
    def shown(self) -> Iterator[Callable[..., list[str]]]:
        with tempfile.TemporaryFile("w+") as stream:

            def show(draw: Callable[[Screen], None], colour: bool = False) -> list[str]:
                draw(Screen(stream, colour=colour))
                stream.seek(0)
                return stream.read().splitlines()

            yield show

    def test_long_lines_end_in_an_ellipsis(self, shown: Callable[..., list[str]]) -> None:
        (line,) = shown(lambda screen: screen.line("[bold] ", ("x" * 300, "red")), colour=True)
        visible = re.sub(r"\x1b\[[0-9;]*m", "", line)
        assert len(visible) == 100 and visible.startswith("[bold] xxx") and visible.endswith("x…")
        assert line.count("\x1b[31m") == 1 and line.endswith("\x1b[0m")

    def test_timeline_bars_share_a_scale(self, shown: Callable[..., list[str]]) -> None:
        lines = shown(lambda screen: screen.timeline([Phase("a", 0, 50), Phase("b", 50, 100), Phase("c", 99.99, 100)]))
        widths = [line.count("█") for line in lines]
        assert widths[0] == widths[1] == 36
        assert lines[2].rstrip().endswith("▏") or "█" in lines[2]
        assert all(len(line) <= 100 for line in lines)
