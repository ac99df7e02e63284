"""--keep: everything stays as it is until Ctrl-C, with suggestions of what to try meanwhile."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path

from runhcs.demo.containerd import RUNTIME
from runhcs.demo.screen import Screen
from runhcs.demo.workspace import NAMESPACE, Workspace


def wait(workspace: Workspace, screen: Screen) -> None:
    runhcs = shlex.quote(str(Path(sys.executable).with_name("runhcs")))
    screen.head("kept running", "Ctrl-C here ends it and cleans up; paste these into another terminal:")
    lines = [
        (f"export HCS_EMULATOR_DIR={workspace.hcs}", ""),
        (f"alias runhcs={runhcs}", ""),
        ("runhcs emulator status", "what runs on it"),
        ("tail -f $HCS_EMULATOR_DIR/journal.jsonl", "every HCS call, one per line"),
    ]
    if workspace.containerd is not None:
        lines += [
            (f"cd {workspace.directory}", ""),
            (f"export CONTAINERD_ADDRESS=$PWD/c.sock CONTAINERD_NAMESPACE={NAMESPACE}", ""),
            (f"ctr run --rm --tty --runtime {RUNTIME} --config shell.json shell", "type exit to leave"),
            ("runhcs emulator fault add --call HcsCreateProcess --nth 1 --error 0x80070005", ""),
            (f"ctr run --rm --runtime {RUNTIME} --config hello.json hello", "this one fails"),
        ]
    for command, comment in lines:
        screen.suggestion(command, comment)
    try:
        signal.pause()
    except KeyboardInterrupt:
        screen.line()
