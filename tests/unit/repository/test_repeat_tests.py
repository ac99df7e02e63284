"""`make test-repeat`: what it reads in the output of a run."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

import repeat_tests  # noqa: E402

PASSED = """
== running unit+emulated
........ [100%]
SKIPPED [1] tests/unit/test_b.py:3: no browser
1310 passed, 4 skipped in 54.75s
== running wine
================= 150 passed in 610.20s (0:10:10) =================
== levels run: unit,emulated,wine
"""
RETRIED = """
FAILED tests/wine/test_a.py::test_pod[less than one] - AssertionError: 2 passed in 3s
================= 1 failed, 149 passed in 610.20s (0:10:10) =================
\x1b[1m== retrying alone: tests/wine/test_a.py::test_pod[less than one]\x1b[0m
1 passed in 9.00s
flaky, passed on retry: tests/wine/test_a.py::test_pod[less than one]
"""
FAILED = """
FAILED tests/unit/test_a.py::test_one - AssertionError
ERROR tests/unit/test_a.py::test_two
1 failed, 20 passed, 1 error in 1.00s
"""


def test_clean_run() -> None:
    run = repeat_tests.Run(PASSED, 0)
    assert run.is_clean and run.tests == 1460
    assert run.row("abc1234", "3 on 2 cores", 754).endswith("| abc1234 | 3 on 2 cores | 1460 | 13 | none |")


def test_retried_test_is_named_and_counted_once() -> None:
    run = repeat_tests.Run(RETRIED, 0)
    assert not run.is_clean and run.tests == 150
    assert run.retried == ["tests/wine/test_a.py::test_pod[less than one]"] and run.failed == []


def test_failed_tests_are_named() -> None:
    run = repeat_tests.Run(FAILED, 1)
    assert not run.is_clean and run.tests == 22
    assert run.failed == ["tests/unit/test_a.py::test_one", "tests/unit/test_a.py::test_two"]
    assert "test_one; tests/unit/test_a.py::test_two |" in run.row("abc1234", "3 on 2 cores", 60)


def test_run_that_ends_without_tests_is_not_clean() -> None:
    run = repeat_tests.Run("no C compiler", 1)
    assert not run.is_clean and "exit code 1" in run.row("abc1234", "3 on 2 cores", 60)
