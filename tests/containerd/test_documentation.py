"""The `sh` blocks of the tutorial and of the how-to pages run, in order, on each containerd."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.containerd.daemon import Containerd
from tests.support import busybox_image
from tests.support.emulator import Emulator

DOCS = Path(__file__).resolve().parents[2] / "docs"
# In this order: a page uses the results of those before it.
PAGES = (
    "tutorial/first-containers.md",
    "how-to/host-process-containers.md",
    "how-to/emulator.md",
    "how-to/troubleshooting.md",
)
PLACE = "/srv/windows"
IMAGE = "docker.io/library/busybox:latest"


def pages_script(place: Path) -> str:
    blocks = []
    for page in PAGES:
        found = re.findall(r"^```sh\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
        assert found, f"no `sh` block in {page}"
        blocks += found
    return "set -eux -o pipefail\n" + "\n".join(blocks).replace(PLACE, str(place))


def test_shell_blocks_of_the_pages_succeed(
    start_containerd: Callable[..., Containerd], emulator: Emulator, tmp_path: Path
) -> None:
    containerd = start_containerd()
    # Under the name that the pages use, so that the test downloads nothing.
    containerd.ctr("image", "import", str(busybox_image.pack(tmp_path / "image.tar", IMAGE)))
    runhcs = containerd.directory / "bin" / "runhcs"
    runhcs.write_text(f'#!/bin/sh\nexec {sys.executable} -m runhcs "$@"\n')
    runhcs.chmod(0o755)
    place = containerd.directory / "page"  # `stop` removes it
    env = containerd.env | {"CONTAINERD_ADDRESS": str(containerd.address), "CONTAINERD_NAMESPACE": "tests"}
    try:
        done = subprocess.run(
            ["bash", "-c", pages_script(place)], env=env, capture_output=True, text=True, timeout=100, check=False
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, output + containerd.log()
        for expected in (
            "Hello from a Windows base layer.",
            "Good day, ContainerUser",
            "exit code 3",
            "exit code 7",
            "isolated@vm",
            "in the pod",
            "exit code 4",
            "exit code 6",
            "uid=0(root)",
            "I am 0 on",
            "0x80370109 HCS_E_CONNECTION_TIMEOUT",
            "as expected",
            "HCS_E_UNEXPECTED_EXIT",
        ):
            assert expected in output, f"{expected!r} is not in\n{output}"
        assert "Hello from a Windows base layer." in (place / "hello.log").read_text()
    finally:
        # The pages stop the fixture's emulator and start another one.
        subprocess.run([runhcs, "emulator", "stop"], env=env, check=False, timeout=60, capture_output=True)
    containerd.expect_clean()
