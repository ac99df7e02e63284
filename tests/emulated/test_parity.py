"""Replays the recorded cases of Microsoft's shim and compares HCS calls, guest messages and responses.

Every difference is in `tests/parity/expected.py` with its reason: a heading of docs/reference/parity.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.parity import cases, differences
from tests.parity.environment import CaseEnvironment
from tests.parity.expected import EXPECTED
from tests.parity.replay import Replay
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shims

GROUPS = cases.groups()
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "parity.md"
RECORDED_BUILD = "18362"


@pytest.mark.parametrize("name", GROUPS)
def test_case(name: str, start_emulator: Callable[..., Emulator]) -> None:
    group = GROUPS[name]
    emulator = start_emulator("--build", RECORDED_BUILD)
    shims = Shims(emulator.env)
    shims.env["TZ"] = "UTC"
    try:
        environment = CaseEnvironment(emulator, shims.directory, group)
        replay = Replay(emulator, shims, environment)
        whole = len(emulator.journal())
        for case in group:
            begin = len(emulator.journal())
            answers = replay.run(case)
            # Some recordings begin with the pod and not with the case.
            start = whole if case.attaches and _is_whole(case) else begin
            eventually(lambda: _is_quiet(emulator), "the end of all calls")
            _check(case, differences.of(case, answers, emulator.journal()[start:], environment))
        replay.close()
    finally:
        shims.close()


def _is_whole(case: cases.Case) -> bool:
    return any(entry.get("call") == "HcsCreateComputeSystem" for entry in case.calls)


def _is_quiet(emulator: Emulator) -> bool:
    """The journal is written when a call has ended."""
    before = emulator.journal_path.stat().st_size
    emulator.control("status")
    return emulator.journal_path.stat().st_size == before


def _check(case: cases.Case, found: list[str]) -> None:
    recording = differences.outline(case)
    unlisted = [line for line in found if not any(entry.allows(line, recording) for entry in EXPECTED)]
    assert not unlisted, f"{case.name} differs from its recording:\n" + "\n".join(unlisted)
    if not case.is_ours:  # a recording from elsewhere may lack what an entry requires
        return
    missing = [
        entry for entry in EXPECTED
        if entry.is_required(recording) and not any(entry.allows(line, recording) for line in found)
    ]  # fmt: skip
    assert not missing, f"{case.name} no longer differs as listed: {missing}; found {found}"


def test_every_reason_is_written_down() -> None:
    headings = set(re.findall(r"^#+ (.+)$", PAGE.read_text(), re.MULTILINE))
    assert {entry.reason for entry in EXPECTED} <= headings


def test_every_recording_is_replayed() -> None:
    replayed: list[Any] = [case.name for group in GROUPS.values() for case in group]
    assert sorted(replayed) == sorted(set(replayed))
    assert {path.stem for path in cases.CASES.glob("*.json")} <= set(replayed)
