"""A small root file system for containers of tests: a shell and a few programs of this machine, with the libraries
they need."""

from __future__ import annotations

from pathlib import Path

from tests.support.programs import copy_program, find_program

PROGRAMS = ("sh", "sleep", "true", "false", "cat", "echo", "dd", "head", "ls", "stty", "env", "id", "touch")


def make_image(directory: Path) -> Path:
    for name in ("bin", "dev", "etc", "proc", "sys", "tmp"):
        (directory / name).mkdir(parents=True)
    for name in PROGRAMS:
        copy_program(directory, find_program(name), f"bin/{name}")
    (directory / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000:user:/:/bin/sh\n")
    return directory
