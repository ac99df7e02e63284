"""A pod of Linux containers in one utility VM, through a real shim: its sandbox is a container too."""

from __future__ import annotations

import os

import pytest

from shim.api.cgroups_v1 import Metrics
from shim.api.types import Status
from shim.ttrpc import status
from tests.support.eventually import eventually
from tests.support.fifo_reader import Reader
from tests.support.linux_shims import LINUX_RESOURCES, SLEEP, LinuxShims
from tests.support.shims import refused


def test_sandbox_is_a_container_that_owns_the_vm(lcow: LinuxShims) -> None:
    pod = lcow.pod()
    assert lcow.vms() == ["pod@vm"]
    assert pod.state().status == Status.RUNNING and pod.state().pid > 1
    assert [process.pid for process in pod.pids()] == [pod.state().pid]
    assert lcow.exec(pod, "e1", "echo", "in the sandbox") == (0, "in the sandbox\n")
    found = Metrics.decode(pod.stats().value)  # under CRI on Linux only cgroup metrics are understood
    assert pod.stats().type_url == Metrics.FULL_NAME
    assert found.memory is not None and found.memory.usage is not None and found.memory.usage.usage > 0
    pod.kill(9)
    assert pod.wait().exit_status == 137
    refused(status.NOT_FOUND, pod.kill, 9)
    assert pod.delete().exit_status == 137
    lcow.events.expect(
        [
            "create pod",
            "start pod",
            "exec-added e1",
            "exec-started e1",
            "exit e1",
            "delete e1",
            "exit pod",
            "delete pod",
        ]
    )
    assert not lcow.leaked()
    pod.shutdown()
    pod.wait_exited()


def test_workloads_share_the_vm_and_the_namespaces_of_the_sandbox(lcow: LinuxShims) -> None:
    pod = lcow.pod(hostname="the-pod")
    first = lcow.run_in(pod, "c1", *SLEEP)
    names = "for name in net ipc uts; do readlink /proc/self/ns/$name; done; hostname"
    in_first = lcow.exec(first, "e1", "sh", "-c", names)[1]
    assert lcow.output_in(pod, "c2", "sh", "-c", names) == in_first == lcow.exec(pod, "e2", "sh", "-c", names)[1]
    assert in_first.endswith("the-pod\n")
    assert lcow.vms() == ["pod@vm"]
    first.kill(15)
    eventually(lambda: first.state().status == Status.STOPPED or not first.kill(9), "the exit of c1")
    first.wait()
    assert first.delete().pid > 1
    again = lcow.run_in(pod, "c3", *SLEEP)  # the slots of c1 and c2 are free
    pod.kill(9)
    pod.wait()
    again.wait()
    again.delete()
    pod.delete()
    assert not lcow.leaked()


def test_exit_of_the_sandbox_closes_the_vm(lcow: LinuxShims) -> None:
    pod = lcow.pod()
    workload = lcow.run_in(pod, "c1", *SLEEP)
    pod.kill(9)
    assert pod.wait().exit_status == 137
    workload.wait()
    eventually(lambda: not lcow.vms(), "the exit of the VM")
    assert workload.delete().exit_status != 0
    pod.delete()
    eventually(lambda: "delete pod" in lcow.events.received(), "the last event")
    received = lcow.events.received()
    assert received.count("exit c1") == 1 and received.count("exit pod") == 1


def test_kill_of_all_reaches_every_process_of_the_pod(lcow: LinuxShims) -> None:
    pod = lcow.pod()
    workload = lcow.run_in(pod, "c1", *SLEEP)
    workload.exec("e1", lcow.process(*SLEEP))
    workload.start("e1")
    pod.kill(9, all=True)
    assert workload.wait("e1").exit_status == 137
    assert workload.wait().exit_status == 137
    assert pod.wait().exit_status == 137
    workload.delete()
    pod.delete()
    assert not [event for event in lcow.events.received() if event.startswith("oom")]


def test_workload_needs_a_running_sandbox(lcow: LinuxShims) -> None:
    pod = lcow.start("pod", *SLEEP, pod="pod", role="sandbox")
    lcow.create(pod)
    workload = lcow.start("c1", *SLEEP, pod="pod", role="container")
    refused(status.FAILED_PRECONDITION, lcow.create, workload)
    pod.kill(15)
    assert pod.wait().exit_status == 1
    pod.delete()
    assert not lcow.leaked()


def test_failed_workload_leaves_the_pod_as_it_was(lcow: LinuxShims) -> None:
    pod = lcow.pod()
    broken = lcow.workload(pod, "c1", "no-such-program")
    assert "executable file not found in $PATH" in refused(status.UNKNOWN, lcow.create, broken)
    missing = lcow.workload(pod, "c2", "true", mounts=[{"type": "bind", "source": "/no/dir", "destination": "/data"}])
    assert "could not open bind mount target" in refused(status.UNKNOWN, lcow.create, missing)
    assert lcow.output_in(pod, "c3", "echo", "works") == "works\n"
    pod.kill(9)
    pod.wait()
    pod.delete()


def test_workload_that_was_not_started_is_removed_from_the_vm(lcow: LinuxShims) -> None:
    pod = lcow.pod()
    workload = lcow.workload(pod, "c1", *SLEEP)
    lcow.create(workload)
    assert workload.delete().exit_status == 0
    mounts = lcow.exec(pod, "e1", "sh", "-c", "cat /proc/1/mountinfo")[1]
    assert "c1" not in mounts
    assert lcow.output_in(pod, "c2", "echo", "works") == "works\n"
    pod.kill(9)
    pod.wait()
    pod.delete()


def test_scratch_can_be_shared_with_the_sandbox(lcow: LinuxShims) -> None:
    pod = lcow.pod()
    lcow.scratch("c1").mkdir(parents=True)
    (lcow.scratch("c1") / "sandbox.vhdx").symlink_to(lcow.scratch("pod") / "sandbox.vhdx")
    assert lcow.output_in(pod, "c1", "sh", "-c", "echo kept > /file; cat /file") == "kept\n"
    attached = [str(entry["arguments"]) for entry in lcow.emulator.journal("HcsModifyComputeSystem")]
    assert sum("sandbox.vhdx" in text and "'RequestType': 'Add'" in text for text in attached) == 1
    pod.kill(9)
    pod.wait()
    pod.delete()
    assert not lcow.leaked()


def test_update_of_a_workload_changes_its_cgroup(lcow: LinuxShims) -> None:
    pod = lcow.pod()
    workload = lcow.run_in(pod, "c1", *SLEEP, members={"linux": {"resources": {"memory": {"limit": 64 << 20}}}})
    limit = 128 << 20
    workload.update({"memory": {"limit": limit}, "cpu": {"shares": 512}}, LINUX_RESOURCES)
    found = Metrics.decode(workload.stats().value)
    assert found.memory is not None and found.memory.usage is not None and found.memory.usage.limit == limit
    message = refused(status.UNKNOWN, workload.update, {"memory": {"limit": limit}})
    assert "must have resources be non-nil and type *LinuxResources when updating a lcow container" in message
    pod.update({"memory": {"limit": 2 << 30}}, LINUX_RESOURCES)
    modified = [str(entry["arguments"]) for entry in lcow.emulator.journal("HcsModifyComputeSystem")]
    assert "ComputeTopology/Memory/SizeInMB" in modified[-1]
    workload.kill(9)
    workload.wait()
    assert "resources cannot be changed" in refused(status.UNKNOWN, workload.update, {}, LINUX_RESOURCES)
    pod.kill(9)
    pod.wait()
    pod.delete()


@pytest.mark.parametrize(
    ("user", "expected"), [("user", "uid=1000(user) gid=1000(user)"), ("daemon:user", "uid=1(daemon) gid=1000(user)")]
)
def test_user_by_name_is_resolved_by_the_guest(lcow: LinuxShims, user: str, expected: str) -> None:
    pod = lcow.pod()
    workload = lcow.run_in(pod, "c1", *SLEEP, members={"process": {"user": {"username": user}}})
    assert lcow.exec(workload, "e1", "id", user={})[1].startswith(expected), "as the container"
    assert lcow.exec(workload, "e2", "id", user={"username": "root"})[1].startswith("uid=0(root)")
    pod.kill(9)
    pod.wait()
    pod.delete()


def test_oom_of_an_exec_is_published_while_the_container_runs(lcow: LinuxShims) -> None:
    pod = lcow.pod()
    limit = {"resources": {"memory": {"limit": 32 << 20, "swap": 32 << 20}}}
    workload = lcow.run_in(pod, "c1", *SLEEP, members={"linux": limit})
    code, _ = lcow.exec(workload, "e1", "sh", "-c", "x=a; while :; do x=$x$x; done")
    assert code == 137
    expected = ["create c1", "start c1", "exec-added e1", "exec-started e1", "oom c1", "exit e1", "delete e1"]
    lcow.events.expect(expected, id="c1")
    assert workload.state().status == Status.RUNNING
    pod.kill(9)
    pod.wait()
    pod.delete()


def test_terminal_exec_of_a_workload_can_be_resized(lcow: LinuxShims) -> None:
    pod = lcow.pod()
    workload = lcow.run_in(pod, "c1", *SLEEP)
    stdin, stdout = lcow.fifo("in"), lcow.fifo("out")
    out = Reader(stdout)
    writer = os.open(stdin, os.O_RDWR)
    process = lcow.process("sh", "-c", "read line; stty size", terminal=True)
    workload.exec("e1", process, stdin=stdin, stdout=stdout, terminal=True)
    workload.start("e1")
    workload.resize(width=99, height=33, exec_id="e1")
    os.write(writer, b"go\n")
    assert workload.wait("e1").exit_status == 0 and "33 99" in out.text()
    os.close(writer)
    pod.kill(9)
    pod.wait()
    pod.delete()
