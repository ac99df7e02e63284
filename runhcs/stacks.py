"""Show what every thread of a shim is doing, and, for one with a utility VM, its guest.

  runhcs stacks             of all shims
  runhcs stacks ID          of the shim that serves this container or pod

A shim that does not answer is sent SIGUSR1, on which it writes its stacks to panic.log in its bundle; they are shown
from there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from runhcs import shims
from runhcs.shims import AskError, Shim
from shim.api import shimdiag
from shim.ttrpc.status import StatusError

# The guest has five seconds.
PATIENCE = 8.0
WRITING_SECONDS = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", nargs="?", help="a container, exec's container or pod (default: all)")
    shims.configure(parser)


def stacks_of(shim: Shim) -> dict[str, Any]:
    answer: dict[str, Any] = {"namespace": shim.namespace, "id": shim.id, "pid": shim.pid}
    answer |= {"stacks": "", "guest_stacks": "", "problem": None}
    if shim.is_dead:
        return answer | {"problem": "its process is gone; `runhcs gc` shows what it left behind"}
    try:
        told = shims.call(shim.address, shims.SHIM_DIAG, "DiagStacks", b"", PATIENCE)
        stacks = shimdiag.StacksResponse.decode(told)
        return answer | {"stacks": stacks.stacks, "guest_stacks": stacks.guest_stacks}
    except (AskError, StatusError) as error:
        text = from_panic_log(shim)
        return answer | {"problem": str(error), "stacks": text}


def from_panic_log(shim: Shim) -> str:
    """What the shim writes on SIGUSR1, which its main thread hears whatever the others wait for."""
    log = Path(shim.bundle, "panic.log")
    if not shim.pid or not shim.bundle or not log.exists() or not hasattr(signal, "SIGUSR1"):
        return ""
    before = log.stat().st_size
    try:
        os.kill(shim.pid, signal.SIGUSR1)
    except OSError:
        return ""
    deadline = time.monotonic() + WRITING_SECONDS
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
    found = shims.find(args)
    if args.id:
        try:
            found = [shims.pick(found, args.id)]
        except AskError as error:
            print(f"runhcs stacks: {error}", file=sys.stderr)
            return 1
    answers = [stacks_of(shim) for shim in found]
    if args.json:
        print(json.dumps(answers, indent=2))
        return 0
    for answer in answers:
        print(f"== {answer['namespace'] or '-'}/{answer['id'] or '?'} (pid {answer['pid'] or '-'})")
        if answer["problem"]:
            print(f"{answer['problem']}\n")
        print(answer["stacks"])
        if answer["guest_stacks"]:
            print(f"-- guest\n{answer['guest_stacks']}")
    if not answers:
        print("no shims; `runhcs ps --help` says where they are looked for")
    return 0
