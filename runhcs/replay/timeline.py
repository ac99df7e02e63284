"""Keeps the order of a recording: a request is sent, and an event happens, after everything that had ended before it.

What has no place in the order (a poll that the shim makes after a while) is not waited for. If something that was
recorded does not happen, everything else goes on after PATIENCE.
"""

from __future__ import annotations

import threading
import time

# A shim on a busy machine answers within this time.
PATIENCE = 30.0


class Timeline:
    """`ends` has the time at which each item ended, in nanoseconds of the recording. Items are compared by identity."""

    def __init__(self, ends: list[tuple[int, object]]) -> None:
        self._open = sorted(ends, key=lambda one: one[0])
        self._condition = threading.Condition()
        #: Items that did not happen in time.
        self.late: list[object] = []

    def done(self, item: object) -> None:
        with self._condition:
            self._open = [one for one in self._open if one[1] is not item]
            self._condition.notify_all()

    def wait_before(self, moment: int) -> None:
        """Wait until every item that had ended before this moment has been done."""
        deadline = time.monotonic() + PATIENCE
        with self._condition:
            while self._open and self._open[0][0] < moment:
                if not self._condition.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    late = [one for one in self._open if one[0] < moment]
                    self.late += [item for _, item in late]
                    self._open = self._open[len(late) :]
