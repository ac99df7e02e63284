"""critest.exe, one process for each spec, so that a spec that hangs affects no other one.

The time of a spec is limited three times: after WATCH_TIME its state is collected (`CritestNode.diagnose`), after
SPEC_TIME critest itself interrupts it and cleans up, and after KILL_TIME its process is killed.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from pathlib import Path

from attrs import frozen

from tests.cri.windows.node import CritestNode
from tests.support.eventually import eventually
from tests.wine.conftest import go_programs

WATCH_TIME = 180.0
SPEC_TIME = 200
KILL_TIME = 260.0
LIST_TIME = 120.0
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@frozen
class Outcome:
    """The result of one spec."""

    spec: str
    state: str
    seconds: float
    #: Why it failed or was skipped, as critest reports it.
    message: str = ""
    #: What shims and containerd did when it had hung for WATCH_TIME.
    diagnosis: str = ""


class Critest:
    def __init__(self, node: CritestNode) -> None:
        self._node = node
        self._reports = node.directory / "reports"
        self._reports.mkdir()
        shutil.copy(go_programs("critest") / "critest.exe", node.directory)

    def wait_until_ready(self) -> None:
        """Wait until CRI has its network, which it sets up after containerd has started."""
        spec = next(spec for spec in self.list_specs() if "runtime conditions" in spec)
        eventually(lambda: self.run(spec).state == PASSED, "the network of CRI")

    def list_specs(self) -> list[str]:
        """The specs that critest has on Windows, without its benchmarks."""
        reports = self._run("--ginkgo.dry-run", timeout=LIST_TIME)[1]
        assert reports, "critest.exe --ginkgo.dry-run has written no report"
        return sorted(_name(report) for report in reports if report["State"] != SKIPPED)

    def run(self, spec: str, watch_time: float = WATCH_TIME) -> Outcome:
        diagnosis: list[str] = []
        watchdog = threading.Timer(watch_time, lambda: diagnosis.append(self._node.diagnose()))
        watchdog.start()
        began = time.monotonic()
        try:
            # Names are matched after the name of the suite.
            focus = rf"^CRI validation {re.escape(spec)}$"
            flags = (f"--ginkgo.focus={focus}", f"--ginkgo.timeout={SPEC_TIME}s", "--ginkgo.grace-period=30s")
            output, reports = self._run(*flags, timeout=KILL_TIME)
        finally:
            watchdog.cancel()
            watchdog.join()  # a diagnosis that has begun is completed
        seconds = round(time.monotonic() - began, 1)
        found = [report for report in reports if _name(report) == spec and report.get("RunTime")]
        if not found:
            state, message = FAILED, f"critest has not reported the spec:\n{output[-3000:]}"
        else:
            state, message = found[0]["State"], _failure(found[0])
        if state not in (PASSED, SKIPPED):
            state = FAILED
            message += self._node.remove_pods()
        return Outcome(spec, state, seconds, message, "".join(diagnosis))

    def _run(self, *flags: str, timeout: float) -> tuple[str, list[dict[str, object]]]:
        """Run critest. Returns its output and its reports of specs."""
        report = self._reports / "report.json"
        report.unlink(missing_ok=True)
        name = self._node.name
        endpoint = self._node.address.replace("\\", "/")
        options = [f"--runtime-endpoint=npipe:{endpoint}", rf"--ginkgo.json-report=C:\{name}\reports\report.json"]
        command = [rf"C:\{name}\critest.exe", *options, "--ginkgo.no-color", *flags]
        done = self._node.machine.run(*command, timeout=timeout)
        return done.stdout.decode(errors="replace"), _specs(report)


def _specs(report: Path) -> list[dict[str, object]]:
    if not report.exists():
        return []
    suites = json.loads(report.read_text())
    return [spec for suite in suites for spec in suite["SpecReports"] or () if spec["LeafNodeType"] == "It"]


def _name(report: dict[str, object]) -> str:
    containers = report["ContainerHierarchyTexts"] or []
    assert isinstance(containers, list)
    return " ".join([*containers, str(report["LeafNodeText"])])


def _failure(report: dict[str, object]) -> str:
    failure = report.get("Failure")
    return str(failure["Message"]) if isinstance(failure, dict) else ""
