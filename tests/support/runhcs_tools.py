"""Shims with bundles in containerd's state directory, and the commands of `runhcs` that search them there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.shims import NAMESPACE, Shims

TASKS = "io.containerd.runtime.v2.task"


class ToolShims(Shims):
    """`directory` is also the state directory of a containerd, which does not run."""

    def bundle(self, id: str, spec: dict[str, Any]) -> Path:
        bundle = self.directory / TASKS / NAMESPACE / id
        (bundle / "rootfs").mkdir(parents=True)
        (bundle / "config.json").write_text(json.dumps(spec))
        return bundle

    @property
    def places(self) -> list[str]:
        return ["--state", str(self.directory), "--socket-dir", str(self.directory / "s")]

    def run_tool(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        places = [] if "--state" in arguments or command == "replay" else self.places
        return subprocess.run(
            [sys.executable, "-m", "runhcs", command, *arguments, *places],
            env=self.env, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip

    def runhcs(self, command: str, *arguments: str) -> str:
        done = self.run_tool(command, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, command: str, *arguments: str) -> Any:
        return json.loads(self.runhcs(command, *arguments, "--json"))

    def fails(self, command: str, *arguments: str) -> str:
        done = self.run_tool(command, *arguments)
        assert done.returncode == 1 and not done.stdout, done.stdout + done.stderr
        return done.stderr
