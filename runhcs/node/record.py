"""A version that failed on this node, so that it is not tried again and again: each attempt may restart containerd."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import asdict, define

from runhcs.install import files

FILE = "node.json"
FIRST_DELAY = 300.0
LONGEST_DELAY = 3600.0


@define
class Failure:
    #: What was tried: version, runtimes and the operator's `retry` value.
    fingerprint: str
    #: `rejected` before containerd was changed, `rolled-back` after.
    state: str
    reason: str
    next_step: str
    attempts: int = 1
    #: When to try again, in seconds since the epoch; 0 for never.
    retry_at: float = 0.0
    #: The version that containerd uses; "" if none.
    active: str = ""


class Record:
    def __init__(self, directory: Path, clock: Callable[[], float]) -> None:
        self._path = directory / FILE
        self._clock = clock

    def failure(self, fingerprint: str) -> Failure | None:
        """The failure of this attempt."""
        found = self._read()
        return found if found is not None and found.fingerprint == fingerprint else None

    def is_due(self, failure: Failure) -> bool:
        return bool(failure.retry_at) and self._clock() >= failure.retry_at

    def add(self, failure: Failure, retry: bool) -> Failure:
        """`retry`: try again later, since an attempt changes nothing that containerd uses."""
        before = self.failure(failure.fingerprint)
        failure.attempts = before.attempts + 1 if before is not None else 1
        delay = min(FIRST_DELAY * 2 ** (failure.attempts - 1), LONGEST_DELAY)
        failure.retry_at = self._clock() + delay if retry else 0.0
        files.replace(self._path, json.dumps(asdict(failure), indent=2) + "\n")
        return failure

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)

    def _read(self) -> Failure | None:
        try:
            data: Any = json.loads(self._path.read_text("utf-8"))
            return Failure(**data)
        except (OSError, ValueError, TypeError):
            return None
