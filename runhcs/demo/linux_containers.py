"""Part 5: a Linux container in a utility VM."""

from __future__ import annotations

import os
import shutil
from typing import Any

from runhcs.demo import DemoError
from runhcs.demo.containerd_stub import EventsEndpoint
from runhcs.demo.output import Record, Screen
from runhcs.demo.shim_client import Shim
from runhcs.demo.workspace import Workspace, summarize_calls
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any as PackedAny

EXIT_CODE = 6
# Directories with programs of this machine, shared with the VM read-only.
PROGRAMS = ("/bin", "/lib", "/lib64", "/usr")
GUEST = "guest:"


def run_linux(workspace: Workspace, events: EventsEndpoint, screen: Screen) -> dict[str, Any]:
    if shutil.which("runc") is None:
        screen.paragraph("This part needs runc, which the guest runs containers with: `apt-get install runc`.")
        return {"skipped": "runc is missing"}
    record = Record(screen)
    events.record_in(record)
    command = f"uname -o; grep CapEff /proc/self/status; exit {EXIT_CODE}"
    screen.head("linux", "runs a shell in a Linux utility VM; its guest starts it with runc")
    options = Options(sandbox_isolation=Options.SandboxIsolation.HYPERVISOR, sandbox_platform="linux/amd64")
    packed = PackedAny(type_url=Options.FULL_NAME, value=options.encode())
    shim = Shim(workspace, record, "linux", linux_spec(workspace, "/bin/sh", "-c", command), packed)
    try:
        shim.launch()
        shim.create(None, "the VM has booted: entropy, log and bridge of its guest are connected")
        shim.run_until_exit()
        status = shim.delete()
        events.expect(["create", "start", "exit", "delete"])
    finally:
        shim.kill()
    if status != EXIT_CODE or "Linux" not in shim.text:
        raise DemoError(f"the container exited with {status} and printed {shim.text!r}, which its command does not do")
    calls = workspace.journal.new_calls()
    screen.line()
    messages = [call["call"].removeprefix(GUEST) for call in calls if call["call"].startswith(GUEST)]
    count = f"{len(calls) - len(messages)} HCS calls, and {len(messages)} messages to the VM's guest"
    screen.paragraph(f"{count}: {', '.join(messages)}.")
    return {"exit_status": status, "output": shim.text, "calls": summarize_calls(calls)} | record.as_data()


def linux_spec(workspace: Workspace, *args: str) -> dict[str, Any]:
    """A Linux container with one capability, on programs of this machine."""
    root = workspace.directory / "linux-root"
    for path in (*PROGRAMS, "/proc", "/dev"):
        (root / path.lstrip("/")).mkdir(parents=True)
    mounts = [
        {"destination": path, "type": "bind", "source": os.path.realpath(path), "options": ["rbind", "ro"]}
        for path in PROGRAMS
        if os.path.isdir(path)
    ]
    capabilities = {key: ["CAP_KILL"] for key in ("bounding", "effective", "permitted")}
    return {
        "ociVersion": "1.1.0",
        "hostname": "linux",
        "process": {
            "args": list(args), "cwd": "/", "env": ["PATH=/usr/bin:/bin"], "user": {"uid": 0, "gid": 0},
            "capabilities": capabilities, "noNewPrivileges": True,
        },
        "root": {"path": str(root)},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, *mounts],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network")]},
    }  # fmt: skip
