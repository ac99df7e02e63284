"""A standalone Linux container in a utility VM, through a real shim: stdio, exits, signals, execs, users, failures."""

from __future__ import annotations

import os
import threading

import pytest

from shim.api.runhcs_stats import Statistics
from shim.ttrpc import status
from tests.support.eventually import eventually
from tests.support.fifo_reader import Reader
from tests.support.linux_shims import LINUX_RESOURCES, SLEEP, LinuxShims
from tests.support.shims import refused


def test_container_runs_and_reports_exit(lcow: LinuxShims) -> None:
    stdout, stderr = lcow.fifo("out"), lcow.fifo("err")
    out, err = Reader(stdout), Reader(stderr)
    shim = lcow.run("c1", "sh", "-c", "echo hello; echo oops >&2; exit 7", stdout=stdout, stderr=stderr)
    assert shim.wait().exit_status == 7
    answer = shim.delete()
    assert answer.exit_status == 7 and answer.pid > 0
    assert out.text() == "hello\n" and err.text() == "oops\n"
    lcow.events.expect(["create c1", "start c1", "exit c1", "delete c1"])
    eventually(lambda: not lcow.leaked(), "no leaked resource of the VM")
    shim.shutdown()
    shim.wait_exited()


def test_stdin_reaches_process_and_closes(lcow: LinuxShims) -> None:
    stdin, stdout = lcow.fifo("in"), lcow.fifo("out")
    out = Reader(stdout)
    shim = lcow.start("c1", "cat")
    writer = os.open(stdin, os.O_RDWR)
    lcow.create(shim, stdin=stdin, stdout=stdout)
    shim.start()
    sent = b"".join(b"line %d\n" % number for number in range(20000))
    threading.Thread(target=_send, args=(writer, sent), daemon=True).start()
    assert shim.wait().exit_status == 0
    assert out.text() == sent.decode()
    shim.delete()


def _send(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.close(descriptor)


def test_close_io_closes_stdin(lcow: LinuxShims) -> None:
    stdin, stdout = lcow.fifo("in"), lcow.fifo("out")
    out = Reader(stdout)
    shim = lcow.start("c1", "cat")
    writer = os.open(stdin, os.O_RDWR)
    lcow.create(shim, stdin=stdin, stdout=stdout)
    shim.start()
    os.write(writer, b"last words")
    shim.close_io()
    assert shim.wait().exit_status == 0
    assert out.text() == "last words"
    os.close(writer)
    shim.delete()


def test_terminal_has_one_output_and_a_size(lcow: LinuxShims) -> None:
    stdin, stdout = lcow.fifo("in"), lcow.fifo("out")
    out = Reader(stdout)
    shim = lcow.start("c1", "sh", "-c", "read line; stty size; echo got $line >&2", process={"terminal": True})
    writer = os.open(stdin, os.O_RDWR)
    lcow.create(shim, stdin=stdin, stdout=stdout, terminal=True)
    shim.start()
    shim.resize(width=132, height=43)
    os.write(writer, b"words\n")
    assert shim.wait().exit_status == 0
    assert "43 132" in out.text() and "got words" in out.text()
    os.close(writer)
    shim.delete()


def test_execs_run_with_their_own_exit_code_terminal_and_input(lcow: LinuxShims) -> None:
    shim = lcow.run("c1", *SLEEP)
    assert lcow.exec(shim, "e1", "sh", "-c", "echo in $0; exit 3", "exec") == (3, "in exec\n")
    stdin, stdout = lcow.fifo("in"), lcow.fifo("out")
    out = Reader(stdout)
    writer = os.open(stdin, os.O_RDWR)
    shim.exec("e2", lcow.process("cat"), stdin=stdin, stdout=stdout)
    shim.start("e2")
    os.write(writer, b"through the exec")
    shim.close_io("e2")
    assert shim.wait("e2").exit_status == 0 and out.text() == "through the exec"
    os.close(writer)
    stdout = lcow.fifo("tty")
    out = Reader(stdout)
    shim.exec("e3", lcow.process("sh", "-c", "test -t 0 && test -t 2 && echo a terminal"), stdout=stdout, terminal=True)
    shim.start("e3")
    assert shim.wait("e3").exit_status == 0 and out.text() == "a terminal\r\n"
    shim.kill(9)
    assert shim.wait().exit_status == 137
    shim.delete()


def test_exec_of_missing_program_reports_runcs_message(lcow: LinuxShims) -> None:
    shim = lcow.run("c1", *SLEEP)
    shim.exec("e1", lcow.process("no-such-program"))
    assert "executable file not found in $PATH" in refused(status.UNKNOWN, shim.start, "e1")
    assert shim.wait("e1").exit_status == 1
    shim.delete("e1")
    assert lcow.exec(shim, "e2", "echo", "still works") == (0, "still works\n")
    shim.kill(9)
    shim.wait()
    shim.delete()


def test_failed_create_reports_runcs_message_and_leaves_nothing(lcow: LinuxShims) -> None:
    shim = lcow.start("c1", "no-such-program")
    message = refused(status.UNKNOWN, lcow.create, shim)
    assert "failed to create container c1" in message and "executable file not found in $PATH" in message
    refused(status.NOT_FOUND, shim.state)
    assert not lcow.leaked()


@pytest.mark.parametrize(("signal", "code"), [(15, 15), (10, 10), (1, 1)])
def test_signal_reaches_the_process_by_its_number(lcow: LinuxShims, signal: int, code: int) -> None:
    stdout = lcow.fifo("out")
    out = Reader(stdout)
    script = f"trap 'exit {code}' {signal}; echo ready; while :; do sleep 0.05; done"
    shim = lcow.run("c1", "sh", "-c", script, stdout=stdout)
    out.wait_for("ready")
    shim.kill(signal)
    assert shim.wait().exit_status == code
    refused(status.NOT_FOUND, shim.kill, signal)
    shim.delete()


def test_signals_that_linux_guests_do_not_take_are_refused(lcow: LinuxShims) -> None:
    shim = lcow.run("c1", *SLEEP)
    for number in (0, 34, 64):
        assert "invalid signal value" in refused(status.FAILED_PRECONDITION, shim.kill, number)
    shim.exec("e1", lcow.process(*SLEEP))
    shim.start("e1")
    shim.kill(15, exec_id="e1")
    assert shim.wait("e1").exit_status == 128 + 15
    shim.kill(9, all=True)
    assert shim.wait().exit_status == 137
    assert shim.delete().exit_status == 137
    assert "oom c1" not in lcow.events.received()


def test_container_that_was_not_started_is_removed(lcow: LinuxShims) -> None:
    shim = lcow.start("c1", *SLEEP)
    lcow.create(shim)
    assert shim.delete().exit_status == 0
    assert not lcow.leaked()


def test_kill_of_container_that_was_not_started_exits_with_1(lcow: LinuxShims) -> None:
    shim = lcow.start("c1", *SLEEP)
    lcow.create(shim)
    shim.kill(15)
    assert shim.wait().exit_status == 1
    shim.delete()


@pytest.mark.parametrize(
    ("user", "expected"),
    [("user", "uid=1000(user) gid=1000(user)"), ("daemon:user", "uid=1(daemon) gid=1000(user)"), ("1234", "uid=1234")],
)
def test_user_by_name_is_resolved_in_the_image(lcow: LinuxShims, user: str, expected: str) -> None:
    assert lcow.output_of("c1", "id", process={"user": {"username": user}}).startswith(expected)


def test_unknown_user_fails_the_create(lcow: LinuxShims) -> None:
    shim = lcow.start("c1", "id", process={"user": {"username": "nobody-here"}})
    refused(status.UNKNOWN, lcow.create, shim)
    assert not lcow.leaked()


def test_security_settings_of_the_spec_are_enforced(lcow: LinuxShims) -> None:
    script = "grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; cat /proc/kcore | head -c1 | wc -c; touch /x"
    masked = {"maskedPaths": ["/proc/kcore"], "readonlyPaths": ["/proc/sys"]}
    stdout = lcow.fifo("out")
    out = Reader(stdout)
    shim = lcow.run(
        "c1", "sh", "-c", script, stdout=stdout, stderr=stdout,
        members={"linux": masked, "root": {"path": "rootfs", "readonly": True}},
    )  # fmt: skip
    assert shim.wait().exit_status != 0
    text = out.text()
    assert "NoNewPrivs:\t1" in text and "CapBnd:\t00000000a80425fb" in text and "Read-only file system" in text
    shim.delete()


def test_scratch_without_file_system_is_formatted_by_the_guest(lcow: LinuxShims) -> None:
    from tests.support.lcow_image import make_scratch

    make_scratch(lcow.scratch("c1"), size=32 << 20, formatted=False)
    assert lcow.output_of("c1", "sh", "-c", "echo kept > /file; cat /file") == "kept\n"


def test_stats_are_cgroup_metrics_and_those_of_the_vm(lcow: LinuxShims) -> None:
    limit = 64 << 20
    shim = lcow.run("c1", *SLEEP, members={"linux": {"resources": {"memory": {"limit": limit}}}})

    def settled() -> Statistics | None:
        """runc's own threads are counted until init has replaced runc."""
        stats = Statistics.decode(shim.stats().value)
        pids = stats.linux.pids if stats.linux is not None else None
        return stats if pids is not None and pids.current == 1 else None

    found = eventually(settled, "only init is in the container")
    assert found is not None and found.windows is None and found.linux is not None and found.vm is not None
    assert found.linux.memory is not None and found.linux.memory.usage is not None
    assert found.linux.memory.usage.limit == limit and found.linux.memory.usage.usage > 0
    assert found.linux.cpu is not None and found.linux.cpu.usage is not None and found.linux.cpu.usage.total > 0
    assert found.vm.memory is not None and found.vm.memory.working_set_bytes > 0
    shim.exec("e1", lcow.process(*SLEEP))
    shim.start("e1")
    assert {process.pid for process in shim.pids()} == {shim.state().pid, shim.state("e1").pid}
    shim.kill(9)
    shim.wait()
    assert Statistics.decode(shim.stats().value).linux is not None, "the last stats"
    shim.delete()


def test_update_of_standalone_container_changes_the_vm(lcow: LinuxShims) -> None:
    shim = lcow.run("c1", *SLEEP)
    shim.update({"memory": {"limit": 2 << 30}}, LINUX_RESOURCES)
    modified = [entry["arguments"] for entry in lcow.emulator.journal("HcsModifyComputeSystem")]
    assert "VirtualMachine/ComputeTopology/Memory/SizeInMB" in str(modified[-1])
    shim.kill(9)
    shim.wait()
    shim.delete()


def test_oom_kill_is_published_before_the_exit(lcow: LinuxShims) -> None:
    memory = {"resources": {"memory": {"limit": 16 << 20, "swap": 16 << 20}}}
    shim = lcow.run("c1", "sh", "-c", "x=a; while :; do x=$x$x; done", members={"linux": memory})
    assert shim.wait().exit_status == 137
    shim.delete()
    lcow.events.expect(["create c1", "start c1", "oom c1", "exit c1", "delete c1"])


def test_process_that_kills_itself_is_no_oom(lcow: LinuxShims) -> None:
    shim = lcow.run("c1", *SLEEP)
    assert lcow.exec(shim, "e1", "sh", "-c", "kill -9 $$") == (137, "")
    assert "oom c1" not in lcow.events.received()
    shim.kill(9)
    shim.wait()
    shim.delete()


def test_vm_crash_exits_everything(lcow: LinuxShims) -> None:
    shim = lcow.run("c1", *SLEEP)
    shim.exec("e1", lcow.process(*SLEEP))
    shim.start("e1")
    lcow.emulator.fault("HcsGetComputeSystemProperties", crash_vm=True)
    shim.stats()
    shim.wait("e1")
    shim.wait()
    shim.delete()
    eventually(lambda: {"exit c1", "exit e1", "delete c1"} <= set(lcow.events.received()), "all events")
    assert lcow.events.received().count("exit c1") == 1 and lcow.events.received().count("exit e1") == 1
    eventually(lambda: not lcow.leaked(), "no leaked resource of the VM")


def test_layers_without_vpmem_are_disks(lcow: LinuxShims) -> None:
    annotations = {"io.microsoft.virtualmachine.devices.virtualpmem.maximumcount": "0"}
    assert lcow.output_of("c1", "echo", "from a disk", annotations=annotations) == "from a disk\n"


def test_layers_without_multi_mapping_have_devices_of_their_own(lcow: LinuxShims) -> None:
    annotations = {"io.microsoft.virtualmachine.lcow.vpmem.nomultimapping": "true"}
    assert lcow.output_of("c1", "echo", "from a device", annotations=annotations) == "from a device\n"


def test_layer_folders_are_layers_too(lcow: LinuxShims) -> None:
    lcow.rootfs("c1")  # makes the scratch disk
    windows = {"layerFolders": [str(lcow.layer), str(lcow.scratch("c1"))]}
    shim = lcow.start("c1", "true", windows=windows)
    lcow.create(shim, rootfs=[])
    shim.start()
    assert shim.wait().exit_status == 0
    shim.delete()


def test_guest_stacks_are_in_the_diagnostics(lcow: LinuxShims) -> None:
    from shim.api import shimdiag

    shim = lcow.run("c1", *SLEEP)
    payload = shim.client.call("containerd.runhcs.v1.diag.ShimDiag", "DiagStacks", b"", timeout=30)
    found = shimdiag.StacksResponse.decode(payload)
    assert found.stacks and found.guest_stacks and not found.guest_stacks.startswith("(no guest stacks")
    shim.kill(9)
    shim.wait()
    shim.delete()


def test_stderr_of_a_terminal_is_ignored(lcow: LinuxShims) -> None:
    """CRI on Linux names one, and does not create it."""
    shim = lcow.start("c1", *SLEEP, process={"terminal": True})
    lcow.create(shim, stdout=lcow.fifo("out"), stderr=str(lcow.directory / "no-stderr"), terminal=True)
    assert shim.state().terminal and not shim.state().stderr
    shim.kill(9)
    shim.wait()
    shim.delete()
