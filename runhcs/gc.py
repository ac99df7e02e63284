"""Find resources that dead shims leaked and, with --yes, release them.

  runhcs gc                 list them; nothing is changed
  runhcs gc --yes           release them
  runhcs gc --state DIR --socket-dir DIR
                            of another containerd

containerd cleans up after a shim that dies. This command is for the cases in which it could not: containerd was down,
was killed, or its state has been deleted. It looks for

  ledger    bundles whose shim is dead and whose ledger has entries: compute systems, VMs, network namespaces,
            endpoints, credentials, layers, mounts; each is released in the HCS instance that created it
  system    compute systems whose owner is the shim and that no shim uses
  socket    sockets without a listener: those named by the bundle of a dead shim and, in directories that are only for
            these shims (--socket-dir, RUNHCS_SOCKET_DIR), all

Resources of a living shim are never touched, whichever containerd it belongs to; if that is uncertain, nothing is
released. The bundles themselves belong to containerd and stay.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from attrs.validators import in_

from runhcs import console, emulator, shims
from runhcs.reports import as_json
from shim.container import ledger
from shim.container.document import OWNER
from shim.platform import endpoint

RELEASE_TIMEOUT = 60.0
# Additional time for the worker process to start and exit.
WORKER_GRACE = 30.0


@define
class Leak:
    """A leaked resource, or a ledger of several."""

    kind: str = field(validator=in_(("ledger", "system", "socket")))
    id: str
    detail: str
    hcs: str = ""
    namespace: str = ""
    entries: list[dict[str, str]] = field(factory=list)
    #: Called right before the release. Returns why the resource is no longer leaked; "" if it still is.
    in_use: Callable[[], str] = lambda: ""
    #: Returns what could not be released, one sentence each.
    release: Callable[[], list[str]] = list
    outcome: str = "found"
    errors: list[str] = field(factory=list)

    def summary(self) -> LeakSummary:
        return LeakSummary(
            self.kind, self.namespace, self.id, self.detail, self.hcs, self.entries, self.outcome, self.errors
        )


@frozen
class LeakSummary:
    """One element of `found` in `gc --json`."""

    kind: str
    namespace: str
    id: str
    detail: str
    hcs: str
    entries: list[dict[str, str]]
    #: found, released, failed, or kept: …
    outcome: str
    errors: list[str]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="release what is found; without it nothing is changed")
    shims.configure(parser)


def find(args: argparse.Namespace) -> tuple[list[Leak], list[str]]:
    """The leaked resources, and sentences about what could not be determined.

    Compute systems are listed before shims are queried: a system in the list was in a ledger before, so the shim that
    created it reports it when it is queried, or is dead.
    """
    systems, unsure = _systems()
    everywhere = argparse.Namespace(**{**vars(args), "namespace": ""})  # a resource may belong to any namespace
    living = [shim for shim in shims.find(everywhere) if not shim.is_dead]
    known = shims.bundles(everywhere)
    dead = [bundle for bundle in known if args.namespace in ("", bundle.namespace) and not bundle.is_served]
    found = [leak for bundle in dead if (leak := _ledger(bundle)) is not None]
    claimed = {entry.fields.get("id", "") for bundle in known for entry in ledger.read_entries(bundle.path)[0]}
    for shim in living:
        claimed |= {name for task in (shim.id, *shim.task_ids()) for name in (task, f"{task}@vm")}
    silent = [shim for shim in living if shim.problem]
    orphans = [system for system in systems if system["Id"] not in claimed]
    if orphans and silent and shims.WINDOWS:
        names = ", ".join(shim.id or shim.address for shim in silent)
        unsure.append(f"{len(orphans)} compute systems may belong to shims that do not answer ({names}): not released")
        orphans = []
    if not args.namespace:  # systems and sockets have no namespace
        found += [_system(system) for system in orphans]
    return found + _stale_sockets(args, dead), unsure


# Ledgers.


def _ledger(bundle: shims.Bundle) -> Leak | None:
    entries, instance = ledger.read_entries(bundle.path)
    if not entries:
        return None
    hcs = instance or _default_instance()
    return Leak(
        "ledger",
        bundle.id,
        f"{len(entries)} resources of a dead shim in {bundle.path}",
        hcs,
        bundle.namespace,
        [{"kind": entry.kind, **entry.fields} for entry in entries],
        lambda: "a shim serves the bundle again" if bundle.is_served else "",
        lambda: _run_worker(hcs, "--bundle", bundle.path, *([] if _is_running(hcs) else ["--hcs-is-gone"])),
    )


def _default_instance() -> str:
    return "" if shims.WINDOWS else emulator.DEFAULT_DIRECTORY


def _is_running(instance: str) -> bool:
    """Whether this instance of HCS runs; the one of Windows always does."""
    if not instance:
        return True
    try:
        emulator.command(instance, "status")
    except emulator.ControlError:
        return False
    return True


def _run_worker(instance: str, *arguments: str) -> list[str]:
    """Release in a process that uses this instance of HCS. Returns what could not be released."""
    environment = dict(os.environ)
    if instance:
        environment["HCS_EMULATOR_DIR"] = instance
    command = [sys.executable, "-m", "runhcs.gc_worker", *arguments, "--seconds", str(RELEASE_TIMEOUT)]
    timeout = RELEASE_TIMEOUT + WORKER_GRACE
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
        failures: list[str] = json.loads(done.stdout)
        return failures
    except subprocess.TimeoutExpired:
        return [f"timed out after {timeout:.0f} s: check HCS with `runhcs doctor`"]
    except ValueError:
        return [f"the worker failed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"]


# Compute systems.


def _systems() -> tuple[list[dict[str, Any]], list[str]]:
    """Compute systems owned by a shim that no process has open, as far as that can be determined."""
    if shims.WINDOWS:
        from shim.hcs_bindings.errors import HcsError
        from shim.hcs_bindings.system import ComputeSystem

        try:
            return ComputeSystem.enumerate({"Owners": [OWNER]}), []
        except HcsError as error:
            return [], [f"HCS cannot list its compute systems: {error}"]
    instance = _own_instance()
    try:
        listed = emulator.command(instance, "status")["systems"]
    except emulator.ControlError:
        return [], []  # no emulator, no compute systems
    orphans = [system for system in listed if system.get("Owner") == OWNER and not system.get("Holders")]
    return [system | {"hcs": instance} for system in orphans], []


def _own_instance() -> str:
    return os.environ.get("HCS_EMULATOR_DIR") or emulator.DEFAULT_DIRECTORY


def _system(system: dict[str, Any]) -> Leak:
    name, instance = str(system["Id"]), str(system.get("hcs", ""))
    detail = f"{system.get('SystemType', 'system')}, {system.get('State', 'state unknown')}, used by no shim"

    def in_use() -> str:
        return "" if any(one["Id"] == name for one in _systems()[0]) else "it is in use again, or removed"

    return Leak(
        "system", name, detail, instance, in_use=in_use, release=lambda: _run_worker(instance, "--system", name)
    )


# Sockets.


def _stale_sockets(args: argparse.Namespace, dead: list[shims.Bundle]) -> list[Leak]:
    if shims.WINDOWS:
        return []  # a pipe is removed with its process
    named = {endpoint.path_of(bundle.address) for bundle in dead if bundle.address.startswith(endpoint.SCHEME)}
    if not args.namespace and (args.socket_dir or os.environ.get("RUNHCS_SOCKET_DIR")):
        for directory in shims.socket_directories(args):
            named |= set(shims.socket_files(directory))
    stale = [path for path in sorted(named) if os.path.exists(path) and not endpoint.is_alive(path)]
    return [_socket(path) for path in stale]


def _socket(path: str) -> Leak:
    def release() -> list[str]:
        # The lock under which a new shim replaces a stale socket of its name.
        directory = endpoint.lock(os.path.dirname(path))
        try:
            endpoint.remove_stale(endpoint.SCHEME + path)
        finally:
            os.close(directory)
        return [f"{path} could not be removed"] if os.path.lexists(path) and not endpoint.is_alive(path) else []

    def in_use() -> str:
        return "a shim listens on it again" if endpoint.is_alive(path) else ""

    return Leak("socket", os.path.basename(path)[:12], path, in_use=in_use, release=release)


# The command.


def release(leak: Leak) -> None:
    if reason := leak.in_use():
        leak.outcome = f"kept: {reason}"
        return
    try:
        leak.errors = leak.release()
    except OSError as error:
        leak.errors = [str(error)]
    leak.outcome = "failed" if leak.errors else "released"


def run(args: argparse.Namespace) -> int:
    with console.progress("looking for leaked resources"):
        found, unsure = find(args)
    if args.yes:
        for leak in found:
            with console.progress(f"releasing {leak.kind} {leak.id}"):
                release(leak)
    failed = [leak for leak in found if leak.errors]
    if args.json:
        print(as_json({"dry_run": not args.yes, "found": [leak.summary() for leak in found], "unsure": unsure}))
        return 1 if failed else 0
    if found:
        rows = [(leak.kind, leak.namespace or "-", leak.id, leak.outcome, leak.detail) for leak in found]
        console.print_table(("KIND", "NAMESPACE", "ID", "OUTCOME", "DETAIL"), rows)
    for leak in found:
        for entry in leak.entries:
            console.show(f"  {leak.id}: {' '.join(entry.values())}")
        for error in leak.errors:
            console.show(f"  {leak.id}: {error}", to_stderr=True)
    for sentence in unsure:
        console.show(sentence)
    if not found:
        print("no leaked resources")
    elif not args.yes:
        print("\nnothing has been changed: `runhcs gc --yes` releases these")
    return 1 if failed else 0
