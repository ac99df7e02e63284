"""The node on Windows: pipes for stdio, access control lists and signatures of files, layers that containerd has."""

from __future__ import annotations

import _winapi
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import win32security

from runhcs.installation import NAME
from runhcs.selftest.client_pipe import ClientPipe
from runhcs.selftest.node import Node, NodeError
from runhcs.shim_driver import remove_tree
from shim.platform.windows.pipe import PipeStream, dial

if TYPE_CHECKING:
    from _win32typing import PySID

# NT VIRTUAL MACHINE\\Virtual Machines.
VM_GROUP = "S-1-5-83-0"

# SYSTEM, Administrators, TrustedInstaller.
TRUSTED = (
    "S-1-5-18", "S-1-5-32-544", "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"
)  # fmt: skip
# To write, append, delete, or change attributes, the list or the owner; GENERIC_WRITE and GENERIC_ALL.
WRITE_RIGHTS = 0x500D0156
FILE_TYPE_PIPE = 3
READ_SECONDS = 5.0
SNAPSHOTS = r"C:\ProgramData\containerd\root\io.containerd.snapshotter.v1.windows\snapshots"
ACCEPT_SECONDS = 60.0
SIGNATURE_SECONDS = 60.0
_SIGNATURES = (
    "$input | ForEach-Object { [pscustomobject]@{ p = $_; s = [string](Get-AuthenticodeSignature -LiteralPath $_)"
    ".Status } } | ConvertTo-Json -Compress"
)


def open_windows_node(args: argparse.Namespace, prefix: str) -> Node:
    program = args.shim or os.path.join(os.path.dirname(os.path.abspath(sys.executable)), f"{NAME}.exe")
    if not os.path.exists(program):
        raise NodeError(f"{program} is missing: unpack the whole distribution, or use --shim")
    layers = args.layers or _unpacked_layers()
    missing = [path for path in layers if not os.path.isdir(path)]
    if missing:
        raise NodeError(f"no layer is in {', '.join(missing)}: --layers DIR names a snapshot of containerd")
    directory = Path(tempfile.mkdtemp(prefix=f"runhcs-{prefix}-"))
    no_layers = "" if layers else f"containerd has unpacked no base layer of a Windows image in {SNAPSHOTS}"

    def close() -> None:
        if not remove_tree(directory):
            raise NodeError(f"{directory} cannot be removed: a layer may still be mounted")

    env = {**os.environ, "RUNHCS_STANDBY": "0"}
    return Node(directory, program, env, layers, no_layers, close=close)


def _unpacked_layers() -> list[str]:
    """A base layer that containerd has unpacked: it has programs and no parents."""
    try:
        names = sorted(os.listdir(SNAPSHOTS), key=lambda name: (len(name), name))
    except OSError:
        return []
    for name in names:
        path = os.path.join(SNAPSHOTS, name)
        if os.path.exists(rf"{path}\Files\Windows\System32\cmd.exe") and not _parents(path):
            return [path]
    return []


def _parents(layer: str) -> list[str]:
    try:
        with open(os.path.join(layer, "layerchain.json"), encoding="utf-8") as file:
            return list(json.load(file) or [])
    except (OSError, ValueError):
        return []


# Stdio.


class _Pipe(ClientPipe):
    def __init__(self, directory: Path, name: str) -> None:
        del directory
        super().__init__(name)


class OutputPipe(_Pipe):
    """The reading end of stdout or stderr."""

    def read(self, is_closed: Event) -> bytes:
        """The next data; b"" at the end, and after `stop`."""
        try:
            return b"" if is_closed.is_set() else self.accept().recv(1 << 16)
        except OSError:
            if is_closed.is_set():
                return b""
            raise


class InputPipe(_Pipe):
    """The writing end of stdin."""

    def write(self, data: bytes) -> None:
        stream = self.accept()
        for start in range(0, len(data), 1 << 15):
            stream.sendall(data[start : start + (1 << 15)])


# Access control and signatures.


def pipe_descriptor(address: str) -> str:
    """The access control list of a pipe, in SDDL."""
    handle = dial(address, ACCEPT_SECONDS)
    stream = PipeStream(handle)
    try:
        kind, information = win32security.SE_KERNEL_OBJECT, win32security.DACL_SECURITY_INFORMATION
        descriptor = win32security.GetSecurityInfo(handle, kind, information)
        convert = win32security.ConvertSecurityDescriptorToStringSecurityDescriptor
        return str(convert(descriptor, win32security.SDDL_REVISION_1, information))
    finally:
        stream.release()


def unprotected(paths: list[Path]) -> list[Path]:
    """The files that accounts other than SYSTEM, administrators and the installer of Windows may write or own."""
    trusted = [win32security.ConvertStringSidToSid(text) for text in TRUSTED]
    return [path for path in paths if not _is_protected(path, trusted)]


def _is_protected(path: Path, trusted: list[PySID]) -> bool:
    information = win32security.OWNER_SECURITY_INFORMATION | win32security.DACL_SECURITY_INFORMATION
    descriptor = win32security.GetNamedSecurityInfo(str(path), win32security.SE_FILE_OBJECT, information)
    dacl = descriptor.GetSecurityDescriptorDacl()
    if dacl is None or descriptor.GetSecurityDescriptorOwner() not in trusted:
        return False
    entries = [dacl.GetAce(at) for at in range(dacl.GetAceCount())]
    return not any(
        entry[0][0] == win32security.ACCESS_ALLOWED_ACE_TYPE and entry[1] & WRITE_RIGHTS and entry[-1] not in trusted
        for entry in entries
    )


def vm_group_entries(path: Path) -> list[tuple[int, int]]:
    """The entries of the VM group in a directory's access control list: inheritance flags and rights."""
    group = win32security.ConvertStringSidToSid(VM_GROUP)
    kind, information = win32security.SE_FILE_OBJECT, win32security.DACL_SECURITY_INFORMATION
    dacl = win32security.GetNamedSecurityInfo(str(path), kind, information).GetSecurityDescriptorDacl()
    entries = [dacl.GetAce(at) for at in range(dacl.GetAceCount())] if dacl is not None else []
    return [
        (entry[0][1], entry[1])
        for entry in entries
        if entry[0][0] == win32security.ACCESS_ALLOWED_ACE_TYPE and entry[-1] == group
    ]


def handle_kind(handle: int, *, reads: bool) -> str:
    """`overlapped pipe` is what the pump needs: on a synchronous handle a read blocks until there is data."""
    if _winapi.GetFileType(handle) != FILE_TYPE_PIPE:
        return f"a handle of type {_winapi.GetFileType(handle)}"
    if not reads:
        return "pipe"
    pending: list[_winapi.Overlapped] = []

    def read() -> None:
        pending.append(_winapi.ReadFile(handle, 1, overlapped=True)[0])

    thread = Thread(target=read, daemon=True)
    thread.start()
    thread.join(READ_SECONDS)
    if not pending:
        return "synchronous pipe"
    pending[0].cancel()
    pending[0].GetOverlappedResult(True)
    return "overlapped pipe"


def signatures(paths: list[Path]) -> dict[str, str]:
    """The Authenticode status of each file (`Valid`, `NotSigned`, `HashMismatch` …), as PowerShell reports it."""
    try:
        done = subprocess.run(
            ["powershell.exe", "-NoProfile", "-NonInteractive", "-Command", _SIGNATURES],
            input="\n".join(map(str, paths)), capture_output=True, text=True, timeout=SIGNATURE_SECONDS, check=False,
        )  # fmt: skip
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {str(path): "unknown" for path in paths}
    entries = found if isinstance(found, list) else [found]
    return {str(entry["p"]): str(entry["s"]) for entry in entries}


def is_system() -> bool:
    return bool(win32security.CheckTokenMembership(None, win32security.CreateWellKnownSid(  # type: ignore[arg-type]
        win32security.WinLocalSystemSid, None)))  # fmt: skip
