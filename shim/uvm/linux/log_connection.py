"""The log of a Linux guest: what the guest agent writes to stderr, on one connection for the VM's lifetime.

The agent writes one JSON object per line (logrus). Its entries become entries of the shim's log. Anything else is the
end of the agent, such as the stack traces of a panic: from there on all text is collected and logged as one entry.

The connection is read until its end, whatever it carries: a guest that cannot write its log does not go on. What is
kept is bounded, and entries above the rate are counted instead of logged.
"""

from __future__ import annotations

import json
import time
from threading import Event, Lock

from shim import logs
from shim.threads import run_soon
from shim.uvm.gcs.guest_entries import FLOOD_BYTES, RateLimit, pause_after, safe_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.logs import Log
    from shim.platform.hvsocket import Stream

# A longer line is no entry of the agent.
MAX_LINE = 256 << 10
# How much is kept of what an agent writes that has failed.
MAX_TERMINATION = 32 << 10
DRAIN_SECONDS = 1.0
READ_SIZE = 8 << 10
# Members of an entry that are not fields of ours.
_STANDARD = ("time", "level", "msg")


class LogConnection:
    """One thread, which ends with the connection."""

    def __init__(self, stream: Stream, log: Log, vm_id: str) -> None:
        self._stream = stream
        self._lock = Lock()
        self._closed = False
        self._entries = Entries(log.bind(**{"uvm-id": vm_id}))
        self._ended = Event()
        run_soon(self._run)

    def close(self) -> None:
        """The VM has exited: what it has sent is still read, for a moment."""
        self._ended.wait(DRAIN_SECONDS)
        self._close_stream()
        self._ended.wait(DRAIN_SECONDS)

    def _run(self) -> None:
        try:
            self._read()
        finally:
            self._ended.set()

    def _read(self) -> None:
        try:
            while data := self._stream.recv(READ_SIZE):
                begun = time.monotonic()
                self._entries.feed(data)
                if self._entries.rate.is_exceeded or len(data) >= FLOOD_BYTES:
                    pause_after(begun)
        except OSError:
            pass  # the VM has exited
        except Exception as error:
            self._entries.report_failure(error)
        self._entries.end()
        self._close_stream()

    def _close_stream(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._stream.close()


class Entries:
    """The bytes of a log, as entries of `log`. `clock` is for tests."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._line = b""
        #: What the agent wrote from its failure on, None while it writes entries.
        self._termination: bytes | None = None
        self.rate = RateLimit(log, clock)

    def feed(self, data: bytes) -> None:
        if self._termination is not None:
            self._collect(data)
            return
        *lines, self._line = (self._line + data).split(b"\n")
        for number, line in enumerate(lines):
            if not self._take(line):
                rest = b"\n".join([*lines[number:], self._line])
                self._line = b""
                self._terminated(rest)
                return
        if len(self._line) > MAX_LINE:
            rest, self._line = self._line, b""
            self._terminated(rest)

    def end(self) -> None:
        """The connection is closed."""
        if self._line and not self._take(self._line):
            self._terminated(self._line)
        self._line = b""
        self.rate.report()
        text = (self._termination or b"").decode("utf-8", "replace").strip()
        if text:
            self._log.error("gcs terminated", stderr=text)
        self._termination = None

    def report_failure(self, error: Exception) -> None:
        self._log.warning("guest log could not be read", error=f"{type(error).__name__}: {error}")

    def _terminated(self, rest: bytes) -> None:
        self._termination = b""
        self._collect(rest)

    def _collect(self, data: bytes) -> None:
        assert self._termination is not None
        self._termination += data[: MAX_TERMINATION - len(self._termination)]

    def _take(self, line: bytes) -> bool:
        """Log the entries of a line. False if it has anything else."""
        text = line.decode("utf-8", "replace").strip()
        decoder = json.JSONDecoder()
        position = 0
        while position < len(text):
            begin = position
            try:
                entry, position = decoder.raw_decode(text, begin)
            except (ValueError, RecursionError):
                return False
            if not isinstance(entry, dict):
                return False
            self._log_entry(entry, position - begin)
            while text[position : position + 1].isspace():
                position += 1
        return True

    def _log_entry(self, entry: dict[str, object], size: int) -> None:
        # The failures of a guest are not the shim's: fatal and panic are errors here.
        level = max(logs.ERROR, _level(entry.get("level")))
        if not self._log.enabled(level) or not self.rate.take(size):
            return
        fields = safe_fields(entry, without=_STANDARD)
        fields["vm.time"] = str(entry.get("time") or "")
        self._log.write(level, str(entry.get("msg") or ""), fields)


def _level(name: object) -> int:
    try:
        return logs.parse_level(str(name))
    except logs.LevelError:
        return logs.INFO
