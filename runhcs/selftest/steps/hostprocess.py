"""Host process containers: accounts, working directories, mounts, a terminal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from runhcs.selftest.node import PREFIX
from runhcs.selftest.runner import Context, Step, StepFailed, StepSkipped
from runhcs.selftest.shim_driver import ShimDriver
from shim.platform import host
from shim.ttrpc.status import StatusError

HOST_PROCESS = "microsoft.com/hostprocess-container"
INHERIT_USER = "microsoft.com/hostprocess-inherit-user"
ROOT_LOCATION = "microsoft.com/hostprocess-rootfs-location"
SYSTEM = "NT AUTHORITY\\SYSTEM"
ACCOUNTS = (SYSTEM, "NT AUTHORITY\\LOCAL SERVICE", "NT AUTHORITY\\NETWORK SERVICE")
# The local group of users, whose name is translated on some systems.
GROUP = "Users"
RIGHT_MISSING = "SYSTEM may log on service accounts: run with --as-system"


def _command(windows: str, linux: str) -> dict[str, Any]:
    """On Linux host processes are programs of this machine."""
    if host.IS_EMULATED:
        return {"args": ["sh", "-c", linux]}
    return {"args": [], "commandLine": f"cmd /c {windows}"}


def _windows_path(path: Path) -> str:
    return "C:" + str(path).replace("/", "\\") if host.IS_EMULATED else str(path)


def _mounted_at(destination: str) -> str:
    """Where the processes of the container find a mount."""
    return f"%CONTAINER_SANDBOX_MOUNT_POINT%{destination[len('C:') :]}"


def _spec(node_directory: Path, command: dict[str, Any], **process: Any) -> dict[str, Any]:
    annotations = {HOST_PROCESS: "true", ROOT_LOCATION: _windows_path(node_directory / "hpc")}
    user = process.pop("user", "")
    if not user:
        annotations[INHERIT_USER] = "true"
    return {
        "ociVersion": "1.1.0", "root": {"path": ""}, "windows": {}, "annotations": annotations,
        "process": {"cwd": "C:\\", **command, "user": {"username": user} if user else {}, **process},
    }  # fmt: skip


def _output(context: Context, kind: str, spec: dict[str, Any], **fields: Any) -> tuple[str, int]:
    shim = ShimDriver(context, context.node.new_id(kind), spec)
    out = shim.output()
    task = shim.create(stdout=out.path, **fields)
    task.start()
    status = task.wait().exit_status
    task.delete()
    shim.shutdown()
    return out.text().strip(), status


def runs(context: Context) -> str:
    command = _command("echo %CONTAINER_SANDBOX_MOUNT_POINT%& exit 3",
                       "printf %s $CONTAINER_SANDBOX_MOUNT_POINT; exit 3")  # fmt: skip
    text, status = _output(context, "hpc", _spec(context.node.directory, command))
    context.details["root"] = text
    if status != 3 or "hpc" not in text:
        raise StepFailed(f"the process exited with {status} and printed {text!r}")
    return f"exit status 3, root directory {text}"


def accounts(context: Context) -> str:
    if host.IS_EMULATED:
        raise StepSkipped("Linux has no Windows accounts")
    from runhcs.selftest.windows import is_system

    if not is_system():
        raise StepSkipped("this is not the SYSTEM account", RIGHT_MISSING)
    for account in ACCOUNTS:
        spec = _spec(context.node.directory, _command("whoami", "id -un"), user=account)
        text, status = _output(context, "account", spec)
        context.details[account] = text
        if status or text.lower() != account.lower():
            raise StepFailed(f"a process as {account} runs as {text!r} (exit status {status})")
    text, status = _output(context, "group", _spec(context.node.directory, _command("whoami", "id -un"), user=GROUP))
    context.details[f"group {GROUP}"] = text
    if status or not text or any(text.lower() == account.lower() for account in ACCOUNTS):
        raise StepFailed(f"a process of the group {GROUP} runs as {text!r} (exit status {status})")
    return f"{', '.join(ACCOUNTS)}, and a new user of the group {GROUP}"


def working_directories(context: Context) -> str:
    """Below the root, which is created, and in a mount."""
    node = context.node
    source = node.directory / "mounted"
    (source / "below").mkdir(parents=True, exist_ok=True)
    found = {}
    # The shim creates a destination on the host, too: below this directory it is removed at the end.
    destination = _windows_path(node.directory / "destination")
    for kind, cwd in (("root", "C:\\selftest\\below"), ("mount", f"{destination}\\below")):
        spec = _spec(node.directory, _command("cd", "pwd"), cwd=_mounted_at(cwd))
        spec["mounts"] = [{"source": str(source), "destination": destination, "options": []}]
        text, status = _output(context, f"cwd-{kind}", spec)
        found[kind] = text
        if status or "below" not in text:
            raise StepFailed(f"working directory {cwd} ({kind}): exit status {status}, {text!r}")
    context.details["directories"] = found
    return ", ".join(found.values())


def read_only_mount(context: Context) -> str:
    node = context.node
    source = node.directory / "read-only"
    source.mkdir(exist_ok=True)
    (source / "file.txt").write_text("mounted")
    command = _command("type file.txt& echo x> new.txt", "cat file.txt; echo x > new.txt")
    destination = _windows_path(node.directory / "destination-read-only")
    spec = _spec(node.directory, command, cwd=_mounted_at(destination))
    spec["mounts"] = [{"source": str(source), "destination": destination, "options": ["ro"]}]
    text, _ = _output(context, "ro", spec)
    if "mounted" not in text:
        raise StepFailed(f"a file of a mount cannot be read: {text!r}")
    if (source / "new.txt").exists():
        raise StepFailed("a read-only mount can be written", "Server 2019 has no bind filter: use a later version")
    return "a file can be read and none written"


def smb_mount(context: Context) -> str:
    """A directory of an SMB share, as Kubernetes mounts Azure Files."""
    share = context.node.smb
    if not share:
        raise StepSkipped("no SMB share is given", r"--smb \\server\share\directory names one that can be read")
    destination = _windows_path(context.node.directory / "destination-smb")
    spec = _spec(context.node.directory, _command("dir /b", "ls"), cwd=_mounted_at(destination))
    spec["mounts"] = [{"source": share, "destination": destination, "options": ["ro"]}]
    text, status = _output(context, "smb", spec)
    expected = sorted(os.listdir(share))
    if status or sorted(text.splitlines()) != expected:
        raise StepFailed(f"{share} shows {text.splitlines()}, not {expected} (exit status {status})")
    return f"{len(expected)} entries of {share}"


def terminal(context: Context) -> str:
    spec = _spec(context.node.directory, _command("echo in a console", "echo in a console"), terminal=True)
    try:
        text, status = _output(context, "tty", spec, terminal=True)
    except StatusError as error:
        raise StepFailed(f"no terminal: {error}") from None
    if status or "in a console" not in text:
        raise StepFailed(f"the process exited with {status} and printed {text!r}")
    return "output of a process with a terminal"


def left_directories(context: Context) -> str:
    """Working directories, which the shim creates on the host as Microsoft's does, stay and are empty."""
    place = context.node.directory / "hpc"
    found = sorted(os.listdir(place)) if place.exists() else []
    context.details["working directories"] = [name for name in found if not name.startswith(f"{PREFIX}-")]
    left = [name for name in found if name.startswith(f"{PREFIX}-")]
    left += [str(path) for path in place.rglob("*") if path.is_file()]
    if left:
        raise StepFailed(f"root directories are left in {place}: {', '.join(left)}", "remove them")
    return "no root directory is left"


STEPS = [
    Step("hostprocess", "a host process container runs and knows its root directory", runs),
    Step("hostprocess-accounts", "host processes run as the service accounts", accounts, 120.0),
    Step("hostprocess-directories", "a working directory may be below the root or in a mount", working_directories),
    Step("hostprocess-read-only", "a read-only mount can be read and not written", read_only_mount),
    Step("hostprocess-smb", "a directory of an SMB share can be mounted", smb_mount),
    Step("hostprocess-terminal", "a host process has a terminal", terminal),
    Step("hostprocess-cleanup", "no root directory of a host process container is left", left_directories),
]
