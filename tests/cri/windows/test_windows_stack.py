"""critest.exe, containerd.exe and either shim under Wine: every spec passes, except those in exceptions.toml.

Each run takes minutes (`make test-cri-wine`). It has a Wine prefix and a network namespace of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cri.windows.critest import PASSED
from tests.cri.windows.exceptions import expected_states
from tests.cri.windows.node import SHIMS
from tests.wine.conftest import ROOT

RUN_TIME = 3000


@pytest.mark.timeout(RUN_TIME + 60)
@pytest.mark.parametrize("shim", SHIMS)
def test_critest_passes_except_listed_specs(shim: str, tmp_path: Path) -> None:
    result = run_critest(shim, tmp_path)
    expected = expected_states(shim)
    outcomes = {outcome["spec"]: outcome for outcome in result["specs"]}
    wrong = [
        f"{spec}: {outcome['state']} in {outcome['seconds']} s, expected {expected.get(spec, PASSED)}\n"
        f"{outcome['message']}\n{outcome['diagnosis']}"
        for spec, outcome in outcomes.items()
        if outcome["state"] != expected.get(spec, PASSED)
    ]
    assert not wrong, "\n\n".join(wrong)
    assert set(expected) <= set(outcomes), "exceptions.toml has specs that critest does not have"
    if shim == "ours":
        assert result["leaks"] == ""


def run_critest(shim: str, directory: Path) -> dict[str, Any]:
    output = directory / "result.json"
    command = ["unshare", "--net", sys.executable, "-m", "tests.cri.windows.run", shim, str(output)]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=RUN_TIME, text=True, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    result: dict[str, Any] = json.loads(output.read_text())
    assert result["specs"], "critest has run no spec"
    return result
