"""VM resources: VSMB shares, SCSI disks, pipes, mounts, devices. Order of requests, refcounts, and undo."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shim.hcs_bindings.errors import UNEXPECTED, HcsError
from shim.logs import Log, NullChannel
from shim.oci.errors import InvalidSpec
from shim.oci.spec import Spec
from shim.uvm import vpci
from shim.uvm.scsi import EXTENSIBLE_DISK, PHYSICAL_DISK, ScsiDisks
from shim.uvm.windows import boot_files, commands, devices, mounts
from shim.uvm.windows.boot_files import BootFiles
from shim.uvm.windows.guest import WindowsGuest
from shim.uvm.windows.settings import WindowsVmSettings
from shim.uvm.windows.vsmb import GUEST_ROOT, VsmbShares

READ_ONLY = {"ReadOnly": True, "ShareRead": True, "CacheIo": True, "PseudoOplocks": True}
CONTROLLER = "VirtualMachine/Devices/Scsi/df6d0690-79e5-55b6-a5ec-c1e2f77f580a/Attachments"


# What cmd does not take for part of a name.
SPECIAL = '&|<>^%(),;=!"`$\n\t*?:'


class Host:
    """Records requests to the host and to the guest in one list; fails those that contain `fails`."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.fails = ""

    def modify(self, request: dict[str, Any]) -> None:
        self._take((request["RequestType"], request["ResourcePath"], request.get("Settings")))

    def modify_vm(self, resource: str, request: str, settings: dict[str, Any]) -> None:
        self._take((f"guest {request}", resource, settings))

    def grant(self, path: str) -> None:
        self._take(("grant", path, None))

    def _take(self, request: tuple[str, str, Any]) -> None:
        self.requests.append(request)
        if self.fails and self.fails in f"{request[0]} {request[1]}":
            raise HcsError(UNEXPECTED, request[1])

    @property
    def kinds(self) -> list[str]:
        return [request[0] for request in self.requests]


def scsi_disks(host: Host) -> ScsiDisks:
    """Disks of a VM whose guest is a Windows one."""
    settings = WindowsVmSettings(Spec({}), 8, 20348, lambda warning: None)
    guest = WindowsGuest(settings, BootFiles("", "", ""), 0, Spec({}), Log(NullChannel()))
    guest.vm = SimpleNamespace(gcs=host)  # type: ignore[assignment]
    return ScsiDisks(host.modify, host.grant, guest)


class TestVsmbShares:
    def shares(self, host: Host, **options: bool) -> VsmbShares:
        return VsmbShares(host.modify, **{"no_direct_map": False, "read_only": False, **options})

    def test_directory_is_shared_once(self, tmp_path: Path) -> None:
        host = Host()
        shares = self.shares(host)
        first, second = (shares.add(str(tmp_path), read_only=True, backup=True) for _ in range(2))
        other = shares.add(str(tmp_path), read_only=False)
        assert first.guest_path == second.guest_path == GUEST_ROOT + "s1" and other.guest_path == GUEST_ROOT + "s2"
        options = {**READ_ONLY, "TakeBackupPrivilege": True}
        assert [request[2] for request in host.requests] == [
            {"Name": "s1", "Path": str(tmp_path), "Options": options},
            {"Name": "s2", "Path": str(tmp_path), "Options": {}},
        ]

    def test_directly_mapped_shares_stay_and_are_reused(self, tmp_path: Path) -> None:
        host = Host()
        shares = self.shares(host)
        shares.add(str(tmp_path), read_only=True).release()
        assert shares.add(str(tmp_path), read_only=True).guest_path == GUEST_ROOT + "s1"
        assert host.kinds == ["Add"]

    def test_other_shares_are_removed_with_last_lease(self, tmp_path: Path) -> None:
        host = Host()
        shares = self.shares(host, no_direct_map=True)
        held = [shares.add(str(tmp_path), read_only=True) for _ in range(2)]
        held[0].release()
        assert host.kinds == ["Add"]
        held[1].release()
        assert host.kinds == ["Add", "Remove"] and host.requests[1][2] == {"Name": "s1"}
        assert shares.add(str(tmp_path), read_only=True).guest_path == GUEST_ROOT + "s2"

    def test_files_of_one_directory_use_one_share(self, tmp_path: Path) -> None:
        for name in ("a.ini", "b.ini"):
            (tmp_path / name).touch()
        host = Host()
        shares = self.shares(host)
        first = shares.add(str(tmp_path / "a.ini"), read_only=True)
        second = shares.add(str(tmp_path / "b.ini"), read_only=True)
        again = shares.add(str(tmp_path / "a.ini"), read_only=True)
        assert first.guest_path == again.guest_path == GUEST_ROOT + "s1\\a.ini"
        assert second.guest_path == GUEST_ROOT + "s1\\b.ini"
        assert host.kinds == ["Add", "Update"]
        options = {**READ_ONLY, "RestrictFileAccess": True, "SingleFileMapping": True}
        files = [str(tmp_path / name) for name in ("a.ini", "b.ini")]
        assert host.requests[1][2] == {"Name": "s1", "Path": str(tmp_path), "AllowedFiles": files, "Options": options}
        second.release()
        assert host.kinds == ["Add", "Update"]  # it stays mapped while the VM runs
        first.release()
        again.release()
        assert host.kinds == ["Add", "Update"]

    def test_refused_share_is_not_kept(self, tmp_path: Path) -> None:
        (tmp_path / "a").touch()
        host = Host()
        shares = self.shares(host)
        for path in (tmp_path, tmp_path / "a"):
            host.fails = "Add"
            with pytest.raises(HcsError):
                shares.add(str(path), read_only=True)
            host.fails = ""
            shares.add(str(path), read_only=True)
        assert host.kinds == ["Add"] * 4

    def test_writable_shares_are_refused_if_disabled(self, tmp_path: Path) -> None:
        shares = self.shares(Host(), read_only=True)
        shares.add(str(tmp_path), read_only=True)
        with pytest.raises(InvalidSpec, match="disablewritable"):
            shares.add(str(tmp_path), read_only=False)


class TestScsiDisks:
    def test_attach_is_host_then_guest_and_detach_reverse(self) -> None:
        host = Host()
        disks = scsi_disks(host)
        first, second = disks.attach("a.vhdx"), disks.attach("a.vhdx")
        other = disks.attach("b.vhdx", read_only=True)
        assert first.guest_path == second.guest_path == "c:\\mounts\\scsi\\m0"
        assert other.guest_path == "c:\\mounts\\scsi\\m1"
        mapped = {"ContainerPath": "c:\\mounts\\scsi\\m0", "Lun": 1}
        assert host.requests[:3] == [
            ("grant", "a.vhdx", None),
            ("Add", f"{CONTROLLER}/1", {"Type": "VirtualDisk", "Path": "a.vhdx"}),
            ("guest Add", "MappedVirtualDisk", mapped),
        ]
        # Rights are granted for every use, as Microsoft's shim does.
        assert [request[:2] for request in host.requests[3:5]] == [("grant", "a.vhdx"), ("grant", "b.vhdx")]
        assert host.requests[5][2] == {"Type": "VirtualDisk", "Path": "b.vhdx", "ReadOnly": True}
        del host.requests[:]
        first.release()
        assert not host.requests
        second.release()
        assert host.requests == [
            ("guest Remove", "MappedVirtualDisk", mapped),
            ("Remove", f"{CONTROLLER}/1", None),
        ]
        assert disks.attach("c.vhdx").guest_path == "c:\\mounts\\scsi\\m0"  # the first that is free

    def test_physical_and_extensible_disks(self) -> None:
        host = Host()
        disks = scsi_disks(host)
        disks.attach("\\\\.\\PHYSICALDRIVE3", kind=PHYSICAL_DISK)
        disks.attach("vol42", kind=EXTENSIBLE_DISK, provider="space")
        assert host.kinds == ["grant", "Add", "guest Add", "Add", "guest Add"]
        assert host.requests[3][2] == {
            "Type": "ExtensibleVirtualDisk", "Path": "vol42", "ExtensibleVirtualDiskType": "space",
        }  # fmt: skip

    def test_disk_is_detached_if_guest_refuses_it(self) -> None:
        host = Host()
        disks = scsi_disks(host)
        host.fails = "guest Add"
        with pytest.raises(HcsError):
            disks.attach("a.vhdx")
        assert host.kinds == ["grant", "Add", "guest Add", "Remove"]
        host.fails = ""
        assert disks.attach("a.vhdx").guest_path == "c:\\mounts\\scsi\\m0"

    def test_disk_limit_is_63(self) -> None:
        host = Host()
        disks = scsi_disks(host)
        for number in range(63):
            disks.attach(f"{number}.vhdx")
        with pytest.raises(InvalidSpec, match="64"):
            disks.attach("one-more.vhdx")


def test_named_pipe_is_mapped_once_and_removed_with_its_last_lease() -> None:
    host = Host()
    shares = VsmbShares(host.modify, no_direct_map=False, read_only=False)
    pipe = "\\\\.\\pipe\\agent"
    first, second = shares.add_pipe(pipe), shares.add_pipe(pipe)
    assert first.guest_path == second.guest_path == GUEST_ROOT + "IPC$\\agent"
    first.release()
    assert host.requests == [("Add", f"VirtualMachine/Devices/MappedPipes/{pipe}", None)]
    second.release()
    assert host.kinds == ["Add", "Remove"]


class FakeVm:
    id = "pod@vm"

    def __init__(self) -> None:
        self.host = Host()
        self.shares = VsmbShares(self.host.modify, no_direct_map=False, read_only=False)
        self.disks = scsi_disks(self.host)
        self.devices = vpci.VpciDevices(self.host.modify)


def acquire(*given: dict[str, Any]) -> tuple[Any, FakeVm, list[Any]]:
    vm, releases = FakeVm(), list[Any]()
    mapped = mounts.MountPlan(Spec({"mounts": list(given)}), "pod").acquire(vm, releases)  # type: ignore[arg-type]
    return mapped, vm, releases


class TestMounts:
    def test_every_mount_type(self, tmp_path: Path) -> None:
        (tmp_path / "f.txt").touch()
        mapped, _, releases = acquire(
            {"type": "virtual-disk", "source": "C:\\d.vhdx", "destination": "C:\\disk"},
            {"source": str(tmp_path), "destination": "C:\\data", "options": ["RO"]},
            {"source": str(tmp_path / "f.txt"), "destination": "C:\\f.txt"},
            {"source": "\\\\.\\pipe\\docker", "destination": "\\\\.\\pipe\\inside"},
            {"source": "uvm://\\\\.\\pipe\\own", "destination": "\\\\.\\pipe\\there"},
            {"type": "extensible-virtual-disk", "source": "evd://space/vol", "destination": "E:"},
        )
        assert mapped.directories == [  # disks come last
            {"HostPath": GUEST_ROOT + "s1", "ContainerPath": "C:\\data", "ReadOnly": True},
            {"HostPath": GUEST_ROOT + "s2\\f.txt", "ContainerPath": "C:\\f.txt"},
            {"HostPath": "c:\\mounts\\scsi\\m0", "ContainerPath": "C:\\disk"},
            {"HostPath": "c:\\mounts\\scsi\\m1", "ContainerPath": "E:"},
        ]
        assert mapped.pipes == [
            {"ContainerPipeName": "inside", "HostPath": GUEST_ROOT + "IPC$\\docker"},
            {"ContainerPipeName": "there", "HostPath": "\\\\.\\pipe\\pod\\own"},
        ]
        assert len(releases) == 5
        for release in reversed(releases):
            release()

    @pytest.mark.parametrize(
        ("mount", "word"),
        [
            ({"source": "/", "destination": ""}, "destination"),
            ({"source": "/", "destination": "C:\\x", "type": "tmpfs"}, "tmpfs"),
            ({"source": "/nowhere/at/all", "destination": "C:\\x"}, "failed to resolve path for mount source"),
            ({"source": "/", "destination": "relative"}, "absolute"),
            ({"source": "\\\\.\\pipe\\x", "destination": "C:\\x"}, "pipe"),
            ({"source": "/", "destination": "\\\\.\\pipe\\x"}, "pipe"),
            ({"source": "uvm://C:\\x", "destination": "C:\\x"}, "sandbox://"),
            ({"source": "hugepages://2M/x", "destination": "C:\\x"}, "sandbox://"),
            ({"source": "sandbox://../x", "destination": "C:\\x"}, "plain path"),
            ({"source": "sandbox://", "destination": "C:\\x"}, "plain path"),
            *(({"source": f"sandbox://a{char}b", "destination": "C:\\x"}, "plain path") for char in SPECIAL),
            ({"source": "sandbox://x&set>C:\\pwned.txt&rem", "destination": "C:\\x"}, "plain path"),
            ({"source": "sandbox://a/ . /b", "destination": "C:\\x"}, "plain path"),
            ({"source": "evd://x", "destination": "C:\\x", "type": "extensible-virtual-disk"}, "evd://"),
            ({"source": "evd://x", "destination": "C:\\x"}, "evd://"),
            ({"source": "virtual-disk://", "destination": "C:\\x"}, "names no disk"),
            ({"source": "virtual-disk://x", "destination": "C:\\x", "type": "tmpfs"}, "tmpfs"),
            ({"source": "abc://a/b", "destination": "C:\\x", "type": "extensible-virtual-disk"}, "evd://"),
        ],
    )
    def test_invalid_mounts_are_refused(self, mount: dict[str, Any], word: str) -> None:
        with pytest.raises(InvalidSpec, match=word):
            mounts.MountPlan(Spec({"mounts": [mount]}), "pod")


    @pytest.mark.parametrize("path", ["shared", "a b/c-d_e.f", "kubernetes.io~empty-dir/x", "Verzeichnis/größe"])
    def test_sandbox_mount_of_plain_path_is_accepted(self, path: str) -> None:
        mounts.MountPlan(Spec({"mounts": [{"source": f"sandbox://{path}", "destination": "C:\\x"}]}), "pod")


class TestDevices:
    GPU = "PCIP\\VEN_10DE&DEV_1EB8\\6&1"

    def spec(self, *devices: tuple[str, str]) -> Spec:
        return Spec({"windows": {"devices": [{"idType": kind, "id": name} for kind, name in devices]}})

    def tool(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / devices.TOOL).touch()
        monkeypatch.setattr("sys.argv", [str(tmp_path / "containerd-shim-runhcs-v1")])

    def test_devices_from_spec(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        spec = self.spec(("gpu", self.GPU), ("vpci", "PCIP\\X\\3"), ("vpci-instance-id", "PCIP\\Y"))
        with pytest.raises(InvalidSpec, match="device-util"):
            devices.from_spec(spec)
        self.tool(tmp_path, monkeypatch)
        assert devices.from_spec(spec) == [(self.GPU, 0), ("PCIP\\X", 3), ("PCIP\\Y", 0)]

    @pytest.mark.parametrize("device", [("class", "x"), ("vpci-location-path", "x"), ("", "x"), ("gpu", "")])
    def test_invalid_devices_are_refused(self, device: tuple[str, str]) -> None:
        with pytest.raises(InvalidSpec, match="device"):
            devices.from_spec(self.spec(device))

    def test_device_is_assigned_once_and_removed_with_last_use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vpci, "windows_build", lambda: 26100)
        host = Host()
        given = vpci.VpciDevices(host.modify)
        place = given.add((self.GPU, 2))
        assert given.add((self.GPU, 2)) == place
        assert given.add((self.GPU, 0)) != place
        function = {"DeviceInstancePath": self.GPU, "VirtualFunction": 2}
        settings = {"Functions": [function], "PropagateNumaAffinity": True}
        assert host.requests[0] == ("Add", f"VirtualMachine/Devices/VirtualPci/{place}", settings)
        given.remove((self.GPU, 2))
        assert host.kinds == ["Add", "Add"]
        given.remove((self.GPU, 2))
        assert host.requests[-1] == ("Remove", f"VirtualMachine/Devices/VirtualPci/{place}", None)

    def test_location_paths_are_read_from_guest(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tool(tmp_path, monkeypatch)
        monkeypatch.setattr(vpci, "windows_build", lambda: 20348)
        lines: list[str] = []

        def answer(vm: object, line: str) -> tuple[int, str]:
            lines.append(line)
            return 0, "PCIROOT(0), PCIROOT(1)\r\n"

        monkeypatch.setattr(commands, "run_with_output", answer)
        vm, releases = FakeVm(), list[Any]()
        assert devices.assign(vm, [(self.GPU, 0)], releases) == [  # type: ignore[arg-type]
            {"Type": "DeviceInstance", "LocationPath": "PCIROOT(0)"},
            {"Type": "DeviceInstance", "LocationPath": "PCIROOT(1)"},
        ]
        place = vm.host.requests[-1][1].rpartition("/")[2]
        bus = f"VMBUS\\{{44c4f61d-4444-4400-9d52-802e27ede19f}}\\{{{place}}}"
        assert lines == [f"{GUEST_ROOT}s1\\device-util.exe children --parentID={bus} --property=location"]
        for release in reversed(releases):
            release()
        assert vm.host.kinds == ["Add", "Add", "Remove"]  # the share is mapped directly, and stays

        monkeypatch.setattr(commands, "run_with_output", lambda vm, line: (0, ""))
        with pytest.raises(HcsError, match="driver"):
            devices.assign(vm, [(self.GPU, 0)], releases)  # type: ignore[arg-type]


class TestBootFiles:
    def image(self, directory: Path, *names: str) -> list[str]:
        for name in names:
            (directory / name / "UtilityVM" / "Files").mkdir(parents=True)
            (directory / name / "UtilityVM" / "SystemTemplate.vhdx").write_text(name)
        return [str(directory / name) for name in ("3", "2", "1")]

    def test_boot_files_of_topmost_layer(self, tmp_path: Path) -> None:
        found = boot_files.find(self.image(tmp_path, "1", "2"), str(tmp_path / "scratch"))
        assert found.files == str(tmp_path / "2" / "UtilityVM" / "Files")
        found.prepare()
        scratch = tmp_path / "scratch" / "vm" / "sandbox.vhdx"
        assert scratch.read_text() == "2" and found.scratch == str(scratch)
        assert [path.name for path in scratch.parent.iterdir()] == ["sandbox.vhdx"]
        scratch.write_text("used")
        found.prepare()
        assert scratch.read_text() == "used"

    def test_image_without_utility_vm_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidSpec, match="UtilityVM"):
            boot_files.find(self.image(tmp_path), str(tmp_path))

    def test_incomplete_utility_vm_is_refused(self, tmp_path: Path) -> None:
        parents = self.image(tmp_path, "1")
        (tmp_path / "1" / "UtilityVM" / "SystemTemplate.vhdx").unlink()
        with pytest.raises(InvalidSpec, match="damaged"):
            boot_files.find(parents, str(tmp_path))
