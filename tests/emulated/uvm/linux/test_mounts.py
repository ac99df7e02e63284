"""Mounts of Linux containers in a VM: of the host, of the pod and of the guest."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from shim.ttrpc import status
from tests.support.lcow_image import make_scratch
from tests.support.linux_shims import SLEEP, LinuxShims
from tests.support.shims import refused


@pytest.fixture
def data(lcow: LinuxShims) -> Path:
    directory = lcow.directory / "data"
    directory.mkdir()
    (directory / "file").write_text("of the host\n")
    (directory / "other").write_text("not to be seen\n")
    return directory


def bind(source: Path | str, destination: str, *options: str) -> dict[str, object]:
    return {"type": "bind", "source": str(source), "destination": destination, "options": ["rbind", *options]}


def test_directory_of_the_host_is_writable(lcow: LinuxShims, data: Path) -> None:
    script = "cat /data/file; echo from the guest > /data/new"
    assert lcow.output_of("c1", "sh", "-c", script, mounts=[bind(data, "/data", "rw")]) == "of the host\n"
    assert (data / "new").read_text() == "from the guest\n"
    assert not lcow.leaked()


def test_directory_mounted_read_only_cannot_be_written(lcow: LinuxShims, data: Path) -> None:
    script = "cat /data/file; touch /data/new 2>&1 || true"
    found = lcow.output_of("c1", "sh", "-c", script, mounts=[bind(data, "/data", "ro")])
    assert found.startswith("of the host\n") and "Read-only file system" in found
    assert not (data / "new").exists()


def test_recursive_read_only_mount_holds_for_mounts_of_the_host(lcow: LinuxShims, tmp_path: Path) -> None:
    """The only entry of the shared directory is a mount, which is not a share of single files."""
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(inner)], check=True, timeout=60)
    try:
        (inner / "file").write_text("of the inner mount\n")
        script = "cat /data/inner/file; touch /data/inner/new 2>&1 || true"
        mounts = [bind(tmp_path / "outer", "/data", "rprivate", "rro")]
        found = lcow.output_of("c1", "sh", "-c", script, mounts=mounts)
    finally:
        subprocess.run(["umount", str(inner)], check=True, timeout=60)
    assert found.startswith("of the inner mount\n") and "Read-only file system" in found


def test_single_file_is_mounted_alone(lcow: LinuxShims, data: Path) -> None:
    mounts = [bind(data / "file", "/etc/file", "ro"), bind(data / "other", "/etc/other", "rw")]
    script = "cat /etc/file; echo changed > /etc/other"
    assert lcow.output_of("c1", "sh", "-c", script, mounts=mounts) == "of the host\n"
    assert (data / "other").read_text() == "changed\n"


def test_mounts_of_a_workload_are_removed_from_the_vm(lcow: LinuxShims, data: Path) -> None:
    pod = lcow.pod()
    mounts = [bind(data, "/data"), bind(data / "file", "/etc/file"), bind(data / "other", "/etc/other", "ro")]
    for number in range(3):
        assert lcow.output_in(pod, f"c{number}", "cat", "/etc/file", mounts=mounts) == "of the host\n"
    assert lcow.failures() == []
    assert {path.name for path in data.iterdir()} == {"file", "other"}
    attached = [entry["arguments"]["configuration"] for entry in lcow.emulator.journal("HcsModifyComputeSystem")]
    added = [request["ResourcePath"] for request in attached if request["RequestType"] == "Add"]
    removed = [request["ResourcePath"] for request in attached if request["RequestType"] == "Remove"]
    assert len(removed) == len(added) - 2, "all but the layer and the scratch disk of the sandbox"
    pod.kill(9)
    pod.wait()
    pod.delete()


def test_writable_share_is_refused_where_the_annotation_forbids_it(lcow: LinuxShims, data: Path) -> None:
    forbidden = {"io.microsoft.virtualmachine.fileshares.disablewritable": "true"}
    shim = lcow.start("c1", "true", mounts=[bind(data, "/data")], annotations=forbidden)
    assert "adding writable shares is denied" in refused(status.UNKNOWN, lcow.create, shim)
    assert not lcow.leaked()


def test_disk_is_mounted(lcow: LinuxShims) -> None:
    disk = make_scratch(lcow.directory / "disk", size=16 << 20)
    mount = {"type": "virtual-disk", "source": str(disk), "destination": "/disk", "options": ["rbind", "rw"]}
    assert lcow.output_of("c1", "sh", "-c", "echo kept > /disk/file", mounts=[mount]) == ""
    assert lcow.output_of("c2", "cat", "/disk/file", mounts=[mount]) == "kept\n"


def test_block_device_of_a_workload_is_a_device_node(lcow: LinuxShims) -> None:
    pod = lcow.pod()
    disk = make_scratch(lcow.directory / "disk", size=16 << 20)
    mount = {"type": "virtual-disk", "source": str(disk), "destination": "blockdev:///dev/data", "options": ["rbind"]}
    script = "test -b /dev/data && dd if=/dev/data bs=1024 count=1 2>/dev/null | wc -c"
    assert lcow.output_in(pod, "c1", "sh", "-c", script, mounts=[mount]) == "1024\n"
    pod.kill(9)
    pod.wait()
    pod.delete()


@pytest.mark.parametrize("scheme", ["sandbox://", "sandbox-tmp://"])
def test_directory_of_the_sandbox_is_shared_by_its_workloads(lcow: LinuxShims, scheme: str) -> None:
    pod = lcow.pod()
    mounts = [bind(f"{scheme}/shared", "/shared")]
    writer = lcow.run_in(pod, "c1", "sh", "-c", "echo hello > /shared/file; sleep 600", members={"mounts": mounts})
    script = "while ! test -s /shared/file; do sleep 0.05; done; cat /shared/file"
    assert lcow.output_in(pod, "c2", "sh", "-c", script, mounts=mounts) == "hello\n"
    writer.kill(9)
    writer.wait()
    writer.delete()
    pod.kill(9)
    pod.wait()
    pod.delete()
    assert not lcow.leaked()


def test_escape_from_the_sandbox_directory_is_refused(lcow: LinuxShims) -> None:
    pod = lcow.pod()
    workload = lcow.workload(pod, "c1", "true", mounts=[bind("sandbox://../../../../etc", "/x")])
    refused(status.UNKNOWN, lcow.create, workload)
    pod.kill(9)
    pod.wait()
    pod.delete()


def test_huge_pages_of_another_size_are_refused(lcow: LinuxShims) -> None:
    shim = lcow.start("c1", "true", mounts=[bind("hugepages://1G/x", "/x")])
    assert "only 2M (megabytes) pagesize is supported, got 1G" in refused(status.UNKNOWN, lcow.create, shim)


def test_shared_memory_has_the_size_of_the_spec_or_the_annotation(lcow: LinuxShims) -> None:
    script = "df -k /dev/shm | { read head; read fs size rest; echo $size; }"
    pod = lcow.pod()
    assert lcow.output_in(pod, "c1", "sh", "-c", script) == "65536\n"
    sized = {"io.microsoft.lcow.shm.size-kb": "2048"}
    assert lcow.output_in(pod, "c2", "sh", "-c", script, annotations=sized) == "2048\n"
    pod.kill(9)
    pod.wait()
    pod.delete()


def test_root_directory_of_the_host_is_the_root_file_system(lcow: LinuxShims) -> None:
    """What a snapshotter of Linux gives: mounts at the bundle's rootfs."""
    from shim.api.types import Mount
    from tests.support.lcow_image import make_root

    image = make_root(lcow.directory / "image")
    shim = lcow.start("c1", "sh", "-c", "echo kept > /file", root={"path": "rootfs", "readonly": False})
    lcow.create(shim, rootfs=[Mount(type="bind", source=str(image), options=["rbind", "rw"])])
    shim.start()
    assert shim.wait().exit_status == 0
    shim.delete()
    assert (image / "file").read_text() == "kept\n"
    assert not lcow.leaked()


def test_files_of_the_network_are_those_of_the_guest(lcow: LinuxShims) -> None:
    pod = lcow.pod(hostname="the-pod")
    workload = lcow.run_in(pod, "c1", *SLEEP)
    assert lcow.exec(workload, "e1", "cat", "/etc/hostname")[1].strip() == "the-pod"
    assert "the-pod" in lcow.exec(workload, "e2", "cat", "/etc/hosts")[1]
    pod.kill(9)
    pod.wait()
    pod.delete()
