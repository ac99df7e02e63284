"""The setting of glibc's malloc: the service has it, and what it starts does not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hcs_emulator.service.malloc import SETTING, VARIABLE

# Prints its arguments, whether glibc has read the setting at the start, and what a child gets.
PROGRAM = f"""
import os, sys
from hcs_emulator.service.malloc import disable_thread_cache

disable_thread_cache()
with open("/proc/self/environ") as file:
    print(sys.argv[1:], "{SETTING}" in file.read(), os.environ.get("{VARIABLE}"))
"""


@pytest.mark.parametrize("before", [None, "glibc.malloc.check=1"])
def test_setting_is_of_the_service_alone(before: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if before is not None:
        environment[VARIABLE] = before
    command = [sys.executable, "-c", PROGRAM, "--directory", "with space"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == f"['--directory', 'with space'] True {before}"
