"""Mounts as the processes of a container see them, with process isolation and in a utility VM."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from shim.ttrpc import status
from tests.support.eventually import eventually
from tests.support.fifo_reader import Reader
from tests.support.shared_mounts import mounts_below, shared_mount
from tests.support.shims import Shim, refused
from tests.support.vm_image import SLEEP, VmShims, fifo


class Isolation:
    """Containers on the host, or each in a VM of its own: both see the same."""

    def __init__(self, vms: VmShims, in_vm: bool) -> None:
        self.vms = vms
        self.in_vm = in_vm
        self._count = 0

    def create(self, mounts: list[dict[str, Any]], *args: str, **fields: Any) -> Shim:
        self._count += 1
        name = f"c{self._count}"
        if self.in_vm:
            shim = self.vms.start(name, *args, mounts=mounts)
            self.vms.create(shim, **fields)
        else:
            shim = self.vms.shims.start(name, {**self.vms.shims.spec(*args), "mounts": mounts})
            shim.create(rootfs=self.vms.shims.rootfs(), **fields)
        return shim

    def sees(self, mounts: list[dict[str, Any]], script: str) -> list[str]:
        """The output of a script, line by line, in a container with these mounts."""
        stdout = fifo(self.vms, f"out{self._count}")
        out = Reader(stdout)
        shim = self.create(mounts, "sh", "-c", script, stdout=stdout)
        shim.start()
        assert shim.wait().exit_status == 0
        shim.delete()
        return out.text().splitlines()


@pytest.fixture(params=["process", "vm"])
def isolation(vms: VmShims, request: pytest.FixtureRequest) -> Isolation:
    return Isolation(vms, request.param == "vm")


def test_kubelet_volume_layout_is_mounted(isolation: Isolation) -> None:
    """emptyDir, ConfigMap and Secret (files behind links to the current version), hosts, termination log."""
    pod = isolation.vms.directory / "pods" / "uid"
    empty, config, secret = (pod / "volumes" / name for name in ("empty", "config", "secret"))
    empty.mkdir(parents=True)
    for volume, name, text in ((config, "app.ini", "threads=4"), (secret, "token", "hush")):
        version = volume / "..2026_01_02"
        version.mkdir(parents=True)
        (version / name).write_text(text + "\n")
        (volume / "..data").symlink_to(version.name)
        (volume / name).symlink_to(f"..data/{name}")
    (pod / "etc-hosts").write_text("10.0.0.1 pod\n")
    log = pod / "containers" / "main" / "log"
    log.parent.mkdir(parents=True)
    log.touch()
    mounts = [
        {"destination": "C:\\cache", "source": str(empty), "options": ["rbind", "rprivate", "rw"]},
        {"destination": "C:\\config", "source": str(config), "options": ["rbind", "RO"]},
        {"destination": "C:\\secret\\token", "source": str(secret / "token"), "options": ["ro"]},
        {"destination": "C:\\Windows\\System32\\drivers\\etc\\hosts", "source": str(pod / "etc-hosts")},
        {"destination": "/dev/termination-log", "source": str(log)},
    ]
    script = """
        cat /config/app.ini /secret/token /windows/system32/drivers/etc/hosts
        echo cached > /cache/x && cat /cache/x
        (echo y > /config/new) 2>/dev/null || echo read-only directory
        (echo y > /secret/token) 2>/dev/null || echo read-only file
        echo it failed > /dev/termination-log
    """.replace("/windows/system32", "/Windows/System32")
    output = isolation.sees(mounts, script)
    assert output == ["threads=4", "hush", "10.0.0.1 pod", "cached", "read-only directory", "read-only file"]
    assert log.read_text() == "it failed\n" and (empty / "x").read_text() == "cached\n"
    assert not (config / "new").exists() and (secret / "token").read_text() == "hush\n"
    eventually(lambda: not isolation.vms.leaked(), "no leaked resource of the mounts")


def test_nested_bind_mount_does_not_propagate_to_host(isolation: Isolation) -> None:
    """An emptyDir at C:\\a and a hostPath at C:\\a\\b, on a host whose mounts are shared: the kubelet's removal of the
    emptyDir must not reach the files of the hostPath."""
    with shared_mount(isolation.vms.directory / "pods") as pods:
        outer, inner = pods / "empty", isolation.vms.directory / "precious"
        for directory in (outer, inner):
            directory.mkdir()
        (inner / "file").write_text("kept\n")
        mounts = [
            {"destination": "C:\\a", "source": str(outer), "options": ["rbind", "rprivate", "rw"]},
            {"destination": "C:\\a\\b", "source": str(inner), "options": ["rbind", "rprivate", "rw"]},
        ]
        shim = isolation.create(mounts, *SLEEP)
        shim.start()
        assert mounts_below(pods) == []
        shim.exec("look", isolation.vms.shims.process("sh", "-c", "cat /a/b/file && echo new > /a/b/new"))
        shim.start("look")
        assert shim.wait("look").exit_status == 0
        assert (inner / "new").read_text() == "new\n"
        shutil.rmtree(outer)
        assert (inner / "file").read_text() == "kept\n"
        shim.kill(9)
        shim.wait()
        shim.delete()


def test_named_pipe_mount(isolation: Isolation) -> None:
    pipes = isolation.vms.emulator.directory / "pipe"
    pipes.mkdir(exist_ok=True)
    os.mkfifo(pipes / "agent")
    descriptor = os.open(pipes / "agent", os.O_RDWR)
    os.write(descriptor, b"through the pipe\n")
    mount = {"destination": "\\\\.\\pipe\\inside", "source": "\\\\.\\pipe\\agent"}
    assert isolation.sees([mount], "read line < /pipe/inside; echo $line") == ["through the pipe"]
    os.close(descriptor)


def test_unix_socket_mount(isolation: Isolation) -> None:
    path = isolation.vms.directory / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        script = "test -S /run/agent.sock && echo a socket"
        assert isolation.sees([{"destination": "/run/agent.sock", "source": str(path)}], script) == ["a socket"]


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        ({"source": "", "destination": "C:\\x"}, "no source"),
        ({"source": "/tmp", "destination": ""}, "no destination"),
        ({"source": "/nowhere/at/all", "destination": "C:\\x"}, "create it or correct"),
        ({"source": "\\\\.\\pipe\\x", "destination": "C:\\x"}, "name a pipe there too"),
        ({"source": "/tmp", "destination": "data"}, "absolute path"),
    ],
)
def test_invalid_mounts_are_refused(isolation: Isolation, mount: dict[str, str], words: str) -> None:
    assert words in refused(status.UNKNOWN, isolation.create, [mount], *SLEEP)
    assert not isolation.vms.leaked()


@pytest.mark.parametrize("source", ["sandbox://x", "virtual-disk:///d.vhdx", "evd://a/b", "uvm://\\\\.\\pipe\\x"])
def test_vm_only_mounts_are_refused_on_host(vms: VmShims, source: str) -> None:
    mount = {"source": source, "destination": "C:\\x"}
    words = refused(status.UNKNOWN, Isolation(vms, in_vm=False).create, [mount], *SLEEP)
    assert "utility VM" in words


# Disks of a VM.


def disk(vms: VmShims, name: str, text: str) -> str:
    """A disk with one file on it."""
    path = vms.directory / f"{name}.vhdx"
    return make_disk(path, text)


def make_disk(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("disk")
    content = Path(f"{path}.d") / "upper"
    content.mkdir(parents=True)
    (content / "label").write_text(text + "\n")
    return str(path)


def test_disk_mounts_of_every_type_in_vm(vms: VmShims) -> None:
    base = vms.emulator.directory
    virtual, second = disk(vms, "virtual", "virtual"), disk(vms, "second", "by prefix")
    make_disk(base / "drive" / "physicaldrive3", "physical")
    make_disk(base / "drive" / "physicaldrive4", "physical by prefix")
    make_disk(base / "evd" / "space" / "vol42", "extensible")
    make_disk(base / "evd" / "space" / "vol43", "extensible by prefix")
    mounts = [
        {"type": "virtual-disk", "source": virtual, "destination": "C:\\d0", "options": ["ro"]},
        {"source": f"virtual-disk://{second}", "destination": "C:\\d1"},
        {"type": "physical-disk", "source": "\\\\.\\PHYSICALDRIVE3", "destination": "C:\\d2"},
        {"source": "physical-disk://\\\\.\\PHYSICALDRIVE4", "destination": "C:\\d3"},
        {"type": "extensible-virtual-disk", "source": "evd://space/vol42", "destination": "C:\\d4"},
        {"source": "evd://space/vol43", "destination": "C:\\d5"},
    ]
    script = "cat /d*/label; (echo y > /d0/new) 2>/dev/null || echo read-only; echo kept > /d1/new"
    output = Isolation(vms, in_vm=True).sees(mounts, script)
    kinds = ["virtual", "by prefix", "physical", "physical by prefix", "extensible", "extensible by prefix"]
    assert output == [*kinds, "read-only"]
    assert (Path(f"{second}.d") / "upper" / "new").read_text() == "kept\n"
    attached = [
        change["Settings"]
        for change in vms.documents("HcsModifyComputeSystem")
        if "Attachments" in change["ResourcePath"] and change["RequestType"] == "Add"
    ]
    assert attached[1:] == [
        {"Type": "VirtualDisk", "Path": virtual, "ReadOnly": True},
        {"Type": "VirtualDisk", "Path": second},
        {"Type": "PassThru", "Path": "\\\\.\\PHYSICALDRIVE3"},
        {"Type": "PassThru", "Path": "\\\\.\\PHYSICALDRIVE4"},
        {"Type": "ExtensibleVirtualDisk", "Path": "vol42", "ExtensibleVirtualDiskType": "space"},
        {"Type": "ExtensibleVirtualDisk", "Path": "vol43", "ExtensibleVirtualDiskType": "space"},
    ]


@pytest.mark.parametrize("source", ["virtual-disk:///no.vhdx", "physical-disk://\\\\.\\PHYSICALDRIVE9", "evd://a/no"])
def test_missing_disk_is_refused(vms: VmShims, source: str) -> None:
    mount = {"source": source, "destination": "C:\\x"}
    assert "not found" in refused(status.UNKNOWN, Isolation(vms, in_vm=True).create, [mount], *SLEEP)
    eventually(lambda: not vms.leaked(), "no leaked resource of the VM")


def luns(vms: VmShims) -> dict[str, str]:
    """The disks that are attached to the VM now."""
    (system,) = vms.emulator.control("status")["systems"]
    controllers = system["VirtualMachine"]["Devices"]["Scsi"].values()
    return {lun: entry["Path"] for controller in controllers for lun, entry in controller["Attachments"].items()}


def shares(vms: VmShims) -> dict[str, Any]:
    (system,) = vms.emulator.control("status")["systems"]
    return {share["Path"]: share for share in system["VirtualMachine"]["Devices"]["VirtualSmb"]["Shares"]}


def test_pod_containers_share_disk_and_scsi_slot_is_reused(vms: VmShims) -> None:
    path = disk(vms, "data", "shared")
    mount = {"type": "virtual-disk", "source": path, "destination": "C:\\data"}
    pod = vms.pod()
    members = []
    for name in ("w1", "w2"):
        shim = vms.workload(pod, name, *SLEEP, mounts=[mount])
        vms.create(shim)
        shim.start()
        members.append(shim)
    assert list(luns(vms).values()).count(path) == 1
    slot = next(lun for lun, attached in luns(vms).items() if attached == path)
    members[0].exec("write", vms.shims.process("sh", "-c", "echo from w1 > /data/note"))
    members[0].start("write")
    assert members[0].wait("write").exit_status == 0
    for number, shim in enumerate(members):
        shim.kill(9)
        shim.wait()
        shim.delete()
        # It stays for the other container, and is detached with the last.
        assert (path in luns(vms).values()) == (number == 0)
    other = disk(vms, "other", "other")
    shim = vms.workload(pod, "w3", *SLEEP, mounts=[{**mount, "source": other}])
    vms.create(shim)
    assert luns(vms)[slot] in (other, str(vms.scratch("w3") / "sandbox.vhdx"))
    assert (Path(f"{path}.d") / "upper" / "note").read_text() == "from w1\n"


def test_vsmb_shares_are_refcounted_and_removed(vms: VmShims) -> None:
    """Without direct mapping a share is removed with its last lease; files of one directory are in one share."""
    data = vms.directory / "data"
    data.mkdir()
    for text in ("a", "b"):
        (data / text).write_text(text)
    pod = vms.pod(annotations={"io.microsoft.virtualmachine.wcow.virtualSMB.nodirectmap": "true"})
    before = set(shares(vms))
    members = []
    for name in ("a", "b"):
        mounts = [{"source": str(data / name), "destination": f"C:\\{name}", "options": ["ro"]}]
        shim = vms.workload(pod, f"w-{name}", *SLEEP, mounts=mounts)
        vms.create(shim)
        shim.start()
        members.append(shim)
    assert shares(vms)[str(data)]["AllowedFiles"] == [str(data / "a"), str(data / "b")]
    for shim, left in zip(members, ([str(data / "b")], None), strict=True):
        shim.kill(9)
        shim.wait()
        shim.delete()
        share = shares(vms).get(str(data))
        assert (share and share["AllowedFiles"]) == left
    assert set(shares(vms)) == before
