"""Compares a recording with its replay. A difference is one line that is the same in every run, so that
`tests.parity.expected` can list it with its reason."""

from __future__ import annotations

import difflib
import json
import re
from typing import Any

from tests.parity.calls import Call


def answers(recorded: list[dict[str, Any]], ours: list[dict[str, Any]]) -> list[str]:
    differences = []
    for index, theirs in enumerate(recorded):
        if index >= len(ours):
            differences.append(f"{theirs['op']}: not answered")
            continue
        differences += [f"{theirs['op']}: {line}" for line in _answer(theirs, ours[index])]
    return differences + [f"{extra['op']}: not in the recording" for extra in ours[len(recorded) :]]


def _answer(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    if theirs["op"] != ours["op"]:
        return [f"is {ours['op']} here"]
    if theirs["op"] == "Shutdown":  # a race: the response, or the close of the connection
        return []
    if "code" in theirs or "code" in ours:
        if theirs.get("code") != ours.get("code"):
            return [f"code {_code(theirs)}, here {_code(ours)}"]
        if not _comparable(ours["text"]).startswith(_comparable(theirs["text"])):
            return [f"text {theirs['text']!r}, here {ours['text']!r}"]
        return []
    if "error" in theirs or "error" in ours:
        return [] if theirs.get("error") == ours.get("error") else [f"{theirs.get('error')}, here {ours.get('error')}"]
    differences = document(theirs["answer"], ours["answer"])
    if theirs["op"] in ("Pids", "Stats"):  # a recording omits values that are zero
        differences = [line for line in differences if not line.endswith("not in theirs")]
    return differences


# Wine's message of a Windows error code, at the end of a text.
_WINE_MESSAGE = re.compile(r"(?<=: )[A-Z][\w' ]*\.( \(0x[0-9a-f]+\))?( \(first call\))?$")


def _comparable(text: str) -> str:
    """The part of an error text that ours must begin with: without the messages of error codes, which come from Wine,
    and without the name of the error class."""
    text = text.partition("\n")[0].partition("winapi error")[0].replace("\\\\", "\\")
    text = _WINE_MESSAGE.sub("", text)
    text = re.sub("(?<=guest RPC failure: ).*", "", text)  # the text of the guest
    for kind in ("not found", "failed precondition", "already exists", "invalid argument", "not implemented"):
        text = text.removesuffix(kind).removesuffix(": ")
    # Parity does not include Go's format of structures.
    for inner in (": CreateFile ", ": GetFileAttributesEx ", ": {", ": &{", "{Destination", "*layers."):
        text = text.partition(inner)[0]
    return " ".join(text.split())  # as in errors of ours


def _code(answer: dict[str, Any]) -> str:
    return str(answer.get("code") or "OK")


# They follow an exit, or a kill, while a client goes on with other calls. The journal has requests to guests when they
# are answered, and the last one of these is answered at the exit.
_FREE_ORDER = ("HcsCloseProcess", "HcsCloseComputeSystem", "event", "guest:WaitForProcess")


def calls(recorded: list[Call], ours: list[Call], in_order: bool = True) -> list[str]:
    """Missing calls (`-`), additional calls (`+`), and differences of documents."""
    if not in_order:
        return _aligned(*_unmatched(recorded, ours))
    free = [[call for call in side if call.name in _FREE_ORDER] for side in (recorded, ours)]
    ordered = [[call for call in side if call.name not in _FREE_ORDER] for side in (recorded, ours)]
    return [*_aligned(*ordered), *_aligned(*_unmatched(*free))]


def _unmatched(recorded: list[Call], ours: list[Call]) -> tuple[list[Call], list[Call]]:
    """What one side has and the other has not, without their order."""
    return sorted(_without(recorded, ours), key=_key), sorted(_without(ours, recorded), key=_key)


def _aligned(recorded: list[Call], ours: list[Call]) -> list[str]:
    differences = []
    matcher = difflib.SequenceMatcher(None, [call.key for call in recorded], [call.key for call in ours], False)
    for operation, first, last, our_first, our_last in matcher.get_opcodes():
        if operation == "equal":
            for theirs, our in zip(recorded[first:last], ours[our_first:our_last], strict=True):
                differences += [f"{theirs.key}: {line}" for line in document(theirs.document, our.document)]
            continue
        differences += [f"- {call.key}" for call in recorded[first:last]]
        differences += [f"+ {call.key}" for call in ours[our_first:our_last]]
    return differences


def _without(calls: list[Call], others: list[Call]) -> list[Call]:
    """The calls that are not, as often, among the others."""
    left, unmatched = list(others), []
    for call in calls:
        if call in left:
            left.remove(call)
        else:
            unmatched.append(call)
    return unmatched


def _key(call: Call) -> str:
    return call.key


def document(theirs: Any, ours: Any, path: str = "") -> list[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        differences = []
        for name in sorted({*theirs, *ours}):
            where = f"{path}.{name}".strip(".")
            if name not in ours:
                differences.append(f"{where} is missing")
            elif name not in theirs:
                differences.append(f"{where} is {_show(ours[name])}, not in theirs")
            else:
                differences += document(theirs[name], ours[name], where)
        return differences
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [line for index, pair in enumerate(zip(theirs, ours, strict=True))
                for line in document(*pair, f"{path}[{index}]")]  # fmt: skip
    return [] if theirs == ours else [f"{path or 'it'} is {_show(theirs)}, here {_show(ours)}"]


def _show(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
