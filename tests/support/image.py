"""A small root file system for containers of tests: a shell and a few programs of this machine, with the libraries
they need."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

PROGRAMS = ("sh", "sleep", "true", "false", "cat", "echo", "dd", "head", "ls", "stty", "env", "id", "touch")


def make_image(directory: Path) -> Path:
    for name in ("bin", "dev", "etc", "proc", "sys", "tmp"):
        (directory / name).mkdir(parents=True)
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found, f"{name} is not on this machine"
        shutil.copy(Path(found).resolve(), directory / "bin" / name)
        linked = subprocess.run(["ldd", found], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(/\S+) \(0x", linked):
            target = directory / library.lstrip("/")
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(Path(library).resolve(), target)
    (directory / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000:user:/:/bin/sh\n")
    return directory
