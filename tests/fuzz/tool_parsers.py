"""Untrusted input of `runhcs`: reports to the agent, and recordings. As in `tests.fuzz.parsers`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from runhcs.agent.history import History
from runhcs.agent.report import ReportError, read_report
from runhcs.agent.report_metrics import ReportMetrics
from runhcs.recording import reading
from runhcs.recording.reading import RecordingError
from runhcs.replay.conversion import convert
from runhcs.replay.paths import HostPaths

_DIRECTORY = "/replay"


def agent_reports(data: bytes) -> None:
    """What can be read can also be counted and shown."""
    try:
        report = read_report(data.decode("utf-8", "replace"))
    except ReportError as error:
        assert str(error)
        return
    registry = CollectorRegistry()
    ReportMetrics(registry).add(report)
    History().add(report)
    generate_latest(registry)


def recordings(data: bytes) -> None:
    """What can be read is converted or refused, and no path of it leads out of the directory."""
    try:
        recording = reading._read("file", data.decode("utf-8", "replace").split("\n"))
        for shim in recording.shims:
            converted = convert(shim)
            paths = HostPaths(_DIRECTORY)
            for entry in converted.specs.values():
                for path in entry.get("paths") or ():
                    local = paths.inside(path)
                    assert local.startswith(_DIRECTORY + "/") and ".." not in local.split("/")
    except RecordingError as error:
        assert str(error)
