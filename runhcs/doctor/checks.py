"""What the checks of `runhcs doctor` have in common: their form, and those that are the same on every system."""

from __future__ import annotations

import marshal
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runhcs.installation import NAME, ROOT, library
from shim.platform import host
from shim.version import VERSION

RUNTIME = "io.containerd.runhcs.v1"
COMMAND_SECONDS = 20.0
# The oldest that is tested.
OLDEST_CONTAINERD = (1, 6)


@dataclass
class Check:
    name: str
    #: ok, note, warn, fail
    outcome: str
    finding: str
    next_step: str = ""

    def describe(self) -> dict[str, Any]:
        return asdict(self)


def python() -> Check:
    return Check("python", "ok", f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}")


def output(*command: str) -> str | None:
    """What a program says; None if it is not there or fails."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def containerd_version(program: str) -> Check:
    """Of the program; a daemon that runs may be another."""
    path = shutil.which(program)
    if path is None:
        step = "install containerd 1.6 or later"
        if host.IS_EMULATED:
            step += "; `runhcs demo` and the tests bring their own way of running shims"
        return Check("containerd", "warn", "not in PATH", step)
    said = output(path, "--version") or ""
    match = re.search(r"v?(\d+)\.(\d+)\.(\d+)", said)
    if match is None:
        return Check("containerd", "warn", f"{path} does not tell its version", "is it containerd? run it by hand")
    version = match[0].removeprefix("v")
    if (int(match[1]), int(match[2])) < OLDEST_CONTAINERD:
        return Check("containerd", "fail", f"{path} is {version}", "install containerd 1.6 or later")
    return Check("containerd", "ok", f"{version}, {path}")


def shim_in(path: str, whose: str, install: str = "run `runhcs install`") -> Check:
    """Whether containerd finds the shim in this PATH, and whether what it finds is this version; `install` is how it
    gets there."""
    name = NAME + ("" if host.IS_EMULATED else ".exe")
    found = shutil.which(name, path=path)
    if found is None:
        step = f"{install}, into a folder of that PATH"
        return Check("shim", "fail", f"{name} is not in the PATH of {whose}", step)
    said = output(found, "-v") or ""
    match = re.search(r"Version:\s*(\S+)", said)
    if match is None:
        step = f"it points at a checkout, environment or folder that has gone: {install} again"
        return Check("shim", "fail", f"{found} does not run", step)
    if match[1] != VERSION:
        step = f"{install} if {VERSION}, which you are asking, is meant"
        return Check("shim", "warn", f"{found} is version {match[1]}", step)
    if (root := _checkout(found)) is not None and root != ROOT:
        return Check("shim", "note", f"{found} runs {root}", "run `runhcs install` if this checkout is meant")
    if root is not None and _is_behind(found, root):
        step = "it uses the new sources, which takes longer: run `runhcs install` again"
        return Check("shim", "note", f"{found} was made before its sources were changed", step)
    return Check("shim", "ok", f"{match[1]}, {found}, found by {whose}")


def _program(launcher: str) -> Path:
    """What `runhcs install` compiled for this launcher."""
    return library(Path(launcher).resolve().parent) / f"{NAME}.pyc"


def _checkout(launcher: str) -> Path | None:
    """The checkout that a launcher of `runhcs install` runs; None if that cannot be told."""
    try:
        code = marshal.loads(_program(launcher).read_bytes()[16:])
    except (OSError, ValueError, EOFError, TypeError):
        return None
    words = [word for word in getattr(code, "co_consts", ()) if isinstance(word, str) and os.path.isabs(word)]
    return next((Path(word) for word in words if os.path.isdir(os.path.join(word, "shim"))), None)


def _is_behind(launcher: str, root: Path) -> bool:
    made = _program(launcher).stat().st_mtime
    return any(path.stat().st_mtime > made for path in (root / "shim").rglob("*.py"))


def containerd_config(path: str) -> Check:
    """Only CRI needs to be told of the runtime; ctr names it."""
    try:
        settings = tomllib.loads(Path(path).read_text())
    except FileNotFoundError:
        step = "ctr needs none; for Kubernetes `runhcs config` prints what to put there"
        return Check("config", "note", f"no {path}", step)
    except (OSError, ValueError) as error:
        return Check("config", "warn", f"{path}: {error}", "repair it: containerd will not start with it either")
    handlers = [name for name, one in _runtimes(settings) if one.get("runtime_type") == RUNTIME]
    if not handlers:
        step = "ctr needs none; for Kubernetes `runhcs config` prints what to add"
        return Check("config", "note", f"{path} names no runtime of type {RUNTIME}", step)
    return Check("config", "ok", f"{path}: {', '.join(handlers)}")


def _runtimes(settings: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The runtimes of CRI, wherever this version of the configuration has them."""
    found = []
    for plugin in settings.get("plugins", {}).values():
        if isinstance(plugin, dict):
            runtimes = plugin.get("containerd", {}).get("runtimes", {})
            found += [(name, one) for name, one in runtimes.items() if isinstance(one, dict)]
    return found
