"""`runhcs record` and `runhcs replay`: real shims on the emulator are recorded, and the recording is replayed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runhcs.recording.receiver import END_BYTES
from shim.ttrpc.status import StatusError
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.recording import Recording
from tests.support.runhcs_tools import ToolShims
from tests.support.shim_commands import standbys, started_under, with_environment
from tests.support.shims import Shim
from tests.support.vm_image import SLEEP, VmShims

SECRET = "correct-horse-battery"
DIFFERENT = 3
INTERRUPTED = 130

Record = Callable[..., Recording]


@pytest.fixture
def record(tools: ToolShims, tmp_path: Path) -> Iterator[Record]:
    """Starts `runhcs record` with a file of this name."""
    started: list[Recording] = []

    def start(*arguments: str, name: str = "r.jsonl") -> Recording:
        started.append(Recording(tools, tmp_path / name, *arguments))
        return started[-1]

    yield start
    for one in started:
        one.kill()
    (tools.directory / "s" / "record").unlink(missing_ok=True)  # of one that was killed


def end(shim: Shim) -> None:
    shim.shutdown()
    shim.wait_exited()


def run_to_exit(tools: ToolShims, id: str = "c1", code: int = 3) -> None:
    shim = tools.start(id, tools.spec("cmd", "/c", f"exit {code}"))
    shim.run(rootfs=tools.rootfs())
    shim.wait()
    shim.delete()
    end(shim)


def replay(tools: ToolShims, path: Path, *arguments: str) -> dict[str, Any]:
    """The replay of the only pod, which must be as recorded."""
    found = tools.json("replay", str(path), *arguments)
    assert [one["differences"] for one in found] == [[]]
    only: dict[str, Any] = found[0]
    return only


def methods(found: dict[str, Any]) -> list[str]:
    return [one["method"] for one in found["requests"]]


def test_container_from_start_to_exit(tools: ToolShims, record: Record) -> None:
    recording = record("--new")
    run_to_exit(tools)
    assert "1 shims" in recording.stop()
    assert [entry["method"] for entry in recording.of_kind("rpc")] == ["Create", "Start", "Wait", "Delete", "Shutdown"]
    calls = {entry["call"] for entry in recording.of_kind("call")}
    assert {"HcsCreateComputeSystem", "HcsStartComputeSystem", "HcsCreateProcess"} <= calls
    assert all(entry["end"] > entry["begin"] for entry in recording.of_kind("call"))
    assert "task exited" in {entry["msg"] for entry in recording.of_kind("log")}
    create = next(entry for entry in recording.of_kind("span") if entry["name"] == "rpc Create")
    assert "hcs HcsCreateComputeSystem" in {child[0] for child in create["children"]}
    assert recording.path.stat().st_mode & 0o777 == 0o600
    found = replay(tools, recording.path)
    assert methods(found) == ["Create", "Start", "Wait", "Delete", "Shutdown"]
    waited = next(one for one in found["requests"] if one["method"] == "Wait")
    assert waited["response"]["exit_status"] == 3
    text = tools.runhcs("replay", str(recording.path), "--fast")
    assert "tests/c1, recorded with shim" in text and "exit status 3" in text and text.endswith("as recorded\n")


def test_shim_from_a_standby_is_recorded_whole(tools: ToolShims, record: Record) -> None:
    """A standby has looked up functions of HCS before."""
    tools.env["RUNHCS_STANDBY"] = "1"
    run_to_exit(tools, "c1")  # starts the standby
    # It listens, and a spare of it waits.
    eventually(lambda: len(standbys(started_under(tools.directory))) > 1, "a spare")
    recording = record("--new")
    run_to_exit(tools, "c2")
    recording.stop()
    calls = {entry["call"] for entry in recording.of_kind("call")}
    assert {"HcsCreateComputeSystem", "HcsStartComputeSystem", "HcsCreateProcess"} <= calls
    assert methods(replay(tools, recording.path))[0] == "Create"


def test_exec_and_kill_with_streams(tools: ToolShims, record: Record) -> None:
    recording = record("--all")
    shim = tools.start("c1", tools.spec(*SLEEP))
    shim.run(rootfs=tools.rootfs())
    shim.exec("e1", tools.process("cmd", "/c", "exit 7"))
    shim.start("e1")
    assert shim.wait("e1").exit_status == 7
    shim.delete("e1")
    shim.kill(9)
    status = shim.wait().exit_status
    shim.delete()
    end(shim)
    recording.stop()
    found = replay(tools, recording.path)
    waits = [one["response"]["exit_status"] for one in found["requests"] if one["method"] == "Wait"]
    assert waits == [7, status]
    assert {"Exec", "Kill"} <= set(methods(found))


def test_pod_in_a_vm(tools: ToolShims, emulator: Emulator, record: Record) -> None:
    recording = record("--new")
    vms = VmShims(emulator, tools)
    pod = vms.pod()
    vms.run_in(pod, "c1", *SLEEP)
    pod.kill(9, id="c1")
    status = pod.wait(id="c1").exit_status
    pod.delete(id="c1")
    pod.kill(9)
    pod.wait()
    pod.delete()
    end(pod)
    recording.stop()
    assert {"NegotiateProtocol", "Create", "ExecuteProcess"} <= {
        entry["procedure"] for entry in recording.of_kind("guest")
    }
    found = replay(tools, recording.path)
    waited = next(one for one in found["requests"] if one["method"] == "Wait")
    assert waited["response"]["exit_status"] == status


def test_failure_of_hcs_is_reproduced(tools: ToolShims, emulator: Emulator, record: Record) -> None:
    emulator.fault("HcsStartComputeSystem", error=0x80370109, delay=0.3)
    recording = record("--new")
    shim = tools.start("c1", tools.spec(*SLEEP))
    shim.create(rootfs=tools.rootfs())
    with pytest.raises(StatusError) as raised:
        shim.start()
    end(shim)
    recording.stop()
    failed = next(one for one in replay(tools, recording.path)["requests"] if one["method"] == "Start")
    assert failed["error"] == [raised.value.code, raised.value.message] and "80370109" in failed["error"][1]
    assert failed["seconds"] >= 0.3  # as long as HCS took on the node
    text = tools.runhcs("replay", str(recording.path))
    assert "HCS_E_CONNECTION_TIMEOUT" in text and text.endswith("as recorded\n")


def directory_of_replay(mark: str) -> Path | None:
    """Where the shim of a replay with this variable has its files; None if there is no shim yet."""
    for pid in with_environment(mark):
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        except OSError:
            continue
        for name, _, value in (variable.partition("=") for variable in variables):
            if name == "RUNHCS_SOCKET_DIR" and Path(value).parent.name.startswith("rhr-"):
                return Path(value).parent
    return None


def test_terminated_replay_leaves_nothing(tools: ToolShims, emulator: Emulator, record: Record) -> None:
    """While its shim waits for HCS, which takes as long as it did on the node."""
    emulator.fault("HcsStartComputeSystem", delay=2.0)
    recording = record("--new")
    run_to_exit(tools)
    recording.stop()
    mark = f"REPLAY_OF={recording.path}"
    environment = dict([mark.split("=", 1)]) | tools.env
    command = [sys.executable, "-m", "runhcs", "replay", str(recording.path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as replaying:
        directory = eventually(lambda: directory_of_replay(mark))
        assert directory.exists()
        replaying.terminate()
        assert replaying.wait(60) == INTERRUPTED
    eventually(lambda: not with_environment(mark))
    assert not directory.exists()


def test_difference_is_reported(tools: ToolShims, record: Record) -> None:
    """As if the recorded shim had sent other documents and got another result."""
    recording = record("--new")
    run_to_exit(tools)
    recording.stop()
    changed = recording.path.read_text().replace('"Owner":"containerd-shim-runhcs-v1.exe"', '"Owner":"other"')
    recording.path.write_text(changed.replace('"exit_status":3,"exited_at"', '"exit_status":4,"exited_at"'))
    done = tools.run_tool("replay", str(recording.path))
    assert done.returncode == DIFFERENT, done.stderr
    assert "differs: HcsCreateComputeSystem: other arguments" in done.stdout
    assert "differs: Wait: another response" in done.stdout and "differences" in done.stdout


def test_no_secret_is_in_the_file(tools: ToolShims, record: Record) -> None:
    """In the environment, the command line, a credential spec, a registry value, an annotation, and
    quoted by an error."""
    recording = record("--new")
    spec = tools.spec("cmd", "/c", f"set X={SECRET}1& ping -t 127.0.0.1 > nul")
    spec["process"]["env"] = [f"TOKEN={SECRET}2", "PATH=C:\\Windows"]
    registry = [{"Key": {"Hive": "Software", "Name": "A"}, "Name": "B", "Type": "String", "StringValue": f"{SECRET}3"}]
    spec["annotations"] = {
        "example.com/secret": f"{SECRET}4",
        "io.microsoft.container.wcow.test-registry-annotation": json.dumps(registry),
    }
    spec["windows"]["credentialSpec"] = json.dumps({"CmsPlugins": ["ActiveDirectory"], "Secret": f"{SECRET}5"})
    shim = tools.start("c1", spec)
    shim.run(rootfs=tools.rootfs())
    shim.exec("e1", {**tools.process(f"{SECRET}6.exe"), "env": [f"TOKEN={SECRET}7"]})
    with pytest.raises(StatusError, match=SECRET):  # the error quotes it
        shim.start("e1")
    shim.kill(9)
    shim.wait()
    shim.delete()
    end(shim)
    recording.stop()
    text = recording.path.read_text()
    assert SECRET not in text, [line for line in text.splitlines() if SECRET in line]
    assert "TOKEN=<scrubbed>" in text and '"CommandLine":"<scrubbed>"' in text


def test_command_lines_are_recorded_if_requested(tools: ToolShims, record: Record) -> None:
    recording = record("--new", "--command-lines")
    run_to_exit(tools, code=5)
    recording.stop()
    assert "exit 5" in recording.path.read_text()
    assert methods(replay(tools, recording.path))[0] == "Create"


def test_running_shim_is_recorded_and_left_as_it_was(tools: ToolShims, tmp_path: Path, record: Record) -> None:
    shim = tools.start("c1", tools.spec(*SLEEP))
    shim.run(rootfs=tools.rootfs())
    recording = record("c1")
    assert "recording 1 shims" in recording.first_line
    shim.exec("e1", tools.process("cmd", "/c", "exit 0"))
    shim.start("e1")
    shim.wait("e1")
    # One recording at a time; the other one is refused.
    refused = tools.run_tool("record", "c1", "-o", str(tmp_path / "other.jsonl"))
    assert refused.returncode == 1 and "being recorded" in refused.stderr
    assert not (tmp_path / "other.jsonl").exists()
    recording.stop()
    assert {"Exec", "Start", "Wait"} <= {entry["method"] for entry in recording.of_kind("rpc")}
    assert "recorded after its start" in tools.fails("replay", str(recording.path))
    size = recording.path.stat().st_size
    shim.delete("e1")
    again = record("c1", name="again.jsonl")  # the hooks of the first one are gone
    shim.kill(9)
    shim.wait()
    again.stop()
    assert [entry["method"] for entry in again.of_kind("rpc")] == ["Kill", "Wait"]
    assert recording.path.stat().st_size == size


def test_file_has_a_limited_size(tools: ToolShims, record: Record) -> None:
    shim = tools.start("c1", tools.spec(*SLEEP))
    shim.run(rootfs=tools.rootfs())
    recording = record("c1", "--max-size", "1")

    def poll() -> bool:
        for _ in range(200):
            shim.stats()
        return recording.has_ended

    eventually(poll, "the end of the recording", 60)
    assert "size limit" in recording.wait()
    assert recording.path.stat().st_size <= 1 << 20
    last = recording.entries()[-1]
    assert last["kind"] == "end" and last["left_out"] > 0 and len(json.dumps(last)) < END_BYTES


def test_lost_recorder_ends_the_recording_and_no_task(tools: ToolShims, tmp_path: Path, record: Record) -> None:
    recording = record("--all")
    shim = tools.start("c1", tools.spec(*SLEEP))
    recording.kill()
    shim.run(rootfs=tools.rootfs())
    # The socket that it left is of no use, and delays nobody.
    run_to_exit(tools, "c2")
    # The shim notices the loss when it sends next.
    other = tmp_path / "other.jsonl"
    eventually(lambda: tools.run_tool("record", "c1", "-o", str(other), "--seconds", "0.1").returncode == 0)
    again = record("c1", name="again.jsonl")
    shim.kill(9)
    shim.wait()
    shim.delete()
    again.stop()
    assert "Kill" in {entry["method"] for entry in again.of_kind("rpc")}
    assert "truncated" in tools.fails("replay", str(recording.path))


def test_bad_files_and_arguments_are_errors(tools: ToolShims, tmp_path: Path, record: Record) -> None:
    recording = record("--new")
    run_to_exit(tools)
    recording.stop()
    whole = recording.path.read_bytes()
    bad = tmp_path / "bad.jsonl"
    for content, problem in (
        (whole[: len(whole) // 2], "is truncated"),
        (whole[: whole.rindex(b'{"kind":"end"')], "is truncated"),
        (b"", "is no recording"),
        (b"\xff\xfe\x00", "is not text"),
        (b"{}\n", "is no recording"),
        (whole.replace(b'"version":1', b'"version":99', 1), "version 99"),
        (whole.replace(b'"shim":1,"call"', b'"shim":9,"call"', 1), "is damaged"),
    ):
        bad.write_bytes(content)
        assert problem in tools.fails("replay", str(bad))
    assert "cannot be read" in tools.fails("replay", str(tmp_path / "missing"))
    assert "has no pod 'x'" in tools.fails("replay", str(recording.path), "x")
    assert "exists" in tools.fails("record", "--new", "-o", str(recording.path))
    assert "give one of" in tools.fails("record", "-o", str(tmp_path / "none"))
    assert "no shim serves 'c9'" in tools.fails("record", "c9", "-o", str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()
