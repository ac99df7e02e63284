"""`runhcs demo` without containerd: what it reports is what happened, and what is left behind does not escape it."""

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

from runhcs.demo import leftovers, process_tree
from runhcs.demo.screen import Phase, Screen, visible
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


def test_the_result_as_data(environment: dict[str, str]) -> None:
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

    looked_for = {"compute systems", "processes", "mounts", "sockets", "control groups", "bundles, layers", "files"}
    assert set(result["left"]) == looked_for
    assert not any(result["left"].values())


def test_what_people_see(environment: dict[str, str]) -> None:
    done = subprocess.run(command(), env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b" not in done.stdout  # nobody sees colours in a pipe
    assert max(len(line) for line in done.stdout.splitlines()) <= 100
    parts = re.split(r"^ \d  .* ─+$", done.stdout, flags=re.MULTILINE)
    assert all(len(part.splitlines()) < 50 for part in parts), "a part fills more than a screen"
    assert done.stdout.count("✓") == 7 and "✗" not in done.stdout


class Kept:
    """A demo that waits, as --keep makes it, so that a test can interfere."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command("--json", "--keep"), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        said = ""
        while "Ctrl-C" not in said:
            line = self.process.stderr.readline()
            assert line, f"the demo ended: {said}"
            said += line
        for line in self.process.stderr:
            if "HCS_EMULATOR_DIR=" in line:
                self.hcs = Path(line.partition("HCS_EMULATOR_DIR=")[2].strip())
                break

    def end(self) -> tuple[int, dict[str, Any]]:
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, json.loads(out)


@pytest.fixture
def kept(environment: dict[str, str]) -> Iterator[Kept]:
    demo = Kept(environment)
    yield demo
    if demo.process.poll() is None:
        demo.end()


def test_kept_and_ended_in_order(kept: Kept) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runhcs", "emulator", "--directory", str(kept.hcs), "status"],
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "calls so far" in done.stdout
    code, result = kept.end()
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


def test_a_compute_system_left_behind_is_found_and_removed(kept: Kept) -> None:
    env = os.environ | {"HCS_EMULATOR_DIR": str(kept.hcs)}
    subprocess.run([sys.executable, "-c", CREATE], env=env, check=True, timeout=TIMEOUT)
    code, result = kept.end()
    assert code == 1 and not result["ok"]
    assert "stray" in result["left"]["compute systems"][0]
    assert not result["left"]["processes"] and not kept.hcs.exists()


def test_a_mount_left_behind_is_found_and_removed(kept: Kept) -> None:
    point = kept.hcs.parent / "left"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "stray", point], check=True, timeout=TIMEOUT)
    code, result = kept.end()
    assert code == 1
    assert result["left"]["mounts"] == [str(point)]
    assert not point.exists()


def test_interrupted_while_it_works(environment: dict[str, str]) -> None:
    process = subprocess.Popen(command(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seen = ""
    while "Create" not in seen:  # in the midst of a container's life
        seen += process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, out + error
    assert "interrupted" in error and "✗" not in out and out.count("✓") == 7


def test_cleans_up_though_nobody_reads_it_any_more(environment: dict[str, str]) -> None:
    process = subprocess.Popen(command(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(TIMEOUT) is not None  # and the fixture finds nothing left of it


class TestLeftovers:
    @pytest.fixture
    def workspace(self) -> Iterator[Workspace]:
        workspace = Workspace()
        yield workspace
        workspace.remove()

    def test_nothing(self, workspace: Workspace) -> None:
        for look in (leftovers.mounts, leftovers.sockets, leftovers.control_groups, leftovers.bundles):
            assert look(workspace) == []

    def test_sockets(self, workspace: Workspace) -> None:
        path = workspace.sockets / "stray"
        with socket.socket(socket.AF_UNIX) as open_socket:
            open_socket.bind(str(path))
            assert leftovers.sockets(workspace) == [str(path)]
        assert leftovers.sockets(workspace) == [str(path)]  # nobody has it open, but it is there
        path.unlink()
        assert leftovers.sockets(workspace) == []

    def test_bundles_and_scratch_layers(self, workspace: Workspace) -> None:
        (workspace.directory / "bundles" / "c1").mkdir(parents=True)
        scratch = workspace.scratch("c1")
        assert leftovers.bundles(workspace) == [str(workspace.directory / "bundles" / "c1"), str(scratch)]

    def test_processes_that_left_their_parent(self) -> None:
        """In a process of its own, since being a reaper cannot be undone."""
        script = (
            "import subprocess\nfrom runhcs.demo import family, leftovers\nfamily.adopt_orphans()\n"
            "subprocess.run(['sh', '-c', 'setsid sleep 600 >/dev/null 2>&1 &'], check=True)\n"
            "print(leftovers.settle(lambda: [] if leftovers.processes(set()) else ['none']))\n"
            "print(leftovers.processes(set()))\n"
            "family.end(family.descendants(), set())\nprint(leftovers.processes(set()))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=TIMEOUT, check=True
        )
        waited, found, afterwards = done.stdout.splitlines()
        assert waited == "[]" and "sleep 600" in found and afterwards == "[]"


def test_descendants_are_told_from_others() -> None:
    child = subprocess.Popen(["sleep", "600"])
    try:
        assert child.pid in process_tree.descendants()
        assert child.pid not in process_tree.descendants(child.pid)
    finally:
        child.kill()
        child.wait()
    eventually(lambda: child.pid not in process_tree.descendants(), "the child's end")


class TestScreen:
    @pytest.fixture
    def shown(self) -> Iterator[Callable[..., list[str]]]:
        with tempfile.TemporaryFile("w+") as stream:

            def show(draw: Callable[[Screen], None], colour: bool = False) -> list[str]:
                draw(Screen(stream, colour=colour))
                stream.seek(0)
                return stream.read().splitlines()

            yield show

    def test_long_lines_are_cut_within_colours(self, shown: Callable[..., list[str]]) -> None:
        (line,) = shown(lambda screen: screen.line(screen.paint("x" * 300, "red")), colour=True)
        assert visible(line) == 100 and line.endswith("\x1b[0m…")

    def test_bars_share_a_scale(self, shown: Callable[..., list[str]]) -> None:
        lines = shown(lambda screen: screen.timeline([Phase("a", 0, 50), Phase("b", 50, 100), Phase("c", 99.99, 100)]))
        widths = [line.count("█") for line in lines]
        assert widths[0] == widths[1] == 36
        assert lines[2].rstrip().endswith("▏") or "█" in lines[2]
        assert all(len(line) <= 100 for line in lines)
