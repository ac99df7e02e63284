"""Linux containers in a VM when something fails: requests of the guest, the shim, memory, mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.ttrpc import status
from tests.support.eventually import eventually
from tests.support.fifo_reader import Reader
from tests.support.linux_shims import SLEEP, LinuxShims
from tests.support.shims import Shim, refused

E_FAIL = 0x80004005
# The requests of a workload's Create, in order: scratch disk, overlay, share, Create.
CREATE_STEPS = 4


def _close(lcow: LinuxShims, pod: Shim) -> None:
    pod.kill(9)
    pod.wait()
    pod.delete()
    assert not lcow.leaked()


def _mount(directory: Path) -> dict[str, object]:
    return {"type": "bind", "source": str(directory), "destination": "/data", "options": ["rbind"]}


@pytest.mark.parametrize("step", range(1, CREATE_STEPS + 1))
def test_create_that_the_guest_refuses_at_any_step_is_undone(lcow: LinuxShims, step: int, tmp_path: Path) -> None:
    pod = lcow.pod()
    call = "guest:Create" if step == CREATE_STEPS else "guest:ModifySettings"
    lcow.emulator.fault(call, error=E_FAIL, nth=1 if step == CREATE_STEPS else step)
    workload = lcow.workload(pod, "c1", *SLEEP, mounts=[_mount(tmp_path)])
    refused(status.UNKNOWN, lcow.create, workload)
    modified = [entry["arguments"]["configuration"] for entry in lcow.emulator.journal("HcsModifyComputeSystem")][2:]
    paths = {
        kind: sorted(r["ResourcePath"] for r in modified if r["RequestType"] == kind) for kind in ("Add", "Remove")
    }
    assert paths["Add"] and paths["Add"] == paths["Remove"]
    assert lcow.output_in(pod, "c2", "echo", "works", mounts=[_mount(tmp_path)]) == "works\n"
    _close(lcow, pod)


def test_share_that_stays_mounted_keeps_its_files(lcow: LinuxShims, tmp_path: Path) -> None:
    """DeleteContainerState deletes what is below the container's directory, and with it what is shared there."""
    (tmp_path / "precious").write_text("data")
    pod = lcow.pod()
    workload = lcow.run_in(pod, "c1", *SLEEP, members={"mounts": [_mount(tmp_path)]})
    lcow.emulator.fault("guest:ModifySettings", error=E_FAIL, nth=1)
    workload.kill(9)
    workload.wait()
    workload.delete()
    assert (tmp_path / "precious").read_text() == "data"
    assert not lcow.messages("DeleteContainerState")
    assert lcow.output_in(pod, "c2", "echo", "works") == "works\n"
    _close(lcow, pod)


@pytest.mark.parametrize("is_standalone", [True, False])
def test_failed_create_keeps_the_files_of_a_mounted_directory(
    lcow: LinuxShims, tmp_path: Path, is_standalone: bool
) -> None:
    """The guest then removes the directory of the container, with all that is mounted in it."""
    (tmp_path / "precious").write_text("data")
    members = {"mounts": [_mount(tmp_path)]}
    if is_standalone:
        shim = lcow.start("c1", "/none", **members)
        assert "/none" in refused(status.UNKNOWN, lcow.create, shim)
    else:
        pod = lcow.pod()
        assert "/none" in refused(status.UNKNOWN, lcow.create, lcow.workload(pod, "c1", "/none", **members))
        assert lcow.output_in(pod, "c2", "cat", "/data/precious", **members) == "data"
        _close(lcow, pod)
    assert (tmp_path / "precious").read_text() == "data"


def test_start_that_the_guest_refuses_exits_the_task(lcow: LinuxShims) -> None:
    pod = lcow.pod()
    workload = lcow.workload(pod, "c1", *SLEEP)
    lcow.create(workload)
    lcow.emulator.fault("guest:ExecuteProcess", error=E_FAIL, nth=1)
    refused(status.UNKNOWN, workload.start)
    assert workload.wait().exit_status == 1
    workload.delete()
    assert lcow.output_in(pod, "c2", "echo", "works") == "works\n"
    _close(lcow, pod)


def test_shim_that_was_killed_leaves_nothing_after_delete(lcow: LinuxShims) -> None:
    pod = lcow.pod()
    workload = lcow.run_in(pod, "c1", *SLEEP)
    pod.kill_daemon()
    workload.delete_command()
    pod.delete_command()
    eventually(lambda: not lcow.leaked(), "the release of everything")


def test_oom_kill_of_a_child_is_published_with_the_next_stats(lcow: LinuxShims) -> None:
    limit = {"resources": {"memory": {"limit": 32 << 20, "swap": 32 << 20}}}
    script = "sh -c 'x=a; while :; do x=$x$x; done'; echo code $?; sleep 600"
    stdout = lcow.fifo("out")
    out = Reader(stdout)
    pod = lcow.pod()
    workload = lcow.run_in(pod, "c1", "sh", "-c", script, stdout=stdout, members={"linux": limit})
    out.wait_for("code 137")
    workload.stats()
    eventually(lambda: "oom c1" in lcow.events.received(), "the OOM event")
    workload.stats()
    assert lcow.events.received().count("oom c1") == 1
    _close(lcow, pod)


def test_seccomp_profile_is_enforced_unless_the_container_is_privileged(lcow: LinuxShims) -> None:
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}],
    }
    script = "mkdir /new && echo made || echo refused"
    pod = lcow.pod()
    assert "refused" in lcow.output_in(pod, "c1", "sh", "-c", script, linux={"seccomp": profile})
    privileged = {"io.microsoft.virtualmachine.lcow.privileged": "true"}
    found = lcow.output_in(pod, "c2", "sh", "-c", script, linux={"seccomp": profile}, annotations=privileged)
    assert found == "made\n"
    _close(lcow, pod)
