"""A Linux image for tests, made of Debian's busybox or busybox-static: one layer with busybox and a few files."""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.oci_image import write_image
from tests.support.programs import copy_program, find_program

NAME = "example.test/busybox:1"
GREETING = "hello from the image\n"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

PASSWD = "root:x:0:0:root:/root:/bin/sh\nalice:x:1234:4321:alice:/home:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
GROUP = "root:x:0:\nstaff:x:4321:\naudio:x:29:alice\n"
# A page for busybox's httpd, in the working directory of the image.
PAGE = "a page of the image\n"


def busybox() -> Path:
    return find_program("busybox", "busybox-static")


def copy_busybox(directory: Path) -> None:
    """With its libraries, if it is not static."""
    copy_program(directory, busybox(), "bin/busybox")


def make_root(directory: Path) -> Path:
    """The root file system: busybox with a link for each of its programs."""
    for name in ("bin", "dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "var", "www"):
        (directory / name).mkdir(parents=True)
    (directory / "tmp").chmod(0o1777)
    copy_busybox(directory)
    listed = subprocess.run([busybox(), "--list"], capture_output=True, text=True, check=True, timeout=60)
    for name in listed.stdout.split():
        if name != "busybox":
            (directory / "bin" / name).symlink_to("busybox")
    (directory / "etc" / "passwd").write_text(PASSWD)
    (directory / "etc" / "group").write_text(GROUP)
    (directory / "www" / "index.html").write_text(PAGE)
    (directory / "greeting").write_text(GREETING)
    return directory


def pack(target: Path, name: str = NAME, command: Sequence[str] = ("cat", "/greeting")) -> Path:
    """Write the image as an OCI layout for `ctr images import`."""
    root = make_root(target.parent / f"{target.name}.root")
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(root, arcname=".")
    system = {"architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux"}
    config = {"Cmd": list(command), "Env": ["PATH=/bin", "FROM=image"], "WorkingDir": "/www"}
    write_image(target, layer.getvalue(), system, config, name)
    shutil.rmtree(root)
    return target
