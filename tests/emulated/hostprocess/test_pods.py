"""Pods of host process containers."""

from __future__ import annotations

import os

from shim.api.types import Mount
from shim.ttrpc import status
from tests.emulated.task.test_sandbox_service import Sandbox
from tests.support.emulator import is_alive
from tests.support.hostprocess import HOST_PROCESS, INHERIT_USER, ROOT, SLEEP_LOOP, Jobs, read_until
from tests.support.shims import Shim, refused


class TestPods:
    def annotations(self, role: str, **others: str) -> dict[str, str]:
        return {"io.kubernetes.cri.container-type": role, "io.kubernetes.cri.sandbox-id": "pod", **others}

    def pod(self, jobs: Jobs) -> Shim:
        own = self.annotations("sandbox", **{INHERIT_USER: "true"})
        shim = jobs.shims.start("pod", jobs.spec("pause.exe", annotations=own))
        shim.create(rootfs=jobs.rootfs)
        assert shim.start() == 1
        return shim

    def test_pod_of_host_process_containers(self, jobs: Jobs) -> None:
        """Containers inherit user and root path from the pod; each has files of its own."""
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
            spec = jobs.spec("sh", "-c", f"cat {jobs.place}/name; id -u; {SLEEP_LOOP}", user="", annotations=elsewhere)
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
        assert not any(map(is_alive, pids))

    def test_pod_created_by_sandbox_service(self, jobs: Jobs) -> None:
        pod = Sandbox.begin(jobs.shims)
        pod.create_sandbox(annotations={HOST_PROCESS: "true", INHERIT_USER: "true"})
        pod.start_sandbox()
        assert "host processes" in refused(status.UNKNOWN, pod.join, "w1")
        bundle = jobs.shims.bundle("w2", jobs.spec("sh", "-c", SLEEP_LOOP, user=""))
        pod.create(id="w2", bundle=str(bundle), rootfs=jobs.rootfs)
        pid = pod.start(id="w2")
        assert is_alive(pid) and pid in {process.pid for process in pod.pids(id="w2")}
        pod.stop_sandbox()
        pod.wait_sandbox()
        assert not is_alive(pid)
        pod.delete(id="w2")
        pod.shutdown_sandbox()
        pod.wait_exited()

    def test_other_containers_are_refused(self, jobs: Jobs) -> None:
        self.pod(jobs)
        spec = {**jobs.shims.spec("sh"), "annotations": self.annotations("container")}
        shim = jobs.shims.start("w1", spec)
        message = refused(status.UNKNOWN, shim.create, rootfs=jobs.rootfs)
        assert HOST_PROCESS in message

    def test_create_is_refused_if_host_process_containers_are_disabled(self, jobs: Jobs) -> None:
        own = {"microsoft.com/disable-hostprocess-container": "true"}
        shim = jobs.shims.start("c1", jobs.spec("sh", annotations=own))
        assert "forbid" in refused(status.UNKNOWN, shim.create, rootfs=jobs.rootfs)
