"""Reads a recording. Whatever is wrong with the file is one error with a next step."""

from __future__ import annotations

import json
import os
from typing import Any

from attrs import define, field

from runhcs.recording.receiver import FORMAT, FORMAT_VERSION

# No recording is larger (`--max-size`); what is, was made by something else.
MAX_BYTES = 4 << 30

Entry = dict[str, Any]


class RecordingError(ValueError):
    """The file cannot be used; the message says why, and what to do."""


@define
class RecordedShim:
    """One shim: its identity, and its entries in the order in which they were written."""

    number: int
    identity: Entry
    entries: list[Entry] = field(factory=list)
    #: `runhcs record` has its last entry.
    is_complete: bool = True

    @property
    def name(self) -> str:
        return f"{self.identity['namespace']}/{self.identity['id']}"

    def of_kind(self, kind: str) -> list[Entry]:
        return [entry for entry in self.entries if entry["kind"] == kind]


@define
class Recording:
    header: Entry
    shims: list[RecordedShim]
    #: How many entries did not fit into the file.
    left_out: int = 0

    @property
    def command_lines(self) -> bool:
        return bool(self.header.get("command_lines"))


def read(path: str) -> Recording:
    """Raises RecordingError."""
    try:
        if os.path.getsize(path) > MAX_BYTES:
            raise RecordingError(f"{path} is larger than any recording: name a file of `runhcs record`")
        with open(path, encoding="utf-8") as file:
            return _read(path, file.read().split("\n"))
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RecordingError(f"{path} is no recording: it is not text; name a file of `runhcs record`") from None


def _read(path: str, lines: list[str]) -> Recording:
    header = _line(path, 1, lines[0], is_first=True)
    if header.get("format") != FORMAT:
        raise RecordingError(f"{path} is no recording: name a file of `runhcs record`")
    if header.get("version") != FORMAT_VERSION:
        raise RecordingError(
            f"{path} has version {header.get('version')} of the format, this program reads {FORMAT_VERSION}: use the "
            f"runhcs that recorded it ({header.get('runhcs')})"
        )
    shims: dict[int, RecordedShim] = {}
    for number, text in enumerate(lines[1:], 2):
        entry = _line(path, number, text)
        try:
            if entry["kind"] == "end":
                return _finished(header, shims, entry)
            if entry["kind"] == "shim":
                shims[entry["shim"]] = RecordedShim(entry["shim"], _identity(entry))
            else:
                shims[entry["shim"]].entries.append(entry)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise RecordingError(f"{path} is damaged: line {number} is no entry of a recording") from None
    raise _truncated(path, len(lines))


def _identity(entry: Entry) -> Entry:
    """Raises TypeError."""
    found = {"namespace": "", "id": "", "bundle": "", **entry}
    if not all(isinstance(found[name], str) for name in ("namespace", "id", "bundle")):
        raise TypeError("an identity of another form")
    return found


def _finished(header: Entry, shims: dict[int, RecordedShim], end: Entry) -> Recording:
    for number in end.get("lost", ()):
        if number in shims:
            shims[number].is_complete = False
    return Recording(header, list(shims.values()), int(end.get("left_out", 0)))


def _line(path: str, number: int, text: str, is_first: bool = False) -> Entry:
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        if is_first:
            raise RecordingError(f"{path} is no recording: name a file of `runhcs record`") from None
        raise _truncated(path, number) from None
    if not isinstance(entry, dict):
        raise RecordingError(f"{path} is damaged: line {number} is no entry of a recording")
    return entry


def _truncated(path: str, number: int) -> RecordingError:
    return RecordingError(
        f"{path} is truncated: it ends in line {number} without its end; copy the whole file, or record again and let "
        "`runhcs record` finish"
    )
