"""promtool, as `scripts/promtool.sh` has built it, and the files that it checks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "observability"


def promtool_program() -> str:
    """Skips the test without one; `make test-observability` builds it first."""
    cache = os.environ.get("RUNHCS_CACHE") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "containerd-shim-runhcs"
    )
    found = sorted(Path(cache).glob("promtool-v*"))
    programs = [path for path in found if not path.name.endswith(".partial")]
    if not programs:
        pytest.skip("promtool is not built: make test-observability")
    return str(programs[-1])
