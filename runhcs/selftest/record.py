"""Answers of HCS that `selftest --record DIR` stores, as parity cases for the emulator.

One file for each build, `selftest-BUILD.json`. `layers` are sequences of layer calls with the code that each returned,
`systems` are calls on a compute system that its state does not allow. Tests make the same calls on the emulator and
compare the codes. `queries` are documents that HCS and HCN returned. `scenarios` are what containers did: output, exit
codes, events.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import define, field

from shim.platform import host
from shim.version import VERSION

FORMAT = 1


@define
class Recording:
    layers: list[dict[str, Any]] = field(factory=list)
    #: Calls on a compute system in the wrong order, with the code of each.
    systems: list[dict[str, Any]] = field(factory=list)
    queries: list[dict[str, Any]] = field(factory=list)
    scenarios: dict[str, Any] = field(factory=dict)

    def write(self, directory: Path, build: int) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"selftest-{build}.json"
        content = {
            "format": FORMAT, "version": VERSION, "build": build, "revision": host.revision(),
            "emulated": host.IS_EMULATED, "layers": self.layers, "systems": self.systems, "queries": self.queries,
            "scenarios": self.scenarios,
        }  # fmt: skip
        path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return path
