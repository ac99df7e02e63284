"""A prefix ends with whoever made it, in order or not: programs that stay would eat the machine, run by run. And no
program of it is lost because its heap lies where Wine wants to put something else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from wine_prefix import NULL_STREAMS, Prefix, without_aslr

from tests.support.eventually import eventually
from tests.wine.conftest import PATIENCE, ROOT

NOT_RANDOMISED = 0x40000
OWNER = """
import subprocess, sys, time
from pathlib import Path
from wine_prefix import NULL_STREAMS, Prefix
prefix = Prefix(Path(sys.argv[1]))
prefix.create()
prefix.start()
subprocess.Popen(["wine", "cmd", "/c", "ping -n 600 127.0.0.1"], env=prefix.environment, **NULL_STREAMS)
print("started", flush=True)
time.sleep(600)
"""


def test_prefix_ends_when_owner_is_killed(tmp_path: Path) -> None:
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
        prefix.stop()


def test_prefix_ends_on_close(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path / "prefix")
    prefix.create()
    try:
        prefix.start()
        assert prefix.run("cmd", "/c", "exit 3").returncode == 3
    finally:
        prefix.stop()
    eventually(lambda: not prefix.processes(), "the end of all programs")


@pytest.mark.skipif(not without_aslr(), reason="addresses cannot be kept from being randomised here")
def test_address_space_is_not_randomised(tmp_path: Path) -> None:
    """Neither of what we start, nor of what that starts."""
    prefix = Prefix(tmp_path / "prefix")
    prefix.create()
    try:
        prefix.start()
        command = ["wine", "cmd", "/c", "ping -n 600 127.0.0.1"]
        subprocess.Popen(command, env=prefix.environment, **NULL_STREAMS)
        eventually(lambda: any("ping" in name for name in _programs(prefix)), "a program of a program", PATIENCE)
        programs = _programs(prefix)
        assert len(programs) > 3
        assert set(programs.values()) == {NOT_RANDOMISED}, programs
    finally:
        prefix.stop()


def _programs(prefix: Prefix) -> dict[str, int]:
    """Windows programs in a prefix, and how Linux executes them: personality(2)."""
    found = {}
    for pid in prefix.processes():
        process = Path(f"/proc/{pid}")
        try:
            if not (process / "exe").readlink().name.startswith("wineserver"):
                name = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[f"{pid} {name}"] = int((process / "personality").read_text(), 16)
        except OSError:
            continue  # it has just ended
    return found
