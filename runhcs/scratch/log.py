"""The log of `create-scratch`: lines of logrus, as text or as JSON, appended to a file."""

from __future__ import annotations

import json
from typing import BinaryIO

from shim.logs import DEBUG, INFO, LEVEL_NAMES, Log, NullChannel, timestamp

FORMATS = ("text", "json")


class FileChannel:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, line: bytes) -> None:
        self._file.write(line)

    def close(self) -> None:
        self._file.close()


class JsonChannel(NullChannel):
    """Takes entries instead of lines (`shim.platform.log_channel.EventSink`)."""

    __slots__ = ("_file",)

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def close(self) -> None:
        self._file.close()


class JsonSink:
    """One object per line with logrus' members first."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, nanoseconds: int, level: int, message: str, fields: dict[str, object]) -> None:
        entry = {"level": LEVEL_NAMES[level], "msg": message, "time": timestamp(nanoseconds)}
        for name, value in fields.items():
            key = f"fields.{name}" if name in entry else name
            entry[key] = value if isinstance(value, (str, int, float, bool, type(None))) else str(value)  # type: ignore[assignment]
        self._file.write(json.dumps(entry).encode() + b"\n")


def open_log(path: str, format: str, debug: bool) -> Log:
    """Without a path there is no log. Raises OSError."""
    level = DEBUG if debug else INFO
    if not path:
        return Log(NullChannel(), level)
    file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed with the log
    if format == "text":
        return Log(FileChannel(file), level)
    log = Log(JsonChannel(file), level)
    log.add_sink(JsonSink(file))
    return log
