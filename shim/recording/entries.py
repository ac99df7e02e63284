"""Entries as they are written: wall-clock times, documents parsed, secrets removed. Runs in the sender's thread."""

from __future__ import annotations

from shim.lean_json import dumps, loads
from shim.recording import requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.recording.scrub import Scrubber

    Entry = dict[str, Any]

# An entry must fit into a message of ttrpc, which has at most 4 MiB.
MAX_ENTRY = 2 << 20


class EntryWriter:
    """`offset` is between the clock of the entries and the wall clock, in nanoseconds."""

    def __init__(self, scrubber: Scrubber, offset: int) -> None:
        self._scrub = scrubber
        self._offset = offset

    def line(self, entry: Entry) -> str:
        """ "" if nothing of it is written."""
        if entry["kind"] == "secrets":
            requests.learn(entry["method"], entry["payload"], self._scrub)
            return ""
        try:
            line = dumps(self._readable(entry))
        except Exception as error:
            line = dumps({"kind": "unreadable", "entry": entry.get("kind"), "error": type(error).__name__})
        if len(line) > MAX_ENTRY:
            line = dumps({"kind": "too large", "entry": entry.get("kind"), "bytes": len(line)})
        return line

    def _readable(self, entry: Entry) -> Entry:
        """The entry as it is written: times of the wall clock, documents parsed, secrets removed."""
        found = {name: value + self._offset if name in ("begin", "end", "time") and value else value
                 for name, value in entry.items()}  # fmt: skip
        scrub = self._scrub
        kind = entry["kind"]
        if kind == "rpc":
            return self._rpc(found)
        if kind == "spec":
            documents: requests.CreateDocuments = entry["documents"]
            return documents.entry(found["time"], scrub)
        if kind == "call":
            strings = entry.get("strings")
            if strings is not None:
                found["strings"] = [None if one is None else _document(one, scrub) for one in strings]
            if entry.get("document"):
                found["document"] = _document(entry["document"], scrub, failed=entry["code"] >= 0x80000000)
        elif kind == "event":
            found["data"] = _document(entry["data"], scrub)
        elif kind in ("guest", "notification"):
            for name in ("request", "response", "body"):
                if entry.get(name) is not None:
                    found[name] = scrub.document(entry[name])
                    if found[name].get("Result"):
                        found[name] = scrub.failure(found[name])
        elif kind == "job":
            for name in ("arguments", "result"):
                found[name] = scrub.document(entry.get(name))
            if entry.get("error"):
                found["error"] = [entry["error"][0], scrub.text(entry["error"][1])]
        elif kind == "log":
            found["msg"] = scrub.text(entry["msg"])
            found["fields"] = {name: scrub.text(value) for name, value in entry["fields"].items()}
        elif kind == "span":
            found["children"] = [(name, begin + self._offset, end + self._offset, failure)
                                 for name, begin, end, failure in entry["children"]]  # fmt: skip
        return found

    def _rpc(self, found: Entry) -> Entry:
        kinds = requests.message_classes(found["service"], found["method"])
        for name, index in (("request", 0), ("response", 1)):
            payload = found.get(name)
            if isinstance(payload, bytes):
                found[name] = requests.to_json(kinds[index], payload, self._scrub) if kinds else None
        if found.get("error"):
            code, message = found["error"]
            found["error"] = (code, self._scrub.text(message))
        return found


def _document(text: str, scrub: Scrubber, failed: bool = False) -> Any:
    """Parsed, if it is a document. That of a failure may quote what failed."""
    if text[:1] in ("{", "["):
        try:
            found = scrub.document(loads(text))
        except ValueError:
            pass
        else:
            return scrub.failure(found) if failed else found
    return scrub.text(text) if failed else text
