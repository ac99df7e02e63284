"""The log of a shim, read as containerd reads it: from the FIFO `log` of the bundle."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path

from tests.support.eventually import eventually

_END = b"end of the log FIFO\n"
_FIELD = re.compile(r'([^\s=]+)=("(?:[^"\\]|\\.)*"|\S*)')


class LogLine:
    """One logrus line: level, message and the other fields, as text."""

    def __init__(self, line: str) -> None:
        fields = {name: json.loads(value) if value[:1] == '"' else value for name, value in _FIELD.findall(line)}
        assert fields.pop("time"), line
        self.level = fields.pop("level")
        self.message = fields.pop("msg", "")
        self.fields = fields

    def __repr__(self) -> str:
        return f"{self.level} {self.message!r} {self.fields}"


class LogFifo:
    def __init__(self, bundle: Path) -> None:
        path = bundle / "log"
        os.mkfifo(path, 0o600)
        self._data = b""
        self._descriptor = os.open(path, os.O_RDWR)  # O_RDWR: as a writer of its own it never reads end of file
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._data.endswith(_END):
            self._data += os.read(self._descriptor, 1 << 16)
        os.close(self._descriptor)

    @property
    def text(self) -> str:
        """All whole lines so far."""
        return self._data.removesuffix(_END).rpartition(b"\n")[0].decode()

    def lines(self, *levels: str) -> list[LogLine]:
        """The lines of these levels, or of all."""
        found = [LogLine(line) for line in self.text.splitlines()]
        return [line for line in found if not levels or line.level in levels]

    def wait_for(self, message: str, **fields: str) -> LogLine:
        """The first line with this message and these fields, once it has arrived."""

        def find() -> LogLine | None:
            for line in self.lines():
                if line.message == message and fields.items() <= line.fields.items():
                    return line
            return None

        found = eventually(find, f"log line {message!r} {fields} in:\n{self.text}")
        assert found is not None
        return found

    def close(self) -> None:
        """Read all lines written so far, then stop."""
        if self._thread.is_alive():
            os.write(self._descriptor, _END)
            self._thread.join(60)
            assert not self._thread.is_alive()
