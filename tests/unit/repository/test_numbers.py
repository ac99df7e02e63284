"""Digits of other scripts are no numbers: `isdigit` is true for a superscript two, which `int` refuses."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CHECKS = re.compile(r"(\S*)\.(isdigit|isdecimal|isnumeric)\(\)")
# Of bytes, where only ASCII digits are digits.
BYTES = {"shim/platform/linux/shared.py"}
# Names of processes in /proc.
KERNEL = {"runhcs/demo/leak_checks.py", "runhcs/install/linux_system.py"}


def test_digits_are_checked_to_be_ascii() -> None:
    wrong = []
    for package in ("shim", "runhcs"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            for number, line in enumerate(path.read_text().splitlines(), 1):
                code = line.partition("#")[0]
                if CHECKS.search(code) and "isascii()" not in code and name not in BYTES | KERNEL:
                    wrong.append(f"{name}:{number}: {line.strip()}")
    assert not wrong
