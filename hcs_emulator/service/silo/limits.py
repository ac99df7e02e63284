"""HCS's memory and processor settings as a silo's limits."""

from __future__ import annotations

from typing import Any


def silo_limits(memory: dict[str, Any], processor: dict[str, Any]) -> dict[str, int | None]:
    """Keyword arguments for SiloSettings and Silo.set_limits; zero and absent mean no limit."""
    size = memory.get("SizeInMB", 0)
    return {
        "memory_bytes": size << 20 if size else None,
        "cpu_count": processor.get("Count") or None,
        "cpu_maximum": processor.get("Maximum") or None,
        "cpu_weight": processor.get("Weight") or None,
    }
