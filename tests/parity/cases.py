"""The recorded cases: the HCS calls and responses of Microsoft's shim, grouped by pod.

A case is one file in `cases`: the spec, the steps of the driver and their results (`run`), and every call to HCS or
the guest. Cases of one pod were recorded in sequence with the same shim, and are replayed so. PARITY_CASES lists
directories with more cases.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases"
MORE_CASES = "PARITY_CASES"
SANDBOX_ID = "io.kubernetes.cri.sandbox-id"


@dataclass(frozen=True)
class Case:
    name: str
    spec: dict[str, Any]
    run: dict[str, Any]
    calls: list[dict[str, Any]]

    @property
    def id(self) -> str:
        """The id of the task: the name of the scratch directory."""
        for mount in self.run.get("rootfs") or []:
            if mount["source"] and "none" not in mount["source"]:
                return str(mount["source"]).rpartition("\\")[2]
        return str(self.run["scenario"])

    @property
    def is_ours(self) -> bool:
        """Whether the case is in the repository."""
        return (CASES / f"{self.name}.json").exists()

    @property
    def attaches(self) -> bool:
        """Whether the case continues with the shim that an earlier case started."""
        return "attach" in self.run["steps"]

    @property
    def has_pairs(self) -> bool:
        """Whether two different calls are made at the same time: the order of their calls of HCS is not determined."""
        return any(step.startswith("pair:") for step in self.run["steps"])

    @property
    def pod(self) -> str:
        annotations = self.spec.get("annotations") or {}
        return str(annotations.get(SANDBOX_ID, ""))

    @property
    def is_linux(self) -> bool:
        return "linux" in self.spec

    @property
    def is_hypervisor(self) -> bool:
        options = self.run.get("options") or {}
        return "hyperv" in (self.spec.get("windows") or {}) or options.get("sandboxIsolation") == "HYPERVISOR"


def load(path: Path) -> Case:
    recorded = json.loads(path.read_text())
    return Case(path.stem, recorded["spec"], recorded["run"], recorded["calls"] or [])


def groups() -> dict[str, list[Case]]:
    """All cases by the name of their replay: that of the case, or that of its pod."""
    directories = [CASES, *(Path(name) for name in os.environ.get(MORE_CASES, "").split(":") if name)]
    cases = [load(path) for directory in directories for path in sorted(directory.glob("*.json"))]
    members: dict[str, list[Case]] = {}
    for case in cases:
        if case.pod:
            members.setdefault(case.pod, []).append(case)
    grouped: dict[str, list[Case]] = {}
    for case in cases:
        if case.pod and any(_is_sandbox(member) for member in members[case.pod]):
            grouped[case.pod] = sorted(members[case.pod], key=_position)
        else:
            grouped[case.name] = [case]
    return grouped


def _is_sandbox(case: Case) -> bool:
    return (case.spec.get("annotations") or {}).get("io.kubernetes.cri.container-type") == "sandbox"


def _position(case: Case) -> tuple[int, str]:
    if not _is_sandbox(case):
        return 1, case.name
    if not case.attaches:
        return 0, case.name
    return (2, case.name) if "kill" in " ".join(case.run["steps"]) else (3, case.name)
