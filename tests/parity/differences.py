"""All differences of one replayed case, and an outline of its recording, as lines."""

from __future__ import annotations

from typing import Any

from tests.parity import answers, calls, compare
from tests.parity.cases import Case
from tests.parity.environment import CaseEnvironment

LOG_FORWARDING = "LogForwardingSupported"


def of(
    case: Case, given: list[dict[str, Any]], journal: list[dict[str, Any]], environment: CaseEnvironment
) -> list[str]:
    """`given` are the responses of our shim, `journal` is the emulator's journal of the replay."""
    recorded = [answers.recorded(result) for result in case.run["results"]]
    lines = [f"answer {line}" for line in compare.answers(recorded, given)]
    if case.calls:
        their_hcs, their_guest = calls.recorded(case.calls)
        our_hcs, our_guest = calls.replayed(journal, environment.recorded)
        if LOG_FORWARDING not in calls.capabilities(case.calls):
            # The guest of the recording does not support it, so Microsoft's shim did not request it.
            our_guest = [call for call in our_guest if not _forwards_logs(call)]
        lines += [f"hcs {line}" for line in compare.calls(their_hcs, our_hcs, not case.has_pairs)]
        lines += [f"guest {line}" for line in compare.calls(their_guest, our_guest, not case.has_pairs)]
    return [normalize(case, line) for line in lines]


def outline(case: Case) -> list[str]:
    """The content of a recording: operations with their codes, calls by their keys."""
    lines = []
    for result in case.run["results"]:
        one = answers.recorded(result)
        lines.append(f"answer {one['op']} {one.get('code') or one.get('error') or 'OK'}")
    hcs, guest = calls.recorded(case.calls)
    lines += [f"hcs {call.key}" for call in hcs] + [f"guest {call.key}" for call in guest]
    lines.append(f"hcs calls {len(hcs)}")
    if case.is_linux:
        lines.append("linux container")
        if not case.pod and ((case.spec.get("process") or {}).get("user") or {}).get("username"):
            lines.append("standalone user by name")
    if any(step.startswith(("restart", "outage:")) for step in case.run["steps"]):
        lines.append("restart of containerd")
    if case.has_pairs:
        lines.append("calls at the same time")
    annotations = case.spec.get("annotations") or {}
    if annotations.get("microsoft.com/hostprocess-container"):
        lines.append("host process container")
    if "io.microsoft.virtualmachine.forwardlogs.sources" in annotations:
        lines.append("annotation of log sources")
    sources = [mount.get("source") for mount in case.spec.get("mounts") or ()]
    if len(set(sources)) < len(sources):
        lines.append("a source is mounted twice")
    if str(case.run.get("fail") or "").partition("@")[0].endswith("=crash"):
        lines.append("crash of the guest")
    return [f"case {case.name}", *(normalize(case, line) for line in lines)]


def normalize(case: Case, line: str) -> str:
    words = [_word(case.id, word) for word in line.split(" ")]
    return " ".join(words)


def _word(own: str, word: str) -> str:
    bare = word.rstrip(":")
    return word.replace(own, "<id>") if bare in (own, f"{own}@vm") else word


def _forwards_logs(call: calls.Call) -> bool:
    return isinstance(call.document, dict) and call.document.get("PropertyType") == "LogForwardService"
