"""The native launcher accepts every runtime option: a missing one makes each `start` with it run in Python."""

from __future__ import annotations

import re
from pathlib import Path

from shim.oci.option_table import OPTIONS

SOURCE = Path(__file__).resolve().parents[3] / "launcher" / "common" / "runtime_options.c"


def test_launcher_knows_the_number_of_every_option() -> None:
    text = SOURCE.read_text()
    names = dict(re.findall(r"\b([A-Z_]+) = (\d+)", text))
    cases = re.findall(r"case (\w+):", text)
    assert {int(names.get(case, case)) for case in cases} == {option.number for option in OPTIONS if option.number}
