"""The host's time zone, as HCS describes one to a guest."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UTC = "Coordinated Universal Time"
# In the order of SYSTEMTIME, whose members are 16 bits each.
_DATE = ("Year", "Month", "DayOfWeek", "Day", "Hour", "Minute", "Second", "Milliseconds")
_NAME_SIZE = 64
_DATE_SIZE = 16


def utc() -> dict[str, Any]:
    return {"StandardName": UTC, "StandardDate": {}, "DaylightName": UTC, "DaylightDate": {}}


def host() -> dict[str, Any]:
    if sys.platform == "win32":
        from shim.platform.windows.time_zone import information

        if raw := information():
            return from_native(raw)
    return current()


def current() -> dict[str, Any]:
    """The current offset of this host's clock, without the dates of its changes: a VM runs for days, not seasons."""
    now = time.localtime()
    minutes = -now.tm_gmtoff // 60
    if not minutes:
        return utc()
    names = {"StandardName": now.tm_zone, "StandardDate": {}, "DaylightName": now.tm_zone, "DaylightDate": {}}
    return {"Bias": minutes, **names}


def from_native(information: bytes) -> dict[str, Any]:
    """TIME_ZONE_INFORMATION as an HCS document. Members that are zero are omitted, as in every document."""
    position = 0

    def take(size: int) -> bytes:
        nonlocal position
        position += size
        return information[position - size : position]

    def number() -> int:
        return int.from_bytes(take(4), "little", signed=True)

    def name() -> str:
        return take(_NAME_SIZE).decode("utf-16-le", "replace").partition("\0")[0]

    def date() -> dict[str, int]:
        raw = take(_DATE_SIZE)
        values = [int.from_bytes(raw[start : start + 2], "little") for start in range(0, _DATE_SIZE, 2)]
        return {member: value for member, value in zip(_DATE, values, strict=True) if value}

    zone: dict[str, Any] = {"Bias": number()}
    for season in ("Standard", "Daylight"):
        zone[f"{season}Name"] = name()
        zone[f"{season}Date"] = date()
        zone[f"{season}Bias"] = number()
    return {member: value for member, value in zone.items() if value != 0}
