"""Host process containers: users, lifecycle, and cleanup after crashes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from runhcs.gc_worker import release_ledger
from shim.platform.job_types import JobError
from shim.platform.linux.job import Job
from shim.ttrpc import status
from tests.support.emulator import is_alive
from tests.support.eventually import eventually
from tests.support.fifo_reader import Reader
from tests.support.hostprocess import (
    CONTROL_C_EXIT,
    INHERIT_USER,
    KILLED,
    RUNNING,
    SLEEP_LOOP,
    Jobs,
    groups,
    program,
    read_until,
)
from tests.support.shims import Shim, refused


class TestUsers:
    @pytest.mark.parametrize(
        ("user", "annotations", "uid"),
        [
            ("NT AUTHORITY\\SYSTEM", {}, 0),
            ("NT AUTHORITY\\Local Service", {}, 65534),
            ("nt authority\\network service", {}, 65534),
            ("Administrators", {}, 0),
            ("nobody", {}, 65534),
            ("whoever", {INHERIT_USER: "true"}, 0),
        ],
    )
    def test_process_runs_as_requested_user(self, jobs: Jobs, user: str, annotations: dict[str, str], uid: int) -> None:
        assert jobs.output("c1", "sh", "-c", "id -u", user=user, annotations=annotations) == f"{uid}\n"

    def test_local_group_creates_member_user(self, jobs: Jobs) -> None:
        assert jobs.output("c1", "sh", "-c", "id -u; id -g", user="tty") == "65534\n5\n"

    @pytest.mark.parametrize("user", ["", "no-such-user", "NT AUTHORITY\\Nobody"])
    def test_invalid_users_are_refused(self, jobs: Jobs, user: str) -> None:
        shim = jobs.shims.start("c1", jobs.spec("sh", user=user))
        message = refused(status.UNKNOWN, shim.create, rootfs=jobs.rootfs)
        assert (user.rpartition("\\")[2] or "process.user.username") in message
        assert not jobs.shims.mounts()

    def test_exec_runs_as_container_user(self, jobs: Jobs) -> None:
        shim = jobs.run_detached("c1", user="NT AUTHORITY\\Local Service")
        assert jobs.exec(shim, "e1", "sh", "-c", "id -u") == "65534\n"
        other = {**jobs.shims.process("sh"), "user": {"username": "NT AUTHORITY\\SYSTEM"}}
        assert "leave it out" in refused(status.UNKNOWN, shim.exec, "e2", other)


class TestLifecycle:
    def test_exit_code_is_reported(self, jobs: Jobs) -> None:
        jobs.output("c1", "cmd", "/c", "exit 70000", code=70000)

    def test_stdin_reaches_process_and_closes(self, jobs: Jobs) -> None:
        shim = jobs.shims.start("c1", jobs.spec("cat"))
        stdin, stdout = jobs.fifo(), jobs.fifo()
        reader = Reader(stdout)
        given = os.open(stdin, os.O_RDWR)
        shim.create(rootfs=jobs.rootfs, stdin=stdin, stdout=stdout)
        shim.start()
        os.write(given, b"through\n")
        shim.close_io()
        os.close(given)
        assert shim.wait().exit_status == 0
        assert reader.text() == "through\n"

    def test_exec_runs_in_job(self, jobs: Jobs) -> None:
        shim = jobs.run_detached("c1")
        assert jobs.exec(shim, "e1", "sh", "-c", f"cat {jobs.place}/tool.txt; exit 5", code=5) == "from the image\n"
        assert shim.state().status == RUNNING

    def test_terminal_and_resize(self, jobs: Jobs) -> None:
        shim = jobs.run_detached("c1")
        stdout = jobs.fifo()
        file = os.open(stdout, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(file, True)
        script = "trap 'stty size; exit 3' WINCH; stty size; while :; do sleep 0.1; done"
        process = {**jobs.shims.process("sh", "-c", script), "user": {}, "consoleSize": {"height": 30, "width": 90}}
        shim.exec("e1", process, stdout=stdout, terminal=True)
        shim.start("e1")
        assert read_until(file, b"\n") == b"30 90\r\n"
        shim.resize(100, 40, "e1")
        assert read_until(file, b"\n") == b"40 100\r\n"
        assert shim.wait("e1").exit_status == 3
        os.close(file)

    def test_kill_with_sigterm_reaches_the_program(self, jobs: Jobs) -> None:
        """A shell (`cmd /c`) was started to search for the program. The console event goes to both, as on Windows: the
        shell, which is the init, exits with STATUS_CONTROL_C_EXIT, and the program's handler runs."""
        note = jobs.shims.directory / "handled"
        loop = SLEEP_LOOP.replace("sleep 1", "sleep 0.1")
        shim = jobs.run_detached("c1", f"trap 'echo handled >> {note}; exit 7' TERM; {loop}")
        shim.kill(signal.SIGTERM)
        assert shim.wait().exit_status == CONTROL_C_EXIT
        shim.delete()
        assert note.read_text() == "handled\n"

    def test_sigkill_terminates_all_processes_of_job(self, jobs: Jobs) -> None:
        shim = jobs.run_detached("c1", "sleep 1000 & setsid sleep 1000 & " + SLEEP_LOOP)
        members = [process.pid for process in shim.pids()]
        assert len(members) >= 3
        shim.kill(signal.SIGKILL)
        assert shim.wait().exit_status == KILLED
        assert not any(map(is_alive, members))
        shim.delete()

    def test_processes_left_after_init_exit_are_shut_down(self, jobs: Jobs) -> None:
        note = jobs.shims.directory / "asked"
        patient = f"(trap 'echo asked > {note}; exit' TERM; echo up; while :; do sleep 0.1; done) & "
        shim = jobs.run_detached("c1", patient + "setsid sleep 1000 & sleep 0.3")
        shim.wait()
        shim.delete()
        assert note.read_text() == "asked\n"

    def test_invalid_programs_fail_to_start(self, jobs: Jobs) -> None:
        shim, _ = jobs.create("c1", "/no/such/program")
        shim.start()  # the shell that looks for it is there
        assert shim.wait().exit_status != 0
        shim.delete()
        other = jobs.run_detached("c2")
        process = {**jobs.shims.process("sh"), "user": {}, "cwd": "C:\\etc\\passwd"}
        other.exec("e1", process)
        assert "etc\\\\passwd" in refused(status.UNKNOWN, other.start, "e1")

    def test_existing_job_name_is_refused(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HCS_EMULATOR_DIR", str(tmp_path))
        first = Job("c1", 20348)
        with pytest.raises(JobError, match="already"):
            Job("c1", 20348)
        Job("c2", 20348).close()
        first.close()
        Job("c1", 20348).close()

    def test_pause_is_unimplemented(self, jobs: Jobs) -> None:
        shim = jobs.run_detached("c1")
        assert "pause" in refused(status.UNIMPLEMENTED, shim.pause)


def keeper(shim: Shim) -> int:
    tasks = Path(f"/proc/{shim.pid}/task").iterdir()
    children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    (found,) = [child for child in children if program(child) == "job"]
    return found


class TestCrash:
    def test_shim_crash_terminates_job(self, jobs: Jobs) -> None:
        """Nothing runs any more, and after `delete` nothing is mounted."""
        shim = jobs.run_detached("c1", "setsid sleep 1000 & " + SLEEP_LOOP)
        members = [process.pid for process in shim.pids()]
        assert len(members) >= 2
        shim.kill_daemon()
        eventually(lambda: not any(map(is_alive, members)), "the end of the container's processes")
        assert jobs.shims.mounts()
        shim.delete_command()
        assert not jobs.shims.mounts()
        assert not groups(jobs.shims)

    def test_keeper_crash_is_reported_as_exit(self, jobs: Jobs) -> None:
        shim = jobs.run_detached("c1", "setsid sleep 1000 & " + SLEEP_LOOP)
        members = [process.pid for process in shim.pids()]
        os.kill(keeper(shim), signal.SIGKILL)
        assert shim.wait().exit_status == KILLED
        assert not any(map(is_alive, members))
        shim.delete()
        assert not jobs.shims.mounts()

    def test_shim_and_keeper_crash_is_cleaned_up_by_delete(self, jobs: Jobs) -> None:
        shim = jobs.run_detached("c1", "setsid sleep 1000 & " + SLEEP_LOOP)
        members = [process.pid for process in shim.pids()]
        os.kill(shim.pid, signal.SIGSTOP)  # or it would clean up after its keeper
        os.kill(keeper(shim), signal.SIGKILL)
        shim.kill_daemon()
        shim.delete_command()
        assert not any(map(is_alive, members))
        assert not jobs.shims.mounts()

    def test_gc_releases_job_without_emulator(self, jobs: Jobs) -> None:
        """`runhcs gc` releases the resources of the host although the emulator has exited, and its layers with it."""
        shim = jobs.run_detached("c1", "setsid sleep 1000 & " + SLEEP_LOOP)
        members = [process.pid for process in shim.pids()]
        os.kill(shim.pid, signal.SIGSTOP)
        os.kill(keeper(shim), signal.SIGKILL)
        shim.kill_daemon()
        assert release_ledger(shim.bundle, 20.0, hcs_is_gone=True) == []
        assert not any(map(is_alive, members))
        assert not jobs.shims.mounts()
