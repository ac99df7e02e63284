"""`runhcs record` and `runhcs replay` of pods with other guests, services and daemons than a Windows container has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.commands import SHIM_SCOPE
from shim.ttrpc.status import StatusError
from tests.emulated.task.test_sandbox_service import FOREVER, Sandbox
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.hostprocess import INHERIT_USER, SLEEP_LOOP, Jobs, groups
from tests.support.lcow_image import make_base_layer
from tests.support.linux_shims import SLEEP, LinuxShims
from tests.support.recording import Recording
from tests.support.runhcs_tools import ToolShims
from tests.support.shims import Shim
from tests.support.vm_image import VmShims

SECRET = "correct-horse-battery"
DIFFERENT = 3
E_FAIL = 0x80004005

Record = Callable[..., Recording]


@pytest.fixture
def record(tools: ToolShims, tmp_path: Path) -> Iterator[Record]:
    started: list[Recording] = []

    def start(*arguments: str) -> Recording:
        started.append(Recording(tools, tmp_path / "r.jsonl", *arguments))
        return started[-1]

    yield start
    for one in started:
        one.kill()
    (tools.directory / "s" / "record").unlink(missing_ok=True)  # of one that was killed


@pytest.fixture(scope="module")
def base_layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base_layer(tmp_path_factory.mktemp("image"))


@pytest.fixture
def lcow(linux_guest: str, base_layer: Path, emulator: Emulator, tools: ToolShims) -> LinuxShims:
    return LinuxShims(emulator, tools, linux_guest, base_layer)


def replay(tools: ToolShims, path: Path) -> dict[str, Any]:
    found = tools.json("replay", str(path))
    assert [one["differences"] for one in found] == [[]]
    only: dict[str, Any] = found[0]
    return only


def answers(found: dict[str, Any], method: str) -> list[dict[str, Any]]:
    return [one for one in found["requests"] if one["method"] == method]


def end_pod(pod: Shim) -> None:
    pod.kill(9)
    pod.wait()
    pod.delete()
    pod.shutdown()
    pod.wait_exited()


def test_pod_of_linux_containers(tools: ToolShims, lcow: LinuxShims, record: Record, tmp_path: Path) -> None:
    """A sandbox, a workload with a mount and streams, and an exec. Its secrets are in no message to the guest."""
    recording = record("--new")
    pod = lcow.pod()
    mount = {"type": "bind", "source": str(tmp_path), "destination": "/data", "options": ["rbind"]}
    env = {"env": ["PATH=/bin", f"TOKEN={SECRET}1"]}
    members = {"mounts": [mount], "process": env, "annotations": {"example.com/secret": f"{SECRET}2"}}
    workload = lcow.run_in(pod, "c1", "sh", "-c", f": {SECRET}3; exec sleep 600", members=members)
    script = f"echo hello; : {SECRET}4; exit 7"
    code, output = lcow.exec(workload, "e1", "sh", "-c", script, env=["PATH=/bin", f"TOKEN={SECRET}5"])
    assert (code, output) == (7, "hello\n")
    workload.kill(9)
    status = workload.wait().exit_status
    workload.delete()
    end_pod(pod)
    recording.stop()
    text = recording.path.read_text()
    assert SECRET not in text, [line for line in text.splitlines() if SECRET in line]
    assert "TOKEN=<scrubbed>" in text and "OciProcess" in text
    found = replay(tools, recording.path)
    assert [one["response"]["exit_status"] for one in answers(found, "Wait")] == [7, status, 137]


def test_failure_of_a_linux_guest_is_reproduced(tools: ToolShims, lcow: LinuxShims, record: Record) -> None:
    recording = record("--new")
    pod = lcow.pod()
    workload = lcow.workload(pod, "c1", *SLEEP)
    lcow.create(workload)
    lcow.emulator.fault("guest:ExecuteProcess", error=E_FAIL, delay=0.3, nth=1)
    with pytest.raises(StatusError) as raised:
        workload.start()
    workload.delete()
    end_pod(pod)
    recording.stop()
    failed = answers(replay(tools, recording.path), "Start")[1]
    assert failed["error"] == [raised.value.code, raised.value.message]
    assert failed["seconds"] >= 0.3


def test_pod_of_the_sandbox_service(tools: ToolShims, record: Record) -> None:
    recording = record("--new")
    pod = Sandbox.begin(tools)
    pod.create_sandbox(annotations={"example.com/secret": SECRET})
    pod.start_sandbox()
    pod.join("w1", "cmd", "/c", "exit 5")
    pod.start(id="w1")
    assert pod.wait(id="w1").exit_status == 5
    pod.delete(id="w1")
    pod.stop_sandbox()
    pod.wait_sandbox()
    pod.shutdown_sandbox()
    pod.wait_exited()
    recording.stop()
    assert SECRET not in recording.path.read_text()
    found = replay(tools, recording.path)
    assert [one["method"] for one in found["requests"]][:2] == ["CreateSandbox", "StartSandbox"]
    assert answers(found, "Wait")[0]["response"]["exit_status"] == 5


def start_shared(tools: ToolShims, id: str, *args: str) -> Shim:
    spec = {**tools.spec(*args), "annotations": {SHIM_SCOPE: "node"}}
    return tools.start(id, spec)


def end_shared(shim: Shim) -> None:
    shim.delete()
    shim.shutdown()
    eventually(lambda: not Path(shim.address.removeprefix("unix://")).exists(), "the end of the pod")


def test_pods_of_a_shared_daemon(tools: ToolShims, emulator: Emulator, record: Record) -> None:
    """Each has a recording of its own, also if HCS fails for one of them; one from before is not recorded."""
    before = start_shared(tools, "c0", *FOREVER)
    before.run(rootfs=tools.rootfs())
    recording = record("--new")
    shims = {code: start_shared(tools, f"c{code}", "cmd", "/c", f"exit {code}") for code in (3, 4)}
    assert {shim.pid for shim in shims.values()} == {before.pid}
    for shim in shims.values():
        shim.create(rootfs=tools.rootfs())
    emulator.fault("HcsStartComputeSystem", error=0x80370109, nth=1)
    with pytest.raises(StatusError) as raised:
        shims[4].start()
    before.exec("e1", tools.process("cmd", "/c", "exit 9"))
    before.start("e1")
    before.wait("e1")
    shims[3].start()
    assert shims[3].wait().exit_status == 3
    for shim in shims.values():
        end_shared(shim)
    recording.stop()
    assert [entry["id"] for entry in recording.of_kind("shim")] == ["c3", "c4"]
    for entry in recording.of_kind("call"):
        assert '"c0"' not in json.dumps(entry), "a call of another pod"
    found = {one["id"]: one for one in tools.json("replay", str(recording.path))}
    assert [one["differences"] for one in found.values()] == [[], []]
    assert answers(found["c3"], "Wait")[0]["response"]["exit_status"] == 3
    assert answers(found["c4"], "Start")[0]["error"] == [raised.value.code, raised.value.message]
    before.kill(9)
    before.wait()
    end_shared(before)
    before.wait_exited()  # its last pod has ended


def test_vm_of_a_shared_daemon(tools: ToolShims, emulator: Emulator, record: Record) -> None:
    """Two VMs: their messages have the same numbers."""
    recording = record("--new")
    vms = VmShims(emulator, tools)
    pods = [vms.pod(name, annotations={SHIM_SCOPE: "node"}) for name in ("p1", "p2")]
    assert pods[0].pid == pods[1].pid
    for pod in pods:
        pod.kill(9)
        pod.wait()
        end_shared(pod)
    pods[0].wait_exited()  # its last pod has ended
    recording.stop()
    found = tools.json("replay", str(recording.path))
    assert [(one["id"], one["differences"]) for one in found] == [("p1", []), ("p2", [])]


@pytest.fixture
def jobs(tools: ToolShims) -> Iterator[Jobs]:
    yield Jobs(tools)
    assert not groups(tools), "leaked control groups"


def test_host_process_container(tools: ToolShims, jobs: Jobs, record: Record) -> None:
    """With a limit, an exec, and a kill."""
    recording = record("--new")
    resources = {"windows": {**tools.spec()["windows"], "resources": {"memory": {"limit": 256 << 20}}}}
    process = {"env": [f"TOKEN={SECRET}1"]}
    shim = jobs.run_detached("c1", f": {SECRET}2; {SLEEP_LOOP}", process=process, **resources)
    assert jobs.exec(shim, "e1", "sh", "-c", f": {SECRET}3; exit 6", code=6) == ""
    shim.kill(9)
    status = shim.wait().exit_status
    shim.delete()
    shim.shutdown()
    shim.wait_exited()
    recording.stop()
    text = recording.path.read_text()
    assert SECRET not in text, [line for line in text.splitlines() if SECRET in line]
    functions = {entry["function"] for entry in recording.of_kind("job")}
    assert {"create", "set_limits", "log_on", "bind", "spawn", "terminate", "close"} <= functions
    found = replay(tools, recording.path)
    assert [one["response"]["exit_status"] for one in answers(found, "Wait")] == [6, status]


def test_pod_of_host_process_containers(tools: ToolShims, jobs: Jobs, record: Record) -> None:
    """Its sandbox has no job."""

    def of_pod(role: str) -> dict[str, str]:
        return {"io.kubernetes.cri.container-type": role, "io.kubernetes.cri.sandbox-id": "pod", INHERIT_USER: "true"}

    recording = record("--new")
    pod = tools.start("pod", jobs.spec("pause.exe", annotations=of_pod("sandbox")))
    pod.create(rootfs=jobs.rootfs)
    pod.start()
    workload = jobs.run_detached("c1", user="", annotations=of_pod("container"))
    workload.kill(9)
    status = workload.wait().exit_status
    workload.delete()
    end_pod(pod)
    recording.stop()
    waited = answers(replay(tools, recording.path), "Wait")
    assert [one["response"].get("exit_status", 0) for one in waited] == [status, 0]


def test_failure_of_a_job_is_reproduced(tools: ToolShims, jobs: Jobs, record: Record) -> None:
    recording = record("--new")
    shim = tools.start("c1", jobs.spec("sh", user="no-such-user"))
    with pytest.raises(StatusError, match="cannot be logged on") as raised:
        shim.create(rootfs=jobs.rootfs)
    shim.shutdown()
    shim.wait_exited()
    recording.stop()
    failed = answers(replay(tools, recording.path), "Create")[0]
    assert failed["error"] == [raised.value.code, raised.value.message]
    # As if the recorded shim had logged on another user.
    lines = recording.path.read_text().splitlines(keepends=True)
    changed = [one.replace("no-such-user", "other-user") if '"function":"log_on"' in one else one for one in lines]
    recording.path.write_text("".join(changed))
    done = tools.run_tool("replay", str(recording.path))
    assert done.returncode == DIFFERENT, done.stderr
    assert "differs: job log_on: other arguments" in done.stdout and "other-user" in done.stdout


def is_answer(entry: dict[str, Any]) -> bool:
    """Of a job, and requests and events that come after the start."""
    is_later = entry.get("method", "Start") not in ("Create", "Start")
    return entry.get("kind") in ("job", "job event", "publish") or is_later


def test_replay_starts_no_process_of_this_machine(
    tools: ToolShims, jobs: Jobs, record: Record, tmp_path: Path
) -> None:
    """Even if the recording has a host process container without the answers of its job: it may come from anyone."""
    marker = tmp_path / "marker"
    recording = record("--new", "--command-lines")
    shim = jobs.run_detached("c1", f": > {marker}; {SLEEP_LOOP}")
    eventually(marker.exists, "the marker of the container")
    shim.kill(9)
    shim.wait()
    shim.delete()
    shim.shutdown()
    shim.wait_exited()
    recording.stop()
    marker.unlink()
    lines = recording.path.read_text().splitlines()
    assert any(str(marker) in line for line in lines)
    forged = tmp_path / "forged"
    forged.write_text("\n".join(line for line in lines if not is_answer(json.loads(line))))
    done = tools.run_tool("replay", str(forged), "--fast")
    assert done.returncode == DIFFERENT, done.stderr
    assert "the recording has no answer" in done.stdout
    assert not marker.exists()
