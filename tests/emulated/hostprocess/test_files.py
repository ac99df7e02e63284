"""Host process containers: root directory and mounts, with and without the bind filter."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.ttrpc import status
from shim.ttrpc.status import StatusError
from tests.support.emulator import Emulator
from tests.support.hostprocess import ROOT, SLEEP_LOOP, Jobs, host_process_shims, windows_path
from tests.support.shared_mounts import mounts_below, shared_mount
from tests.support.shims import refused

OLD_BUILD = 17763


class TestRootDirectory:
    def test_process_sees_host_and_container_files(self, jobs: Jobs) -> None:
        script = f"readlink /proc/self/ns/pid /proc/self/ns/uts /proc/self/ns/net; cat {jobs.place}/tool.txt; pwd"
        text = jobs.output("c1", "sh", "-c", script, process={"cwd": windows_path(jobs.place)})
        own = [os.readlink(f"/proc/self/ns/{name}") for name in ("pid", "uts", "net")]
        assert text.splitlines() == [*own, "from the image", str(jobs.place)]
        assert str(jobs.place) not in Path("/proc/self/mountinfo").read_text()
        jobs.events.expect(["create c1", "start c1", "exit c1", "delete c1"])

    def test_mount_point_variable_in_environment_and_command(self, jobs: Jobs) -> None:
        place = windows_path(jobs.place)
        process = {"env": ["TOOL=%CONTAINER_SANDBOX_MOUNT_POINT%\\x", "path=/own"]}
        command = "echo %CONTAINER_SANDBOX_MOUNT_POINT%& set TOOL& set PATH"
        text = jobs.output("c1", "cmd", "/c", command, process=process)
        first, *rest = text.splitlines()
        assert first.strip().strip('"') == place  # the shim's doing, before cmd sees it
        assert rest[0].strip() == f"TOOL={place}\\x"
        assert rest[1].strip() == f"path=/own:{jobs.place}"

    def test_quotes_survive_cmd(self, jobs: Jobs) -> None:
        tool = jobs.shims.image / "my tool"
        tool.write_text('#!/bin/sh\nfor word; do echo "<$word>"; done\n')
        tool.chmod(0o755)
        text = jobs.output("c1", windows_path(jobs.place / "my tool"), "two words", "last")
        assert text.splitlines() == ["<two words>", "<last>"]

    def test_missing_working_directory_is_created(self, jobs: Jobs) -> None:
        cwd = windows_path(jobs.place / "made" / "here")
        assert jobs.output("c1", "sh", "-c", "pwd", process={"cwd": cwd}).strip() == str(jobs.place / "made" / "here")
        assert (jobs.shims.image / "made" / "here").is_dir()
        assert (jobs.place / "made" / "here").is_dir(), "CreateProcess looks for it on the host"

    def test_working_directory_that_only_the_image_has_is_created_on_the_host(self, jobs: Jobs) -> None:
        (jobs.shims.image / "kube-proxy").mkdir()
        (jobs.shims.image / "kube-proxy" / "note").write_text("in the image\n")
        process = {"cwd": "$env:CONTAINER_SANDBOX_MOUNT_POINT/kube-proxy/"}
        assert jobs.output("c1", "sh", "-c", "cat note", process=process) == "in the image\n"
        assert (jobs.place / "kube-proxy").is_dir() and not (jobs.place / "kube-proxy" / "note").exists()

    def test_links_of_the_image_do_not_lead_the_shim_elsewhere(self, jobs: Jobs) -> None:
        """The shim creates directories and links with its own rights, whatever user the container has."""
        elsewhere = jobs.shims.directory / "elsewhere"
        elsewhere.mkdir()
        source = jobs.shims.directory / "source"
        source.mkdir()
        (source / "down").symlink_to(elsewhere)
        # A mount is also linked below the image's root, where the first component of the second one is a link.
        top = jobs.shims.directory.parts[1]
        (jobs.shims.image / top).rmdir()
        for name in (top, "work"):
            (jobs.shims.image / name).symlink_to(elsewhere)
        mounts = [
            {"source": str(source), "destination": windows_path(jobs.shims.directory / "bound")},
            {"source": str(source), "destination": windows_path(jobs.shims.directory / "data" / "cronjob")},
        ]
        for number, below in enumerate((jobs.place / "work", jobs.shims.directory / "bound" / "down")):
            process = {"cwd": windows_path(below / "made" / "by" / "root")}
            shim, _ = jobs.create(f"c{number}", "sh", "-c", "true", process=process, mounts=mounts)
            try:
                shim.start()
                shim.wait()
            except StatusError:
                pass  # the container has no such directory
            shim.delete()
        assert list(elsewhere.iterdir()) == []

    @pytest.mark.parametrize("root", ["C:\\Windows\\x", "c:/", "relative", "C:\\x\\..\\y"])
    def test_invalid_root_paths_are_refused(self, jobs: Jobs, root: str) -> None:
        shim = jobs.shims.start("c1", jobs.spec("sh", annotations={ROOT: root}))
        assert "rootfs-location" in refused(status.UNKNOWN, shim.create, rootfs=jobs.rootfs)


class TestMounts:
    def test_directory_and_file_mounts(self, jobs: Jobs) -> None:
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

    @pytest.mark.parametrize("below", ["", "a/b"])
    def test_working_directory_in_mount(self, jobs: Jobs, below: str) -> None:
        data, there = jobs.shims.directory / "data", jobs.shims.directory / "there"
        data.mkdir()
        mounts = [{"source": str(data), "destination": windows_path(there)}]
        process = {"cwd": windows_path(there / below)}
        assert jobs.output("c1", "sh", "-c", "pwd; touch file", mounts=mounts, process=process).strip() == str(
            there / below
        )
        assert (data / below / "file").exists() and not (there / below / "file").exists()

    def test_nested_bind_mount_does_not_propagate_to_host(self, jobs: Jobs) -> None:
        with shared_mount(jobs.shims.directory / "pods") as pods:
            outer, inner = pods / "empty", jobs.shims.directory / "precious"
            for directory in (outer, inner):
                directory.mkdir()
            (inner / "file").write_text("kept\n")
            there = jobs.shims.directory / "there"
            mounts = [
                {"source": str(outer), "destination": windows_path(there)},
                {"source": str(inner), "destination": windows_path(there / "b")},
            ]
            shim = jobs.run_detached("c1", mounts=mounts)
            assert mounts_below(pods) == []
            assert jobs.exec(shim, "e1", "cat", str(there / "b" / "file")) == "kept\n"
            shutil.rmtree(outer)
            assert (inner / "file").read_text() == "kept\n"

    @pytest.mark.parametrize(
        ("mount", "message"),
        [
            ({"source": "\\\\.\\pipe\\docker", "destination": "\\\\.\\pipe\\docker"}, "use it directly"),
            ({"source": "", "destination": "C:\\x"}, "no source"),
            ({"source": "/tmp", "destination": ""}, "no destination"),
            ({"source": "/tmp", "destination": "x"}, "absolute"),
            ({"source": "/no/such/place", "destination": "C:\\x"}, "/no/such/place"),
            ({"source": "sandbox:///tmp", "destination": "C:\\x"}, "utility VM"),
        ],
    )
    def test_invalid_mounts_are_refused(self, jobs: Jobs, mount: dict[str, Any], message: str) -> None:
        shim = jobs.shims.start("c1", jobs.spec("sh", mounts=[mount]))
        assert message in refused(status.UNKNOWN, shim.create, rootfs=jobs.rootfs)

    def test_update_adds_mount(self, jobs: Jobs) -> None:
        data, there = jobs.shims.directory / "data", jobs.shims.directory / "there"
        data.mkdir()
        (data / "late").write_text("late\n")
        shim = jobs.run_detached("c1")
        shim.update({"HostPath": str(data), "ContainerPath": windows_path(there)}, "ContainerMount")
        assert jobs.exec(shim, "e1", "sh", "-c", f"cat {there}/late") == "late\n"


@pytest.fixture
def old(start_emulator: Callable[..., Emulator]) -> Iterator[Jobs]:
    """On Server 2019, which has no bind filter."""
    yield from host_process_shims(start_emulator("--build", str(OLD_BUILD)))


class TestWithoutBindFilter:
    def test_root_directory_per_container_is_visible_to_host(self, old: Jobs) -> None:
        note = old.shims.directory / "note"
        note.write_text("a note\n")
        mounts = [{"source": str(note), "destination": "C:\\mounted\\note"}]
        shim = old.run_detached("c1", "cat tool.txt > copy; " + SLEEP_LOOP, mounts=mounts, process={"cwd": "C:\\work"})
        place = old.place / "c1"
        assert (place / "tool.txt").read_text() == "from the image\n"
        assert old.exec(shim, "e1", "sh", "-c", f"pwd; cat {place}/mounted/note").splitlines() == [str(place), "a note"]
        shim.kill(9)
        shim.wait()
        shim.delete()
        assert not place.exists()

    def test_root_directory_is_released_after_shim_crash(self, old: Jobs) -> None:
        shim = old.run_detached("c1")
        shim.kill_daemon()
        shim.delete_command()
        assert not (old.place / "c1").exists()
        assert not old.shims.mounts()

    @pytest.mark.parametrize(
        ("directory", "words"),
        [("", "failed to find executable 'no-such-program'"), ("C:\\..\\none", "start 'no-such-program' in c1")],
    )
    def test_error_of_a_start_names_the_program_without_its_arguments(
        self, old: Jobs, directory: str, words: str
    ) -> None:
        spec = old.spec("no-such-program", "--password=xyzzy", process={"cwd": directory})
        shim = old.shims.start("c1", spec, with_log=True)
        shim.create(rootfs=old.rootfs)
        message = refused(status.UNKNOWN, shim.start)
        assert words in message and "xyzzy" not in message
        shim.kill_daemon()
        shim.delete_command()
        shim.log.close()
        assert "failed" in shim.log.text and "xyzzy" not in shim.log.text
