"""The demo from beginning to end: its parts, then the leak checks. Everything is cleaned up, also after a failure."""

from __future__ import annotations

import platform
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from runhcs.demo import DemoError, containers, ctr, leak_checks, linux_containers
from runhcs.demo.containerd_stub import EventsEndpoint
from runhcs.demo.output import Screen
from runhcs.demo.workspace import NAMESPACE, Workspace, check_prerequisites
from runhcs.reports import as_json
from shim.version import VERSION

# Each of them stops the demo and cleans up.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Play = Callable[[Workspace, EventsEndpoint, Screen], dict[str, Any]]
PARTS: list[tuple[str, str, Play]] = [
    ("process", "A process-isolated container, with the shim driven as containerd does", containers.run_until_exit),
    ("exec", "A running container: exec, pids, stats, kill", containers.run_exec_and_kill),
    ("vm", "Hypervisor isolation: a container in a utility VM of its own", containers.run_isolated),
    ("pod", "A pod: two containers in one utility VM", containers.run_pod),
    ("linux", "A Linux container in a utility VM", linux_containers.run_linux),
]


def show(*, json_output: bool, keep: bool, with_containerd: bool) -> int:
    screen = Screen(sys.stdout, silent=json_output)
    result: dict[str, Any] = {"ok": False, "version": VERSION, "error": None, "parts": [], "left": {}}
    began = time.monotonic()
    for number in STOP_SIGNALS:
        signal.signal(number, _interrupt)
    try:
        check_prerequisites()
        leak_checks.become_subreaper()
        screen.title(
            "containerd-shim-runhcs-v1 in Python", f"{VERSION} · Python {platform.python_version()} · {_system()}"
        )
        _run(screen, result, keep, json_output, with_containerd)
    except (DemoError, OSError, subprocess.SubprocessError) as error:
        result["error"] = str(error)
    except KeyboardInterrupt:
        result["error"] = "interrupted"
    leaked = [one for found in result["left"].values() for one in found]
    result["ok"] = result["error"] is None and not leaked
    result["seconds"] = round(time.monotonic() - began, 1)
    if json_output:
        print(as_json(result))
    elif result["error"] is not None:
        print(f"runhcs demo: {result['error']}", file=sys.stderr)
    if result["error"] == "interrupted":
        return 130
    return 0 if result["ok"] else 1


def _run(screen: Screen, result: dict[str, Any], keep: bool, json_output: bool, with_containerd: bool) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    workspace = Workspace()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    result["directory"] = str(workspace.directory)
    events: EventsEndpoint | None = None
    try:
        workspace.start_emulator()
        events = EventsEndpoint(workspace.directory / "t.sock")
        for name, title, play in PARTS:
            screen.part(len(result["parts"]) + 1, title)
            part: dict[str, Any] = {"name": name}
            result["parts"].append(part)
            part |= play(workspace, events, screen)
        if with_containerd and ctr.is_installed():
            screen.part(len(result["parts"]) + 1, "The same with ctr, on a real containerd")
            result["parts"].append({"name": "containerd"} | ctr.run_with_ctr(workspace, screen))
        elif with_containerd:
            screen.line()
            screen.paragraph("One part needs containerd and ctr, which are missing: `apt-get install containerd`.")
        if keep:
            _wait_for_interrupt(workspace, Screen(sys.stderr) if json_output else screen)
    finally:
        # A second Ctrl-C would only leak resources. Every step from here on has a timeout.
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if events is not None:
            events.close()
        _check_leaks(workspace, screen, result)


def _check_leaks(workspace: Workspace, screen: Screen, result: dict[str, Any]) -> None:
    """Stop everything, check for leaked resources, report them, and remove them."""
    screen.part(len(result["parts"]) + 1, "Leak checks")
    created = _count_systems(workspace)

    def report(name: str, found: list[str], text: str) -> None:
        result["left"][name] = found
        screen.check(not found, name, text if not found else "leaked: " + ", ".join(found))

    if workspace.containerd is not None:
        workspace.containerd.stop()
    running = workspace.service is not None
    systems = leak_checks.settle(lambda: leak_checks.compute_systems(workspace)) if running else []
    report("compute systems", systems, f"none, and no open handle, of the {created} that were created")
    workspace.stop_emulator()
    report("processes", leak_checks.settle(leak_checks.processes), "no descendant of this process")
    report("mounts", leak_checks.mounts(workspace), f"none below {workspace.directory}")
    report("sockets", leak_checks.sockets(workspace), "none, open or stale")
    report("control groups", leak_checks.settle(lambda: leak_checks.control_groups(workspace)), "none of the emulator")
    report("bundles, layers", leak_checks.bundles(workspace), "none but the base layer")
    leak_checks.remove_all(workspace)
    report("files", leak_checks.directory(workspace), f"{workspace.directory} is removed")
    screen.line()


def _wait_for_interrupt(workspace: Workspace, screen: Screen) -> None:
    """--keep: keep everything running until Ctrl-C, and suggest commands."""
    runhcs = shlex.quote(str(Path(sys.executable).with_name("runhcs")))
    screen.head("kept running", "Ctrl-C here stops it and cleans up; paste these into another terminal:")
    lines = [
        (f"export HCS_EMULATOR_DIR={workspace.hcs}", ""),
        (f"alias runhcs={runhcs}", ""),
        ("runhcs emulator status", "its compute systems"),
        ("tail -f $HCS_EMULATOR_DIR/journal.jsonl", "every HCS call, one per line"),
    ]
    if workspace.containerd is not None:
        lines += [
            (f"cd {workspace.directory}", ""),
            (f"export CONTAINERD_ADDRESS=$PWD/c.sock CONTAINERD_NAMESPACE={NAMESPACE}", ""),
            (f"ctr run --rm --tty --runtime {ctr.RUNTIME} --config shell.json shell", "type exit to leave"),
            ("runhcs emulator fault add --call HcsCreateProcess --nth 1 --error 0x80070005", ""),
            (f"ctr run --rm --runtime {ctr.RUNTIME} --config hello.json hello", "this one fails"),
        ]
    try:
        for command, comment in lines:
            screen.suggestion(command, comment)
        signal.pause()
    except KeyboardInterrupt:
        screen.line()


def _count_systems(workspace: Workspace) -> int:
    try:
        return workspace.journal_path.read_text().count('"call": "HcsCreateComputeSystem"')
    except OSError:
        return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
