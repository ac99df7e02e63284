"""The log of a campaign: one JSON line for each batch. A campaign with a log continues where it ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class CampaignLog:
    def __init__(self, path: Path | None, campaign: str) -> None:
        self._path = path
        self._campaign = campaign
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._batches = [one for one in map(json.loads, lines) if one["campaign"] == campaign]

    @property
    def steps(self) -> int:
        return sum(batch["steps"] for batch in self._batches)

    @property
    def seconds(self) -> float:
        return float(sum(batch["seconds"] for batch in self._batches))

    def next_seed(self, first: int) -> int:
        return max((batch["seed"] + 1 for batch in self._batches), default=first)

    def add(self, seed: int, steps: int, seconds: float) -> None:
        batch: dict[str, Any] = {"campaign": self._campaign, "seed": seed, "steps": steps, "seconds": round(seconds, 1)}
        self._batches.append(batch)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(batch) + "\n")
