"""HCS's timestamps (`2026-08-20T09:15:02.1234567Z`: UTC, seven digits) as protobuf messages."""

from __future__ import annotations

from shim.api.wellknown import Timestamp

_DAYS_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


def timestamp(text: str) -> Timestamp | None:
    """None for an invalid timestamp: the stats are useful without it."""
    date, _, clock = text.rstrip("Z").partition("T")
    clock, _, fraction = clock.partition(".")
    try:
        year, month, day = (int(part) for part in date.split("-"))
        hour, minute, second = (int(part) for part in clock.split(":"))
        nanos = int(fraction[:9].ljust(9, "0")) if fraction else 0
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        before = year - 1
        days = before * 365 + before // 4 - before // 100 + before // 400 - 719162
        days += _DAYS_BEFORE_MONTH[month - 1] + (1 if leap and month > 2 else 0) + day - 1
    except (ValueError, IndexError):
        return None
    return Timestamp(seconds=days * 86400 + hour * 3600 + minute * 60 + second, nanos=nanos)
