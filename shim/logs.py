"""The daemon's log: logrus text lines, as operators of containerd know them, written to a channel that never blocks.

    time="2026-01-02T03:04:05.000000006Z" level=info msg="task created" pid=42 tid=web

containerd copies these lines into its own log. The order of fields and the quoting follow Go's logrus, so that
whatever reads containerd's log reads ours. The logger knows lines; where they go is a `Channel` of `shim.platform`.

Environment variables and command lines carry secrets. A field that holds one, at any depth of a document, is
replaced by `<scrubbed>` unless the options say `scrub_logs = false`: scrubbing is a property of the log, so no
caller can forget it.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from shim.platform.log_channel import EventSink

    class Channel(Protocol):
        """Where lines go. `write` never blocks and never raises: a line that cannot be taken is lost."""

        def write(self, line: bytes) -> None: ...

        def close(self) -> None: ...


PANIC, FATAL, ERROR, WARNING, INFO, DEBUG, TRACE = range(7)
LEVEL_NAMES = ("panic", "fatal", "error", "warning", "info", "debug", "trace")

SCRUBBED = "<scrubbed>"

# Names, without case and underscores, of fields that carry environment, annotations or command lines: the OCI spec's,
# HCS documents' and our own.
_SECRET_FIELDS = frozenset(
    (
        "annotations",
        "args",
        "argv",
        "command",
        "commandargs",
        "commandline",
        "credentialspec",
        "env",
        "environment",
        "environmentvariables",
    )
)

# Longer lines are cut: they would fill containerd's pipe.
MAX_LINE = 48 * 1024

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/@^+")
_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


class LevelError(ValueError):
    """Not the name of a log level."""


def parse_level(name: str) -> int:
    """A level by its logrus name, in any case; `warn` is `warning`."""
    lowered = name.lower()
    if lowered == "warn":
        return WARNING
    if lowered in LEVEL_NAMES:
        return LEVEL_NAMES.index(lowered)
    raise LevelError(f"not a valid log level: {quote(name)}; use one of {', '.join(LEVEL_NAMES)}")


def quote(text: str) -> str:
    """The text as Go's strconv.Quote writes it."""
    out = ['"']
    for char in text:
        escape = _ESCAPES.get(char)
        if escape is not None:
            out.append(escape)
        elif char.isprintable():
            out.append(char)
        else:
            out.append(_escaped(ord(char)))
    out.append('"')
    return "".join(out)


def _escaped(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, smuggled through by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _value(value: object) -> str:
    text = _plain(value)
    return text if _BARE.issuperset(text) else quote(text)


def _name(name: str) -> str:
    """logrus writes names as they are. A name that is no word could end the line and begin another: it is quoted."""
    return name if name and _BARE.issuperset(name) else quote(name)


def _plain(value: object) -> str:
    """A value as Go's fmt.Sprint shows it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, (list, tuple)):
        return "[" + " ".join(_plain(item) for item in value) + "]"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{_plain(key)}:{_plain(item)}" for key, item in sorted(value.items())) + "]"
    return str(value)


def scrub(value: object, name: str = "") -> object:
    """The value with everything that may carry a secret replaced, at any depth."""
    if name and name.replace("_", "").lower() in _SECRET_FIELDS:
        return SCRUBBED if value else value
    if isinstance(value, dict):
        return {key: scrub(item, key if isinstance(key, str) else "") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [scrub(item) for item in value]
    return value


def timestamp(nanoseconds: int) -> str:
    """RFC 3339 in UTC with nine digits, as containerd itself logs."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"


def format_line(nanoseconds: int, level: int, message: str, fields: dict[str, object]) -> bytes:
    parts = [f'time="{timestamp(nanoseconds)}" level={LEVEL_NAMES[level]}']
    if message:
        parts.append(f"msg={_value(message)}")
    # logrus renames a field that would hide one of its own.
    shown = {f"fields.{name}" if name in ("time", "level", "msg") else name: value for name, value in fields.items()}
    parts += [f"{_name(name)}={_value(shown[name])}" for name in sorted(shown)]
    line = " ".join(parts).encode("utf-8", "replace")
    if len(line) > MAX_LINE:
        line = line[:MAX_LINE].decode("utf-8", "ignore").encode() + b"... (cut)"
    return line + b"\n"


class NullChannel:
    """Takes every line and keeps none: for tests, and for options that ask for no text log."""

    __slots__ = ()

    def write(self, line: bytes) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Log:
    """A logger, thread-safe through its channel. `bind` gives one that adds fields of its own to every line."""

    __slots__ = ("_channel", "_fields", "_sinks", "level", "scrub_secrets")

    def __init__(
        self,
        channel: Channel,
        level: int = INFO,
        *,
        scrub_secrets: bool = True,
        fields: dict[str, object] | None = None,
        sinks: list[EventSink] | None = None,
    ) -> None:
        self._channel = channel
        # One list for this log and all that were bound from it.
        self._sinks = [] if sinks is None else sinks
        self.level = level
        self.scrub_secrets = scrub_secrets
        self._fields = fields or {}

    def bind(self, **fields: object) -> Log:
        merged = {**self._fields, **fields}
        return Log(self._channel, self.level, scrub_secrets=self.scrub_secrets, fields=merged, sinks=self._sinks)

    def add_sink(self, sink: EventSink) -> None:
        """Write every entry to `sink` as well, of this log and of all that were or will be bound from it."""
        self._sinks.append(sink)

    def remove_sink(self, sink: EventSink) -> None:
        self._sinks.remove(sink)

    def enabled(self, level: int) -> bool:
        """Whether a line of this level is written: check before building an expensive field."""
        return level <= self.level

    def write(self, level: int, message: str, fields: dict[str, object]) -> None:
        if level > self.level:
            return
        try:
            merged = {**self._fields, **fields} if self._fields else fields
            if self.scrub_secrets:
                merged = {name: scrub(value, name) for name, value in merged.items()}
            nanoseconds = time.time_ns()
            self._channel.write(format_line(nanoseconds, level, message, merged))
            for sink in self._sinks:
                sink.write(nanoseconds, level, message, merged)
        except Exception:
            # A log line must never end a task; an unprintable field is not worth one.
            self._channel.write(format_line(time.time_ns(), ERROR, "log line could not be formatted", {}))

    def debug(self, message: str, **fields: object) -> None:
        self.write(DEBUG, message, fields)

    def info(self, message: str, **fields: object) -> None:
        self.write(INFO, message, fields)

    def warning(self, message: str, **fields: object) -> None:
        self.write(WARNING, message, fields)

    def error(self, message: str, **fields: object) -> None:
        self.write(ERROR, message, fields)

    def close(self) -> None:
        self._channel.close()
