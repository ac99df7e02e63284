"""ETW: TraceLogging bytes against an independent decoder, and the provider against a recording advapi32."""

from __future__ import annotations

import hashlib
import threading
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.logs import DEBUG, INFO, Log, NullChannel
from shim.platform import tracelogging
from shim.platform.windows import etw, log_events
from shim.platform.windows._etw_cffi import ffi
from tests.support.tracelogging import decode

NAME, GUID = log_events.PROVIDER, log_events.GUID

no_nul = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50)
integers = st.integers(-(1 << 63), (1 << 64) - 1)
values = st.one_of(no_nul, st.booleans(), integers, st.floats(allow_nan=False), st.lists(no_nul, min_size=1))


@given(st.lists(st.tuples(no_nul.filter(bool), values), max_size=8))
def test_event_decodes_to_its_fields(fields: list[tuple[str, Any]]) -> None:
    metadata, data = tracelogging.event("LogrusEntry", [tracelogging.value(name, value) for name, value in fields])
    assert decode(metadata, data) == ("LogrusEntry", fields)


def test_integer_beyond_64_bits_becomes_text() -> None:
    metadata, data = tracelogging.event("e", [tracelogging.value("n", 1 << 64)])
    assert decode(metadata, data)[1] == [("n", str(1 << 64))]


def test_time_is_a_file_time() -> None:
    nanoseconds = 1_767_323_045_123_456_700
    metadata, data = tracelogging.event("e", [tracelogging.file_time("Time", nanoseconds)])
    assert decode(metadata, data)[1] == [("Time", datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC))]


def test_nul_characters_cannot_forge_fields() -> None:
    metadata, data = tracelogging.event("e\0x", [tracelogging.value("a\0b", "c\0d")])
    assert decode(metadata, data) == ("ex", [("ab", "cd")])


def test_event_stays_below_the_size_limit_of_etw() -> None:
    fields = [tracelogging.value(f"f{number}", "x" * 100_000) for number in range(10)]
    metadata, data = tracelogging.event("e", [*fields, tracelogging.value("last", 1)])
    assert len(metadata) + len(data) < 60 * 1024
    decoded = decode(metadata, data)[1]
    assert decoded[0][1].endswith("... (cut)") and decoded[-1] == ("last", 1)


class Advapi32:
    """Records what a provider does, and plays the session that enables it."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.guid: Any = None
        self.traits = b""
        self.events: list[tuple[int, str, list[tuple[str, Any]]]] = []
        self.handles: list[int] = []
        self.callback: Any = None

    def EventRegister(self, guid: Any, callback: Any, context: Any, handle: Any) -> int:  # noqa: N802
        self.guid = (guid.Data1, guid.Data2, guid.Data3, bytes(guid.Data4))
        self.callback = callback
        handle[0] = 77
        return self.code

    def EventSetInformation(self, handle: int, kind: int, information: Any, size: int) -> int:  # noqa: N802
        assert (handle, kind) == (77, 2)
        self.traits = bytes(ffi.buffer(information, size))
        return 0

    def EventWriteTransfer(  # noqa: N802
        self, handle: int, descriptor: Any, activity: Any, related: Any, count: int, data: Any
    ) -> int:
        blobs = [(data[i].Type, bytes(ffi.buffer(ffi.cast("char *", data[i].Ptr), data[i].Size))) for i in range(count)]
        assert blobs[0] == (2, self.traits) and blobs[1][0] == 1
        assert descriptor.Channel == 11 and descriptor.Keyword == 0
        name, fields = decode(blobs[1][1], b"".join(blob for kind, blob in blobs if kind == 0))
        self.handles.append(handle)
        self.events.append((descriptor.Level, name, fields))
        return 0

    def EventUnregister(self, handle: int) -> int:  # noqa: N802
        self.handles.append(-handle)
        return 0

    def notify(self, state: int, level: int = 0) -> None:
        self.callback(ffi.NULL, state, level, 0, 0, ffi.NULL, ffi.NULL)


ENABLE, DISABLE, CAPTURE = 1, 0, 2


def test_provider_registers_with_its_name_and_guid() -> None:
    library = Advapi32()
    provider = etw.Provider(NAME, GUID, lambda: None, library)
    assert library.guid == GUID
    assert library.traits[2:] == NAME.encode() + b"\0" and library.traits[0] == len(library.traits)
    provider.close()
    assert library.handles == [-77]


def test_provider_writes_only_what_a_session_asks_for() -> None:
    library = Advapi32()
    provider = etw.Provider(NAME, GUID, lambda: None, library)
    provider.write("e", etw.ERROR, [])
    library.notify(ENABLE, etw.WARNING)
    for level in (etw.ERROR, etw.WARNING, etw.INFO):
        provider.write("e", level, [tracelogging.value("n", level)])
    library.notify(ENABLE, 0)  # all levels
    provider.write("e", etw.VERBOSE, [])
    library.notify(DISABLE)
    provider.write("e", etw.ALWAYS, [])
    expected = [(etw.ERROR, "e", [("n", 2)]), (etw.WARNING, "e", [("n", 3)]), (etw.VERBOSE, "e", [])]
    assert library.events == expected


def test_capture_state_is_answered_in_another_thread() -> None:
    library, captured = Advapi32(), threading.Event()
    threads: list[int] = []

    def capture() -> None:
        threads.append(threading.get_ident())
        captured.set()

    etw.Provider(NAME, GUID, capture, library).is_enabled(0)
    library.notify(CAPTURE)
    assert captured.wait(60) and threads != [threading.get_ident()]


def test_registration_failure_names_the_provider() -> None:
    with pytest.raises(OSError, match=NAME):
        etw.Provider(NAME, GUID, lambda: None, Advapi32(code=8))


def test_guid_is_the_hash_of_the_provider_name() -> None:
    """As .NET's EventSource and go-winio derive it, so that tools can enable the provider by name."""
    namespace = bytes.fromhex("482C2DB2C39047C887F81A15BFC130FB")
    digest = bytearray(hashlib.sha1(namespace + NAME.upper().encode("utf-16-be")).digest()[:16])
    digest[7] = digest[7] & 0x0F | 0x50
    known = uuid.UUID("0b52781f-b24d-5685-ddf6-69830ed40ec3")
    assert uuid.UUID(bytes_le=bytes(digest)) == known
    assert known.fields[:3] == GUID[:3] and known.bytes[8:] == GUID[3]


class EnabledAtRegistration(Advapi32):
    """A session has enabled the provider before the shim starts."""

    def EventRegister(self, guid: Any, callback: Any, context: Any, handle: Any) -> int:  # noqa: N802
        code = super().EventRegister(guid, callback, context, handle)
        self.notify(ENABLE, 0)
        return code


def test_log_entries_become_logrus_events() -> None:
    library = EnabledAtRegistration()
    sink = log_events.EtwSink.register("1.2", ["shim", "serve"], lambda: None, library)
    assert sink is not None
    log = Log(NullChannel(), INFO)
    bound = log.bind(tid="c1")
    log.add_sink(sink)  # also for logs that were bound before
    bound.error("failed", pid=7, error=OSError("no"), zone="a", args=["secret"])
    bound.debug("not at this level")
    (_, launched, launch_fields), (level, name, fields) = library.events
    assert launched == "ShimLaunched"
    assert launch_fields == [("Args", ["shim", "serve"]), ("version", "1.2"), ("commit", "")]
    assert (level, name) == (etw.ERROR, "LogrusEntry")
    assert fields[0] == ("Message", "failed") and fields[1][0] == "Time"
    assert fields[2:] == [("args", "<scrubbed>"), ("pid", 7), ("tid", "c1"), ("zone", "a"), ("error", "no")]


def test_log_without_a_session_writes_no_event() -> None:
    library = Advapi32()
    sink = log_events.EtwSink.register("1.2", [], lambda: None, library)
    assert sink is not None
    log = Log(NullChannel(), DEBUG)
    log.add_sink(sink)
    log.info("created")
    assert library.events == []


def test_refused_provider_leaves_the_log_as_it_is() -> None:
    assert log_events.EtwSink.register("1.2", [], lambda: None, Advapi32(code=5)) is None
