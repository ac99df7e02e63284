"""Find what dead shims left behind and, with --yes, free it.

  runhcs gc                 show what there is; nothing is changed
  runhcs gc --yes           free it
  runhcs gc --state DIR --socket-dir DIR
                            of another containerd

containerd cleans up after a shim that dies; this is for when it could not: it was down itself, or was killed, or its
state has been deleted. Looked for are

  ledger    bundles whose shim is dead and whose ledger still lists things: compute systems, VMs, network namespaces,
            endpoints, credentials, layers, mounts; each is freed where it was made, whichever instance of HCS that was
  system    compute systems that say they are a shim's, and that no shim has
  socket    sockets that nobody listens on: those that a dead shim's bundle names and, in directories that are only for
            these shims (--socket-dir, RUNHCS_SOCKET_DIR), all

What a living shim has is never touched, whichever containerd it belongs to; where that cannot be told, nothing is.
The bundles themselves are containerd's, and stay.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runhcs import emulator, shims, table
from shim.container import ledger
from shim.container.document import OWNER
from shim.platform import endpoint

FREE_SECONDS = 60.0
# What the child may take beyond that to come and go.
GRACE = 30.0


@dataclass
class Leftover:
    kind: str
    id: str
    detail: str
    hcs: str = ""
    namespace: str = ""
    entries: list[dict[str, str]] = field(default_factory=list)
    #: Why it is not one any more; "" if it still is. Asked right before it is freed.
    excuse: Callable[[], str] = lambda: ""
    free: Callable[[], list[str]] = list
    outcome: str = "found"
    errors: list[str] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        names = ("kind", "namespace", "id", "detail", "hcs", "entries", "outcome", "errors")
        return {name: getattr(self, name) for name in names}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="free what is found; without it nothing is changed")
    shims.configure(parser)


def find(args: argparse.Namespace) -> tuple[list[Leftover], list[str]]:
    """What is left, and what could not be told.

    Compute systems are listed before shims are asked: one that is in the list was in a ledger before, so the shim that
    made it knows it by the time it is asked, or is dead.
    """
    systems, unsure = _systems()
    everywhere = argparse.Namespace(**{**vars(args), "namespace": ""})  # who has what is no matter of a namespace
    living = [shim for shim in shims.find(everywhere) if not shim.is_dead]
    known = shims.bundles(everywhere)
    dead = [bundle for bundle in known if args.namespace in ("", bundle.namespace) and not bundle.is_served]
    found = [left for bundle in dead if (left := _ledger(bundle)) is not None]
    claimed = {entry.fields.get("id", "") for bundle in known for entry in ledger.read_entries(bundle.path)[0]}
    for shim in living:
        claimed |= {name for task in (shim.id, *shim.task_ids()) for name in (task, f"{task}@vm")}
    silent = [shim for shim in living if shim.problem]
    orphans = [system for system in systems if system["Id"] not in claimed]
    if orphans and silent and shims.WINDOWS:
        names = ", ".join(shim.id or shim.address for shim in silent)
        unsure.append(f"{len(orphans)} compute systems may belong to shims that do not answer ({names}): left alone")
        orphans = []
    if not args.namespace:  # neither systems nor sockets tell theirs
        found += [_system(system) for system in orphans]
    return found + _stale_sockets(args, dead), unsure


# Ledgers.


def _ledger(bundle: shims.Bundle) -> Leftover | None:
    entries, instance = ledger.read_entries(bundle.path)
    if not entries:
        return None
    hcs = instance or _default_instance()
    return Leftover(
        "ledger",
        bundle.id,
        f"{len(entries)} things of a dead shim in {bundle.path}",
        hcs,
        bundle.namespace,
        [{"kind": entry.kind, **entry.fields} for entry in entries],
        lambda: "its shim is there again" if bundle.is_served else "",
        lambda: _run(hcs, "--bundle", bundle.path, *([] if _is_up(hcs) else ["--hcs-is-gone"])),
    )


def _default_instance() -> str:
    return "" if shims.WINDOWS else emulator.DEFAULT_DIRECTORY


def _is_up(instance: str) -> bool:
    """Whether this instance of HCS is there; Windows' own always is."""
    if not instance:
        return True
    try:
        emulator.command(instance, "status")
    except emulator.ControlError:
        return False
    return True


def _run(instance: str, *arguments: str) -> list[str]:
    """Free in a process that speaks with this instance of HCS. What could not be freed, in words."""
    environment = dict(os.environ)
    if instance:
        environment["HCS_EMULATOR_DIR"] = instance
    command = [sys.executable, "-m", "runhcs.gc_worker", *arguments, "--seconds", str(FREE_SECONDS)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=FREE_SECONDS + GRACE, check=False
        )
        failures: list[str] = json.loads(done.stdout)
        return failures
    except subprocess.TimeoutExpired:
        return [f"it was not done after {FREE_SECONDS + GRACE:.0f} s: is HCS well? `runhcs doctor` looks"]
    except ValueError:
        return [f"freeing failed: {done.stderr.strip().splitlines()[-1:] or 'it says nothing'}"]


# Compute systems.


def _systems() -> tuple[list[dict[str, Any]], list[str]]:
    """Those that say they are a shim's, and that no process has open, where that can be told."""
    if shims.WINDOWS:
        from shim.hcs_bindings.errors import HcsError
        from shim.hcs_bindings.system import ComputeSystem

        try:
            return ComputeSystem.enumerate({"Owners": [OWNER]}), []
        except HcsError as error:
            return [], [f"HCS does not list its compute systems: {error}"]
    instance = _own_instance()
    try:
        listed = emulator.command(instance, "status")["systems"]
    except emulator.ControlError:
        return [], []  # nothing lives where nothing runs
    orphans = [system for system in listed if system.get("Owner") == OWNER and not system.get("Holders")]
    return [system | {"hcs": instance} for system in orphans], []


def _own_instance() -> str:
    return os.environ.get("HCS_EMULATOR_DIR") or emulator.DEFAULT_DIRECTORY


def _system(system: dict[str, Any]) -> Leftover:
    name, instance = str(system["Id"]), str(system.get("hcs", ""))
    detail = f"{system.get('SystemType', 'system')}, {system.get('State', 'state unknown')}, that no shim has"

    def excuse() -> str:
        return "" if any(one["Id"] == name for one in _systems()[0]) else "somebody has it again, or it is gone"

    return Leftover("system", name, detail, instance, excuse=excuse, free=lambda: _run(instance, "--system", name))


# Sockets.


def _stale_sockets(args: argparse.Namespace, dead: list[shims.Bundle]) -> list[Leftover]:
    if shims.WINDOWS:
        return []  # a pipe goes with its process
    named = {endpoint.path_of(bundle.address) for bundle in dead if bundle.address.startswith(endpoint.SCHEME)}
    if not args.namespace and (args.socket_dir or os.environ.get("RUNHCS_SOCKET_DIR")):
        for directory in shims.socket_directories(args):
            named |= set(shims.socket_files(directory))
    stale = [path for path in sorted(named) if os.path.exists(path) and not endpoint.is_alive(path)]
    return [_socket(path) for path in stale]


def _socket(path: str) -> Leftover:
    def free() -> list[str]:
        # The lock under which a new shim takes over a leftover of its name.
        directory = endpoint.lock(os.path.dirname(path))
        try:
            endpoint.remove_stale(endpoint.SCHEME + path)
        finally:
            os.close(directory)
        return [f"{path} could not be removed"] if os.path.lexists(path) and not endpoint.is_alive(path) else []

    def excuse() -> str:
        return "a shim listens there again" if endpoint.is_alive(path) else ""

    return Leftover("socket", os.path.basename(path)[:12], path, excuse=excuse, free=free)


# The command.


def free(left: Leftover) -> None:
    if excuse := left.excuse():
        left.outcome = f"kept: {excuse}"
        return
    try:
        left.errors = left.free()
    except OSError as error:
        left.errors = [str(error)]
    left.outcome = "failed" if left.errors else "freed"


def run(args: argparse.Namespace) -> int:
    found, unsure = find(args)
    if args.yes:
        for left in found:
            free(left)
    failed = [left for left in found if left.errors]
    if args.json:
        report = {"dry_run": not args.yes, "found": [left.describe() for left in found], "unsure": unsure}
        print(json.dumps(report, indent=2))
        return 1 if failed else 0
    if found:
        rows = [(left.kind, left.namespace or "-", left.id, left.outcome, left.detail) for left in found]
        print(table.table(("KIND", "NAMESPACE", "ID", "OUTCOME", "WHAT"), rows))
    for left in found:
        for entry in left.entries:
            print(f"  {left.id}: {' '.join(entry.values())}")
        for error in left.errors:
            print(f"  {left.id}: {error}", file=sys.stderr)
    for sentence in unsure:
        print(sentence)
    if not found:
        print("nothing is left behind")
    elif not args.yes:
        print("\nnothing has been changed: `runhcs gc --yes` frees these")
    return 1 if failed else 0
