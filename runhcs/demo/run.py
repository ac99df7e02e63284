"""The demo from beginning to end: its parts, then the proof; whatever happens in between, everything is cleaned up."""

from __future__ import annotations

import json
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from runhcs.demo import (
    DemoError,
    containerd,
    ctr_part,
    leftovers,
    process_part,
    process_tree,
    requirements,
    vm_part,
)
from runhcs.demo import (
    keep as keeping,
)
from runhcs.demo.events import Events
from runhcs.demo.screen import Screen
from runhcs.demo.workspace import Workspace
from shim.version import VERSION

# All mean the same: stop, and clean up.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Play = Callable[[Workspace, Events, Screen], dict[str, Any]]
PARTS: list[tuple[str, str, Play]] = [
    ("process", "A process-isolated container, the shim driven as containerd drives it", process_part.run_and_exit),
    ("exec", "A container that is looked into while it runs", process_part.look_into),
    ("vm", "Hypervisor isolation: a container in a utility VM of its own", vm_part.run_isolated),
    ("pod", "A pod: two containers in one utility VM", vm_part.run_pod),
]


def show(*, as_json: bool, keep: bool, with_containerd: bool) -> int:
    screen = Screen(sys.stdout, silent=as_json)
    result: dict[str, Any] = {"ok": False, "version": VERSION, "error": None, "parts": [], "left": {}}
    began = time.monotonic()
    for number in ENDING:
        signal.signal(number, _interrupt)
    try:
        requirements.check()
        process_tree.adopt_orphans()
        screen.title(
            "containerd-shim-runhcs-v1 in Python", f"{VERSION} · Python {platform.python_version()} · {_system()}"
        )
        _run(screen, result, keep, as_json, with_containerd)
    except (DemoError, OSError, subprocess.SubprocessError) as error:
        result["error"] = str(error)
    except KeyboardInterrupt:
        result["error"] = "interrupted"
    left = [thing for found in result["left"].values() for thing in found]
    result["ok"] = result["error"] is None and not left
    result["seconds"] = round(time.monotonic() - began, 1)
    if as_json:
        print(json.dumps(result, indent=2))
    elif result["error"] is not None:
        print(f"runhcs demo: {result['error']}", file=sys.stderr)
    if result["error"] == "interrupted":
        return 130
    return 0 if result["ok"] else 1


def _run(screen: Screen, result: dict[str, Any], keep: bool, as_json: bool, with_containerd: bool) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    workspace = Workspace()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    result["directory"] = str(workspace.directory)
    events: Events | None = None
    try:
        workspace.start_emulator()
        events = Events(workspace.directory / "t.sock")
        for name, title, play in PARTS:
            screen.part(len(result["parts"]) + 1, title)
            part: dict[str, Any] = {"name": name}
            result["parts"].append(part)
            part |= play(workspace, events, screen)
        if with_containerd and containerd.is_installed():
            screen.part(len(result["parts"]) + 1, "The same with ctr, on a real containerd")
            result["parts"].append({"name": "containerd"} | ctr_part.run_with_ctr(workspace, screen))
        elif with_containerd:
            screen.line()
            screen.paragraph("With containerd and ctr installed (`apt-get install containerd`) there is more to see.")
        if keep:
            keeping.wait(workspace, Screen(sys.stderr) if as_json else screen)
    finally:
        # A second Ctrl-C would only leave things behind. Everything from here on has a bound.
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        if events is not None:
            events.close()
        _prove(workspace, screen, result)


def _prove(workspace: Workspace, screen: Screen, result: dict[str, Any]) -> None:
    """Stop everything, look for whatever could be left, show it, and remove it."""
    screen.part(len(result["parts"]) + 1, "What is left behind")
    left: dict[str, list[str]] = result["left"]
    made = _count_systems(workspace)

    def tell(name: str, found: list[str], text: str) -> None:
        left[name] = found
        screen.tick(not found, name, text if not found else "left: " + ", ".join(found))

    if workspace.containerd is not None:
        workspace.containerd.stop()
    running = leftovers.settle(lambda: leftovers.compute_systems(workspace)) if workspace.service is not None else []
    tell("compute systems", running, f"none, and no open handle, of the {made} that were created")
    workspace.stop_emulator()
    own: set[int] = set()
    tell("processes", leftovers.settle(lambda: leftovers.processes(own)), "none that descends from this one")
    tell("mounts", leftovers.mounts(workspace), f"none below {workspace.directory}")
    tell("sockets", leftovers.sockets(workspace), "none, open or forgotten")
    tell("control groups", leftovers.settle(lambda: leftovers.control_groups(workspace)), "none of the emulator's")
    tell("bundles, layers", leftovers.bundles(workspace), "none but the base layer")
    leftovers.remove_by_force(workspace, own)
    tell("files", leftovers.directory(workspace), f"{workspace.directory} is removed")
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
