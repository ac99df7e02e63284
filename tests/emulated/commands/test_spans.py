"""A shim with spans enabled writes them when it exits."""

from __future__ import annotations

import json
from pathlib import Path

from bench.harness import spans
from tests.support.shims import Shims

SLEEP = ("cmd", "/c", "ping -t 127.0.0.1 > nul")


def live(shims: Shims, id: str) -> None:
    shim = shims.start(id, shims.spec(*SLEEP))
    shim.run(rootfs=shims.rootfs())
    shim.kill(9)
    shim.wait()
    shim.delete()
    shim.shutdown()
    shim.wait_exited()


def test_spans_of_a_container_lifecycle(shims: Shims, tmp_path: Path) -> None:
    live(shims, "c0")
    assert not list(tmp_path.iterdir())
    shims.env["RUNHCS_SPANS"] = str(tmp_path)
    live(shims, "c1")
    (path,) = tmp_path.iterdir()
    assert json.loads(path.read_text())["id"] == "c1"
    found = spans.read(tmp_path)
    calls = {call.method: call for call in spans.rpcs(found)}
    assert {"Create", "Start", "Kill", "Wait", "Delete"} <= set(calls)
    create, start = calls["Create"], calls["Start"]
    assert {"options", "spec", "stdio", "network", "layers", "document", "system"} <= set(create.phases())
    assert "hcs HcsCreateComputeSystem" in create.phases()
    assert {"launch", "stdio", "hcs HcsStartComputeSystem", "hcs HcsCreateProcess"} <= set(start.phases())
    assert {one.task for one in [*create.inside, *start.inside]} == {"c1"}
    assert 0 < create.outside_ms < create.whole.milliseconds
    # The exit has its own thread, and every span ends after its beginning.
    assert "exit" in {one.name for one in found}
    assert all(one.begin <= one.end for one in found)
    assert not spans.take(tmp_path, "c2") and spans.take(tmp_path, "c1") == found
    assert not list(tmp_path.iterdir())


def test_missing_span_directory_loses_only_spans(shims: Shims, tmp_path: Path) -> None:
    shims.env["RUNHCS_SPANS"] = str(tmp_path / "missing")
    live(shims, "c1")
