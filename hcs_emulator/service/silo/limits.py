"""Resource limits of a silo, and how they follow from the memory and processor settings of HCS documents."""

from __future__ import annotations

import os
from typing import Any

import attrs

PERIOD_US = 100_000  # the period of a processor quota


@attrs.frozen
class Limits:
    """None or 0: no limit."""

    memory_bytes: int | None = None
    cpu_count: int | None = None
    cpu_maximum: int | None = None
    cpu_weight: int | None = None
    process_limit: int | None = None

    def __bool__(self) -> bool:
        return bool(self.set)

    @property
    def set(self) -> dict[str, int]:
        return {name: value for name, value in attrs.asdict(self).items() if value}

    def changed(self, **limits: int | None) -> Limits:
        return attrs.evolve(self, **limits)

    def cpu_quota(self) -> int:
        """Microseconds of processor time per period; -1 for no limit."""
        processors = os.cpu_count() or 1
        quotas = []
        if self.cpu_count:
            quotas.append(self.cpu_count * PERIOD_US)
        if self.cpu_maximum:
            quotas.append(processors * PERIOD_US * self.cpu_maximum // 10_000)
        return max(min(quotas), 1000) if quotas else -1  # the kernel takes no less than a millisecond


def limits_from_settings(container: dict[str, Any]) -> dict[str, int | None]:
    """Keyword arguments for SiloSettings and Silo.set_limits, from the Container part of a document; zero and absent
    mean no limit.
    """
    memory, processor = container.get("Memory") or {}, container.get("Processor") or {}
    size = memory.get("SizeInMB", 0)
    return {
        "memory_bytes": size << 20 if size else None,
        "cpu_count": processor.get("Count") or None,
        "cpu_maximum": processor.get("Maximum") or None,
        "cpu_weight": processor.get("Weight") or None,
    }
