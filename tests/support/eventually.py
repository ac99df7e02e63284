"""Wait for a condition: the only way tests wait. Also used inside Wine: imports only the standard library."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TIMEOUT = 60.0


def eventually(
    condition: Callable[[], T], what: str = "the condition", timeout: float = TIMEOUT, interval: float = 0.005
) -> T:
    """Poll until `condition` returns something true, and return that. Fails naming `what` after `timeout` seconds.

    `interval` is longer where a check is expensive, e.g. starts a program under Wine.
    """
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}"
        time.sleep(interval)
    return value
