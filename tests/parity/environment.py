"""The prerequisites of the recorded cases: files, pipes and networks, below one directory.

`C:\\layers\\2` of a recording is `<directory>/c/layers/2` here. `CaseEnvironment.local` and `CaseEnvironment.spec`
translate paths of mounts and specs, `CaseEnvironment.recorded` translates results back.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.parity.cases import Case
from tests.support.emulator import Emulator
from tests.support.image import make_image
from tests.support.lcow_image import make_boot_files, make_layer, make_root, make_scratch

TOOL = Path(__file__).parent / "tool.c"
REPOSITORY = Path(__file__).resolve().parents[2]
KERNELS = ("vmlinux", "kernel", "initrd.img")
# Options of rootfs mounts with paths of the host.
OPTIONS_WITH_PATHS = ("parentLayerPaths", "parent-partitioned-layers", "scratch")
# The id of a namespace that must not exist.
MISSING_ID = "99999999-bbbb-cccc-dddd-eeeeeeeeeeee"
DRIVE = re.compile(r"[Cc]:[\\/]([^\"'\]]*)")
# The network of the recordings: namespaces with one endpoint each, and endpoints without a namespace, created before
# the first case.
NETWORK = """
import json
import sys
from shim.hcs_bindings import network

version = network.SCHEMA_VERSION
created = network.create_network({"Name": "n", "Type": "NAT", "SchemaVersion": version})
settings = {
    "Name": "ep", "HostComputeNetwork": created["ID"], "MacAddress": "00-15-5D-00-00-01", "Dns": {},
    "IpConfigurations": [{"IpAddress": "10.0.0.2", "PrefixLength": 24}],
    "Routes": [{"NextHop": "10.0.0.1", "DestinationPrefix": "0.0.0.0/0"}], "SchemaVersion": version,
}
namespaces, endpoints = json.loads(sys.argv[1])
for id in endpoints:
    network.create_endpoint(created["ID"], settings, id)
for id in namespaces:
    endpoint = network.create_endpoint(created["ID"], settings)
    network.create_namespace({"Type": "HostDefault", "SchemaVersion": version}, id)
    network.add_namespace_endpoint(id, endpoint["ID"])
"""


def create_networks(specs: Iterable[dict[str, Any]], env: dict[str, str], created: set[str] | None = None) -> None:
    """Create the namespaces and endpoints of the specs, except for those in `created`, and add them to it."""
    created = set() if created is None else created
    requested: tuple[list[str], list[str]] = ([], [])
    for spec in specs:
        network = (spec.get("windows") or {}).get("network") or {}
        named = ([network["networkNamespace"]] if network.get("networkNamespace") else [], network.get("endpointList"))
        for ids, found in zip(requested, named, strict=True):
            ids += [one for one in found or () if one not in (MISSING_ID, *created)]
            created |= set(ids)
    if any(requested):
        command = [sys.executable, "-c", NETWORK, json.dumps(requested)]
        subprocess.run(command, env=env, cwd=REPOSITORY, check=True)


def create_pipe(directory: Path) -> None:
    """Create the named pipe that cases mount, in the directory of an emulator."""
    (directory / "pipe").mkdir(exist_ok=True)
    os.mkfifo(directory / "pipe" / "docker_engine")


#: In C:\hostdir, the source of mounts.
HOST_FILES = ("file.txt", "other.txt", "disk.vhdx")


@functools.cache
def tool() -> bytes:
    """The program that cases run. Hundreds of cases have it, so it is compiled once."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "tool"
        subprocess.run(["gcc", "-static", "-O1", "-s", "-o", program, TOOL], check=True)
        return program.read_bytes()


def create_tool(directory: Path) -> None:
    program = directory / "tool.exe"
    program.write_bytes(tool())
    program.chmod(0o755)


def create_files(root: Path) -> None:
    """Create the files of drive C: of the cases. Programs are those of this machine, which the emulator's containers
    run."""
    base, top = root / "layers" / "1", root / "layers" / "2"
    make_image(base / "Files")
    for name in ("windows", "Windows/System32"):
        (base / "Files" / name).mkdir(parents=True, exist_ok=True)
    create_tool(base / "Files")
    (top / "Files").mkdir(parents=True)
    (base / "UtilityVM" / "Files").mkdir(parents=True)
    (base / "UtilityVM" / "SystemTemplate.vhdx").write_bytes(b"template")
    create_host_files(root)


def create_host_files(root: Path) -> None:
    (root / "hostdir").mkdir(exist_ok=True)
    for name in HOST_FILES:
        (root / "hostdir" / name).write_text('{"Size": 1073741824}' if name.endswith(".vhdx") else "file\n")


def create_linux_files(
    root: Path, boot_files: Path, guest: str, cases: Iterable[tuple[dict[str, Any], list[Any]]]
) -> None:
    """Create what Linux containers need in addition. `boot_files` is the default directory of boot files, `guest` the
    emulator's Linux guest; `cases` have a spec and rootfs mounts each."""
    with tempfile.TemporaryDirectory() as directory:
        base = make_root(Path(directory) / "base")
        create_tool(base)
        make_layer(root / "layers" / "1", base)
        top = Path(directory) / "top"
        (top / "etc").mkdir(parents=True)
        (top / "etc" / "top").write_text("top\n")
        make_layer(root / "layers" / "2", top)
    make_scratch(Path(root / "hostdir" / "linux")).rename(root / "hostdir" / "linux.vhdx")
    make_boot_files(boot_files, KERNELS, guest)
    make_boot_files(root / "boot" / "vhd", (*KERNELS, "rootfs.vhd"), guest)
    make_boot_files(root / "boot" / "emulated", KERNELS, "emulated")
    make_boot_files(root / "boot" / "emulated-vhd", (*KERNELS, "rootfs.vhd"), "emulated")
    make_boot_files(root / "boot" / "initrd-only", ("initrd.img",), guest)
    for spec, rootfs in cases:
        create_scratch(root, spec, rootfs)


def create_scratch(root: Path, spec: dict[str, Any], rootfs: list[Any]) -> None:
    """The scratch disk of a Linux container, where its case does not test that it is missing."""
    paths = [f"{mount.get('source')}\\sandbox.vhdx" for mount in rootfs if mount.get("source")]
    paths += [option.removeprefix("scratch=") for mount in rootfs for option in mount.get("options") or ()]
    paths += [f"{folder}\\sandbox.vhdx" for folder in (spec.get("windows") or {}).get("layerFolders") or ()]
    for path in paths:
        match = DRIVE.fullmatch(path)
        if match is None or not match[1].startswith("snapshots") or "none" in match[1]:
            continue
        disk = root / match[1].replace("\\", "/")
        if not disk.exists():
            make_scratch(disk.parent)


class CaseEnvironment:
    """The files, pipes and networks that the cases require, on one emulator."""

    def __init__(self, emulator: Emulator, directory: Path, cases: list[Case]) -> None:
        self.root = directory / "c"
        create_networks([case.spec for case in cases], emulator.env)
        create_pipe(emulator.directory)
        create_files(self.root)
        linux = [(case.spec, case.run.get("rootfs") or []) for case in cases if case.is_linux]
        if linux:
            create_linux_files(self.root, emulator.directory / "LinuxBootFiles", "emulated", linux)

    def local(self, value: Any) -> Any:
        """Translate paths on drive C: of the host, in any document, to local ones."""
        if isinstance(value, dict):
            return {key: self.local(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.local(item) for item in value]
        if not isinstance(value, str):
            return value
        key, equals, rest = value.partition("=")
        if equals and key in OPTIONS_WITH_PATHS:
            return f"{key}={json.dumps(self.local(json.loads(rest))) if rest.startswith('[') else self.local(rest)}"
        match = DRIVE.fullmatch(value)
        return str(self.root / match[1].replace("\\", "/")) if match else value

    def spec(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Translate only the paths of host files: sources of mounts, layer folders, directories of the VM."""
        spec = json.loads(json.dumps(spec))
        for mount in spec.get("mounts") or []:
            mount["source"] = self.local(mount.get("source", ""))
        windows = spec.get("windows") or {}
        if windows.get("layerFolders"):
            windows["layerFolders"] = self.local(windows["layerFolders"])
        annotations = spec.get("annotations") or {}
        for name in ("bootfilesrootpath", "lcow.bootfilesrootpath", "dump-directory-path", "kerneldrivers"):
            key = f"io.microsoft.virtualmachine.{name}"
            if key in annotations:
                annotations[key] = self.local(annotations[key])
        return spec  # type: ignore[no-any-return]

    def recorded(self, value: Any) -> Any:
        """Translate local paths back to those of the recording."""
        if isinstance(value, dict):
            return {self.recorded(key): self.recorded(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.recorded(item) for item in value]
        if not isinstance(value, str) or str(self.root) not in value:
            return value
        return re.sub(
            re.escape(str(self.root)) + r"(/[^\s\"\]]*)?",
            lambda match: "C:" + (match[1] or "/").replace("/", "\\"),
            value,
        )
