"""Host process containers on the host: jobs of its own processes, with the container's files among its own."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runhcs.freeing import free_ledger
from shim.api.runhcs_stats import Statistics
from shim.api.types import Mount
from shim.platform.job_types import JobError
from shim.platform.linux.job import Job
from shim.ttrpc import status
from tests.emulated.emulator import Emulator, eventually
from tests.emulated.shims import Shim, Shims, refused
from tests.emulated.test_sandbox_service import Sandbox
from tests.emulated.vm_image import Reader

HOST_PROCESS = "microsoft.com/hostprocess-container"
INHERIT_USER = "microsoft.com/hostprocess-inherit-user"
ROOT = "microsoft.com/hostprocess-rootfs-location"
STAY = "echo up; while :; do sleep 1; done"
HUNGRY = ("dd", "if=/dev/zero", "of=/dev/null", "bs=256M", "count=1")
ALLOWED = "while read name value; do case $name in Cpus_allowed_list:) echo $value;; esac; done < /proc/self/status"
OLD_BUILD = 17763
KILLED = 0xFFFFFFFF
RUNNING = 2


def windows_path(path: Path) -> str:
    return "C:" + str(path).replace("/", "\\")


def read_until(file: int, end: bytes) -> bytes:
    """What comes, up to this; fails at the stream's end, and when nothing comes."""
    text = b""
    while not text.endswith(end):
        assert select.select([file], [], [], 30)[0], f"nothing more after {text!r}"
        piece = os.read(file, 1)
        assert piece, f"the stream has ended after {text!r}"
        text += piece
    return text


class Jobs:
    """Shims of host process containers whose files show at a place of the test's own."""

    def __init__(self, shims: Shims) -> None:
        self.shims = shims
        self.events = shims.events
        self.place = shims.directory / "hpc"
        self.rootfs = shims.rootfs()
        (shims.image / "tool.txt").write_text("from the image\n")
        self._streams = 0

    def spec(self, *args: str, user: str = "NT AUTHORITY\\SYSTEM", **members: Any) -> dict[str, Any]:
        process = {**self.shims.process(*args), "user": {"username": user}, **members.pop("process", {})}
        spec = {**self.shims.spec(*args), **members, "process": process}
        own = {HOST_PROCESS: "true", ROOT: windows_path(self.place)}
        spec["annotations"] = {**own, **members.get("annotations", {})}
        return spec

    def fifo(self) -> str:
        self._streams += 1
        path = str(self.shims.directory / f"stream-{self._streams}")
        os.mkfifo(path)
        return path

    def create(self, id: str, *args: str, **members: Any) -> tuple[Shim, Reader]:
        shim = self.shims.start(id, self.spec(*args, **members))
        stdout = self.fifo()
        reader = Reader(stdout)
        shim.create(rootfs=self.rootfs, stdout=stdout)
        return shim, reader

    def stay(self, id: str, script: str = STAY, **members: Any) -> Shim:
        """One that runs and is ready."""
        shim = self.shims.start(id, self.spec("sh", "-c", script, **members))
        stdout = self.fifo()
        file = os.open(stdout, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(file, True)
        shim.create(rootfs=self.rootfs, stdout=stdout)
        shim.start()
        assert read_until(file, b"\n") == b"up\n"
        os.close(file)
        return shim

    def output(self, id: str, *args: str, code: int = 0, **members: Any) -> str:
        """What one says that runs to its end."""
        shim, reader = self.create(id, *args, **members)
        shim.start()
        assert shim.wait().exit_status == code
        shim.delete()
        return reader.text()

    def exec(self, shim: Shim, name: str, *args: str, code: int = 0) -> str:
        stdout = self.fifo()
        reader = Reader(stdout)
        process = {**self.shims.process(*args), "user": {}}
        shim.exec(name, process, stdout=stdout)
        shim.start(name)
        assert shim.wait(name).exit_status == code
        shim.delete(name)
        return reader.text()


@pytest.fixture
def jobs(emulator: Emulator) -> Iterator[Jobs]:
    yield from world(emulator)


def world(emulator: Emulator) -> Iterator[Jobs]:
    shims = Shims(emulator.env)
    yield Jobs(shims)
    shims.close()
    assert not groups(shims), "control groups left behind"


def groups(shims: Shims) -> list[str]:
    """Control groups of this world's jobs."""
    own = shims.env["HCS_EMULATOR_DIR"].rpartition("/")[2]
    found = []
    for path, names, _ in os.walk("/sys/fs/cgroup"):  # others' groups come and go meanwhile
        if path.endswith("/runhcs-jobs"):
            found += [f"{path}/{name}" for name in names if own in name]
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def group_file(pid: int, controller: str, *names: str) -> str:
    """A file of the control group that a process is in, of version 1 or 2."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for root in (f"/sys/fs/cgroup/{controllers}", f"/sys/fs/cgroup/{controller}", "/sys/fs/cgroup"):
            for name in names:
                if controller in controllers.split(",") or not controllers:
                    file = Path(f"{root}{path}/{name}")
                    if file.exists():
                        return file.read_text().strip()
    raise AssertionError(f"process {pid} is in no group of {controller}")


class TestPlace:
    def test_a_process_of_the_host_with_files_of_its_own(self, jobs: Jobs) -> None:
        script = f"readlink /proc/self/ns/pid /proc/self/ns/uts /proc/self/ns/net; cat {jobs.place}/tool.txt; pwd"
        text = jobs.output("c1", "sh", "-c", script, process={"cwd": windows_path(jobs.place)})
        own = [os.readlink(f"/proc/self/ns/{name}") for name in ("pid", "uts", "net")]
        assert text.splitlines() == [*own, "from the image", str(jobs.place)]
        assert str(jobs.place) not in Path("/proc/self/mountinfo").read_text()
        jobs.events.expect(["create c1", "start c1", "exit c1", "delete c1"])

    def test_its_name_in_the_environment_and_in_the_command(self, jobs: Jobs) -> None:
        place = windows_path(jobs.place)
        process = {"env": ["TOOL=%CONTAINER_SANDBOX_MOUNT_POINT%\\x", "path=/own"]}
        command = "echo %CONTAINER_SANDBOX_MOUNT_POINT%& set TOOL& set PATH"
        text = jobs.output("c1", "cmd", "/c", command, process=process)
        first, *rest = text.splitlines()
        assert first.strip().strip('"') == place  # the shim's doing, before cmd sees it
        assert rest[0].strip() == f"TOOL={place}\\x"
        assert rest[1].strip() == f"path=/own:{jobs.place}"

    def test_quotes_survive_the_shell_that_looks_for_the_program(self, jobs: Jobs) -> None:
        tool = jobs.shims.image / "my tool"
        tool.write_text('#!/bin/sh\nfor word; do echo "<$word>"; done\n')
        tool.chmod(0o755)
        text = jobs.output("c1", windows_path(jobs.place / "my tool"), "two words", "last")
        assert text.splitlines() == ["<two words>", "<last>"]

    def test_a_directory_that_is_not_there_is_made(self, jobs: Jobs) -> None:
        cwd = windows_path(jobs.place / "made" / "here")
        assert jobs.output("c1", "sh", "-c", "pwd", process={"cwd": cwd}).strip() == str(jobs.place / "made" / "here")
        assert (jobs.shims.image / "made" / "here").is_dir()

    @pytest.mark.parametrize("root", ["C:\\Windows\\x", "c:/", "relative", "C:\\x\\..\\y"])
    def test_places_that_are_refused(self, jobs: Jobs, root: str) -> None:
        shim = jobs.shims.start("c1", jobs.spec("sh", annotations={ROOT: root}))
        assert "rootfs-location" in refused(status.UNKNOWN, shim.create, rootfs=jobs.rootfs)

    def test_a_spec_of_linux(self, jobs: Jobs) -> None:
        """As `ctr run --annotation` makes it on the emulator's host."""
        spec: dict[str, Any] = {
            "ociVersion": "1.1.0",
            "process": {"args": ["sh", "-c", "readlink /proc/self/ns/pid; cat tool.txt; id -u"], "cwd": str(jobs.place),
                        "env": ["PATH=/usr/bin:/bin"], "user": {"uid": 0}},
            "root": {"path": "rootfs"},
            "mounts": [{"type": "proc", "source": "proc", "destination": "/proc"}],
            "linux": {},
            "annotations": {HOST_PROCESS: "true", ROOT: str(jobs.place)},
        }  # fmt: skip
        shim = jobs.shims.start("c1", spec)
        stdout = jobs.fifo()
        reader = Reader(stdout)
        shim.create(rootfs=jobs.rootfs, stdout=stdout)
        shim.start()
        assert shim.wait().exit_status == 0
        assert reader.text().splitlines() == [os.readlink("/proc/self/ns/pid"), "from the image", "0"]
        shim.delete()


class TestMounts:
    def test_directories_and_files(self, jobs: Jobs) -> None:
        data, note = jobs.shims.directory / "data", jobs.shims.directory / "note"
        data.mkdir()
        note.write_text("a note\n")
        there = jobs.shims.directory / "there"
        mounts = [
            {"source": str(data), "destination": windows_path(there)},
            {"source": str(note), "destination": windows_path(there / "note"), "options": ["ro"]},
        ]
        script = (
            f"echo new > {there}/file; cat {there}/note; echo x > {there}/note || echo read-only; "
            f"ls -l {jobs.place}{there} > /dev/null && cat {jobs.place}{there}/file"
        )
        text = jobs.output("c1", "sh", "-c", script, mounts=mounts)
        assert text.splitlines() == ["a note", "read-only", "new"]
        assert (data / "file").read_text() == "new\n"
        assert str(there) not in Path("/proc/self/mountinfo").read_text()

    @pytest.mark.parametrize(
        ("mount", "said"),
        [
            ({"source": "\\\\.\\pipe\\docker", "destination": "\\\\.\\pipe\\docker"}, "use it directly"),
            ({"source": "", "destination": "C:\\x"}, "no source"),
            ({"source": "/tmp", "destination": ""}, "no destination"),
            ({"source": "/tmp", "destination": "x"}, "absolute"),
            ({"source": "/no/such/place", "destination": "C:\\x"}, "/no/such/place"),
            ({"source": "sandbox:///tmp", "destination": "C:\\x"}, "utility VM"),
        ],
    )
    def test_what_cannot_be_mounted(self, jobs: Jobs, mount: dict[str, Any], said: str) -> None:
        shim = jobs.shims.start("c1", jobs.spec("sh", mounts=[mount]))
        assert said in refused(status.UNKNOWN, shim.create, rootfs=jobs.rootfs)

    def test_one_that_is_added_while_it_runs(self, jobs: Jobs) -> None:
        data, there = jobs.shims.directory / "data", jobs.shims.directory / "there"
        data.mkdir()
        (data / "late").write_text("late\n")
        shim = jobs.stay("c1")
        shim.update({"HostPath": str(data), "ContainerPath": windows_path(there)}, "ContainerMount")
        assert jobs.exec(shim, "e1", "sh", "-c", f"cat {there}/late") == "late\n"


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
    def test_who_runs(self, jobs: Jobs, user: str, annotations: dict[str, str], uid: int) -> None:
        assert jobs.output("c1", "sh", "-c", "id -u", user=user, annotations=annotations) == f"{uid}\n"

    def test_a_member_of_a_group_of_the_host(self, jobs: Jobs) -> None:
        assert jobs.output("c1", "sh", "-c", "id -u; id -g", user="tty") == "65534\n5\n"

    @pytest.mark.parametrize("user", ["", "no-such-user", "NT AUTHORITY\\Nobody"])
    def test_users_that_are_refused(self, jobs: Jobs, user: str) -> None:
        shim = jobs.shims.start("c1", jobs.spec("sh", user=user))
        message = refused(status.UNKNOWN, shim.create, rootfs=jobs.rootfs)
        assert (user.rpartition("\\")[2] or "process.user.username") in message
        assert not jobs.shims.mounts()

    def test_an_exec_has_the_container_s_user(self, jobs: Jobs) -> None:
        shim = jobs.stay("c1", user="NT AUTHORITY\\Local Service")
        assert jobs.exec(shim, "e1", "sh", "-c", "id -u") == "65534\n"
        other = {**jobs.shims.process("sh"), "user": {"username": "NT AUTHORITY\\SYSTEM"}}
        assert "leave it out" in refused(status.UNKNOWN, shim.exec, "e2", other)


class TestLife:
    def test_exit_code(self, jobs: Jobs) -> None:
        jobs.output("c1", "cmd", "/c", "exit 70000", code=70000)

    def test_stdin_and_its_end(self, jobs: Jobs) -> None:
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

    def test_an_exec(self, jobs: Jobs) -> None:
        shim = jobs.stay("c1")
        assert jobs.exec(shim, "e1", "sh", "-c", f"cat {jobs.place}/tool.txt; exit 5", code=5) == "from the image\n"
        assert shim.state().status == RUNNING

    def test_a_terminal(self, jobs: Jobs) -> None:
        shim = jobs.stay("c1")
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

    def test_asked_to_end(self, jobs: Jobs) -> None:
        """The signal reaches the program, although a shell was started to look for it."""
        shim = jobs.stay("c1", "trap 'exit 7' TERM; " + STAY.replace("sleep 1", "sleep 0.1"))
        shim.kill(signal.SIGTERM)
        shim.wait()
        shim.delete()

    def test_ended_by_force_with_all_that_it_has_started(self, jobs: Jobs) -> None:
        shim = jobs.stay("c1", "sleep 1000 & setsid sleep 1000 & " + STAY)
        members = [process.pid for process in shim.pids()]
        assert len(members) >= 3
        shim.kill(signal.SIGKILL)
        assert shim.wait().exit_status == KILLED
        assert not any(map(alive, members))
        shim.delete()

    def test_what_is_left_when_the_first_has_ended_is_asked_and_then_ended(self, jobs: Jobs) -> None:
        note = jobs.shims.directory / "asked"
        patient = f"(trap 'echo asked > {note}; exit' TERM; echo up; while :; do sleep 0.1; done) & "
        shim = jobs.stay("c1", patient + "setsid sleep 1000 & sleep 0.3")
        shim.wait()
        shim.delete()
        assert note.read_text() == "asked\n"

    def test_what_cannot_be_started(self, jobs: Jobs) -> None:
        shim, _ = jobs.create("c1", "/no/such/program")
        shim.start()  # the shell that looks for it is there
        assert shim.wait().exit_status != 0
        shim.delete()
        other = jobs.stay("c2")
        process = {**jobs.shims.process("sh"), "user": {}, "cwd": "C:\\etc\\passwd"}
        other.exec("e1", process)
        assert "etc\\\\passwd" in refused(status.UNKNOWN, other.start, "e1")

    def test_a_name_that_is_taken(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HCS_EMULATOR_DIR", str(tmp_path))
        first = Job("c1", 20348)
        with pytest.raises(JobError, match="already"):
            Job("c1", 20348)
        Job("c2", 20348).close()
        first.close()
        Job("c1", 20348).close()

    def test_it_does_not_pause(self, jobs: Jobs) -> None:
        shim = jobs.stay("c1")
        assert "pause" in refused(status.UNIMPLEMENTED, shim.pause)


class TestLimits:
    def test_memory(self, jobs: Jobs) -> None:
        spec_windows = {"resources": {"memory": {"limit": 64 << 20}}}
        shim, _ = jobs.create("c1", *HUNGRY, windows=spec_windows)
        shim.start()
        assert shim.wait().exit_status != 0
        shim.delete()
        jobs.events.expect(["create c1", "start c1", "oom c1", "exit c1", "delete c1"])

    def test_memory_that_an_update_gives(self, jobs: Jobs) -> None:
        shim = jobs.stay("c1", windows={"resources": {"memory": {"limit": 64 << 20}}})
        shim.update({"memory": {"limit": 600 << 20}})
        jobs.exec(shim, "e1", *HUNGRY)
        assert "oom c1" not in jobs.events.told()

    @pytest.mark.parametrize(
        ("cpu", "share"), [({"count": 1}, 1 / (os.cpu_count() or 1)), ({"maximum": 2500}, 0.25), ({}, 0)]
    )
    def test_processor(self, jobs: Jobs, cpu: dict[str, int], share: float) -> None:
        shim = jobs.stay("c1", windows={"resources": {"cpu": cpu, "memory": {"limit": 1 << 30}}})
        if share:
            quota = group_file(shim.state().pid, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0]
            assert int(quota) == int(share * 100_000 * (os.cpu_count() or 1))
        shim.update({"cpu": {"maximum": 5000}})
        quota = group_file(shim.state().pid, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0]
        assert int(quota) == 50_000 * (os.cpu_count() or 1)

    def test_affinity(self, jobs: Jobs) -> None:
        resources = {"cpu": {"affinity": [{"mask": 1, "group": 0}]}}
        shim = jobs.stay("c1", windows={"resources": resources})
        assert jobs.exec(shim, "e1", "sh", "-c", ALLOWED) == "0\n"
        shim.update({"cpu": {"affinity": [{"mask": 2, "group": 0}]}})
        assert jobs.exec(shim, "e2", "sh", "-c", ALLOWED) == "1\n"
        missing = {"cpu": {"affinity": [{"mask": 1 << 60}]}}
        other = jobs.shims.start("c2", jobs.spec("sh", windows={"resources": missing}))
        assert "affinity" in refused(status.UNKNOWN, other.create, rootfs=jobs.rootfs)


class TestFigures:
    def test_they_are_of_the_job(self, jobs: Jobs) -> None:
        shim = jobs.stay("c1", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 1000 & " + STAY)
        before = Statistics.decode(shim.stats().value).windows
        assert before is not None and before.processor is not None and before.memory is not None
        assert before.processor.total_runtime_ns > 0 and before.memory.memory_usage_private_working_set_bytes > 0
        pids = {process.pid for process in shim.pids()}
        assert shim.state().pid in pids and os.getpid() not in pids and shim.pid not in pids
        eventually(lambda: {"sh", "sleep"} <= {name(process.pid) for process in shim.pids()}, "programs of the job")
        jobs.exec(shim, "e1", "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
        after = Statistics.decode(shim.stats().value).windows
        assert after is not None and after.processor is not None
        assert after.processor.total_runtime_ns > before.processor.total_runtime_ns  # of one that has ended
        shim.kill(9)
        shim.wait()
        last = Statistics.decode(shim.stats().value).windows
        assert last is not None and last.processor is not None
        assert last.processor.total_runtime_ns >= before.processor.total_runtime_ns
        shim.delete()


class TestCrash:
    def test_of_the_shim(self, jobs: Jobs) -> None:
        """Nothing runs any more, and after `delete` nothing is mounted."""
        shim = jobs.stay("c1", "setsid sleep 1000 & " + STAY)
        members = [process.pid for process in shim.pids()]
        assert len(members) >= 2
        shim.kill_daemon()
        eventually(lambda: not any(map(alive, members)), "the end of the container's processes")
        assert jobs.shims.mounts()
        shim.delete_command()
        assert not jobs.shims.mounts()
        assert not groups(jobs.shims)

    def test_of_the_keeper(self, jobs: Jobs) -> None:
        shim = jobs.stay("c1", "setsid sleep 1000 & " + STAY)
        members = [process.pid for process in shim.pids()]
        os.kill(keeper(shim), signal.SIGKILL)
        assert shim.wait().exit_status == KILLED
        assert not any(map(alive, members))
        shim.delete()
        assert not jobs.shims.mounts()

    def test_of_both(self, jobs: Jobs) -> None:
        shim = jobs.stay("c1", "setsid sleep 1000 & " + STAY)
        members = [process.pid for process in shim.pids()]
        os.kill(shim.pid, signal.SIGSTOP)  # or it would clean up after its keeper
        os.kill(keeper(shim), signal.SIGKILL)
        shim.kill_daemon()
        shim.delete_command()
        assert not any(map(alive, members))
        assert not jobs.shims.mounts()


    def test_of_all_that_could_free_it(self, jobs: Jobs) -> None:
        """`runhcs gc` frees what is the host's although the emulator is gone, and the layers with it."""
        shim = jobs.stay("c1", "setsid sleep 1000 & " + STAY)
        members = [process.pid for process in shim.pids()]
        os.kill(shim.pid, signal.SIGSTOP)
        os.kill(keeper(shim), signal.SIGKILL)
        shim.kill_daemon()
        assert free_ledger(shim.bundle, 20.0, hcs_is_gone=True) == []
        assert not any(map(alive, members))
        assert not jobs.shims.mounts()


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def keeper(shim: Shim) -> int:
    tasks = Path(f"/proc/{shim.pid}/task").iterdir()
    children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    (found,) = [child for child in children if name(child) == "job"]
    return found


class TestPods:
    def annotations(self, role: str, **others: str) -> dict[str, str]:
        return {"io.kubernetes.cri.container-type": role, "io.kubernetes.cri.sandbox-id": "pod", **others}

    def pod(self, jobs: Jobs) -> Shim:
        own = self.annotations("sandbox", **{INHERIT_USER: "true"})
        shim = jobs.shims.start("pod", jobs.spec("pause.exe", annotations=own))
        shim.create(rootfs=jobs.rootfs)
        assert shim.start() == 1
        return shim

    def test_with_host_process_containers(self, jobs: Jobs) -> None:
        """Whose rights and which place they get is the pod's to say; each has files of its own."""
        pod = self.pod(jobs)
        elsewhere = self.annotations("container", **{ROOT: "C:\\elsewhere"})
        images = []
        for name in ("a", "b"):
            image = jobs.shims.directory / f"image-{name}"
            image.mkdir()
            (image / "name").write_text(name)
            images.append([Mount(type="bind", source=str(image), options=["bind", "rw"])])
        members = []
        for name, rootfs in zip(("a", "b"), images, strict=True):
            spec = jobs.spec("sh", "-c", f"cat {jobs.place}/name; id -u; {STAY}", user="", annotations=elsewhere)
            shim = jobs.shims.start(name, spec)
            stdout = jobs.fifo()
            file = os.open(stdout, os.O_RDONLY | os.O_NONBLOCK)
            os.set_blocking(file, True)
            shim.create(rootfs=rootfs, stdout=stdout)
            shim.start()
            assert read_until(file, b"up\n") == f"{name}0\nup\n".encode()
            os.close(file)
            members.append(shim)
        assert {process.pid for process in pod.pids()} == {1}
        assert pod.stats().value is not None
        pids = [member.state().pid for member in members]
        pod.kill(9)
        assert pod.wait().exit_status == 0
        pod.delete()
        assert not any(map(alive, pids))

    def test_by_the_sandbox_service(self, jobs: Jobs) -> None:
        pod = Sandbox.begin(jobs.shims)
        pod.create_sandbox(annotations={HOST_PROCESS: "true", INHERIT_USER: "true"})
        pod.start_sandbox()
        assert "host processes" in refused(status.UNKNOWN, pod.join, "w1")
        bundle = jobs.shims.bundle("w2", jobs.spec("sh", "-c", STAY, user=""))
        pod.create(id="w2", bundle=str(bundle), rootfs=jobs.rootfs)
        pid = pod.start(id="w2")
        assert alive(pid) and pid in {process.pid for process in pod.pids(id="w2")}
        pod.stop_sandbox()
        pod.wait_sandbox()
        assert not alive(pid)
        pod.delete(id="w2")
        pod.shutdown_sandbox()
        pod.wait_gone()

    def test_no_other_containers(self, jobs: Jobs) -> None:
        self.pod(jobs)
        spec = {**jobs.shims.spec("sh"), "annotations": self.annotations("container")}
        shim = jobs.shims.start("w1", spec)
        message = refused(status.UNKNOWN, shim.create, rootfs=jobs.rootfs)
        assert HOST_PROCESS in message

    def test_forbidden(self, jobs: Jobs) -> None:
        own = {"microsoft.com/disable-hostprocess-container": "true"}
        shim = jobs.shims.start("c1", jobs.spec("sh", annotations=own))
        assert "forbid" in refused(status.UNKNOWN, shim.create, rootfs=jobs.rootfs)


@pytest.fixture
def old(start_emulator: Callable[..., Emulator]) -> Iterator[Jobs]:
    """On Server 2019, which has no bind filter."""
    yield from world(start_emulator("--build", str(OLD_BUILD)))


class TestWithoutBindFilter:
    def test_files_are_at_a_place_of_its_own_for_everybody(self, old: Jobs) -> None:
        note = old.shims.directory / "note"
        note.write_text("a note\n")
        mounts = [{"source": str(note), "destination": "C:\\mounted\\note"}]
        shim = old.stay("c1", "cat tool.txt > copy; " + STAY, mounts=mounts, process={"cwd": "C:\\work"})
        place = old.place / "c1"
        assert (place / "tool.txt").read_text() == "from the image\n"
        assert old.exec(shim, "e1", "sh", "-c", f"pwd; cat {place}/mounted/note").splitlines() == [str(place), "a note"]
        shim.kill(9)
        shim.wait()
        shim.delete()
        assert not place.exists()

    def test_after_a_crash(self, old: Jobs) -> None:
        shim = old.stay("c1")
        shim.kill_daemon()
        shim.delete_command()
        assert not (old.place / "c1").exists()
        assert not old.shims.mounts()
