"""Show what every thread of a shim is doing, and, for one with a utility VM, its guest.

  runhcs stacks             of all shims
  runhcs stacks ID          of the shim that serves this container or pod

A shim that does not answer is sent SIGUSR1, on which it writes its stacks to panic.log in its bundle; they are shown
from there. A process that serves several pods answers with the threads of the pod and those of all pods; on SIGUSR1 it
writes all stacks, to daemon-panic.log in each bundle.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

from attrs import frozen

from runhcs import console, shims
from runhcs.reports import as_json
from runhcs.shims import QueryError, Shim
from shim.api import shimdiag
from shim.commands.shared import DAEMON_PANIC_LOG
from shim.ttrpc.status import StatusError

# The shim waits up to 5 s for the stacks of the guest.
CALL_TIMEOUT = 8.0
WRITE_TIMEOUT = 2.0


@frozen
class Stacks:
    """One element of `stacks --json`."""

    namespace: str
    id: str
    pid: int
    stacks: str = ""
    guest_stacks: str = ""
    problem: str | None = None


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", nargs="?", help="id of a container or pod (default: all shims)")
    shims.configure(parser)


def stacks_of(shim: Shim) -> Stacks:
    if shim.is_dead:
        problem = "its process has exited; `runhcs gc` finds what it leaked"
        return Stacks(shim.namespace, shim.id, shim.pid, problem=problem)
    try:
        answer = shims.call(shim.address, shims.SHIM_DIAG, "DiagStacks", b"", CALL_TIMEOUT)
    except (QueryError, StatusError) as error:
        return Stacks(shim.namespace, shim.id, shim.pid, from_panic_log(shim), problem=str(error))
    stacks = shimdiag.StacksResponse.decode(answer)
    return Stacks(shim.namespace, shim.id, shim.pid, stacks.stacks, stacks.guest_stacks)


def from_panic_log(shim: Shim) -> str:
    """The stacks that the shim writes on SIGUSR1. Its main thread handles the signal even if all others block."""
    log = Path(shim.bundle, DAEMON_PANIC_LOG)  # of a process that serves several pods
    if not log.exists():
        log = Path(shim.bundle, "panic.log")
    if not shim.pid or not shim.bundle or not log.exists() or not hasattr(signal, "SIGUSR1"):
        return ""
    before = log.stat().st_size
    try:
        os.kill(shim.pid, signal.SIGUSR1)
    except OSError:
        return ""
    deadline = time.monotonic() + WRITE_TIMEOUT
    size = before
    while time.monotonic() < deadline:
        time.sleep(0.05)
        now = log.stat().st_size
        if now > before and now == size:
            break
        size = now
    with log.open("rb") as file:
        file.seek(before)
        return file.read().decode(errors="replace")


def run(args: argparse.Namespace) -> int:
    with console.progress("querying shims"):
        found = shims.find(args)
        if args.id:
            try:
                found = [shims.pick(found, args.id)]
            except QueryError as error:
                console.show(f"runhcs stacks: {error}", to_stderr=True)
                return 1
        answers = [stacks_of(shim) for shim in found]
    if args.json:
        print(as_json(answers))
        return 0
    for answer in answers:
        console.show(f"== {answer.namespace or '-'}/{answer.id or '?'} (pid {answer.pid or '-'})")
        if answer.problem:
            console.show(f"{answer.problem}\n")
        console.show(answer.stacks)
        if answer.guest_stacks:
            console.show(f"-- guest\n{answer.guest_stacks}")
    if not answers:
        print("no shims found; `runhcs ps --help` lists the places that are searched")
    return 0
