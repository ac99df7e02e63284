"""A prefix ends with whoever made it, in order or not: programs that stay would eat the machine, run by run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from wine_prefix import Prefix

from tests.wine.conftest import PATIENCE, ROOT
from tests.wine.node import eventually

OWNER = """
import subprocess, sys, time
from pathlib import Path
from wine_prefix import NOWHERE, Prefix
prefix = Prefix(Path(sys.argv[1]))
prefix.make()
prefix.start()
subprocess.Popen(["wine", "cmd", "/c", "ping -n 600 127.0.0.1"], env=prefix.environment, **NOWHERE)
print("started", flush=True)
time.sleep(600)
"""


def test_its_owner_is_killed(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path / "prefix")
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(prefix.directory)], cwd=ROOT / "scripts", stdout=subprocess.PIPE
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        eventually(lambda: len(prefix.processes()) > 3, "programs in the prefix", PATIENCE)
    finally:
        owner.kill()
        owner.wait(PATIENCE)
    try:
        eventually(lambda: not prefix.processes(), "the end of all programs")
    finally:
        prefix.end()


def test_its_end_in_order(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path / "prefix")
    prefix.make()
    try:
        prefix.start()
        assert prefix.run("cmd", "/c", "exit 3").returncode == 3
    finally:
        prefix.end()
    eventually(lambda: not prefix.processes(), "the end of all programs")
