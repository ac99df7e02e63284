"""Faults on demand: the nth call of an export fails, is slow, crashes a VM, loses its connection or ends its caller.

A fault counts the calls of its export, or of all exports (`*`), from the moment it was added, and strikes once (`nth`)
or, without `nth`, every time.

`kill_client` is how a test walks through a shim's life and ends it with SIGKILL at every step: "before" carries the
call out and kills the caller instead of answering, "after" lets the answer go first.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import Any

from hcs_emulator.service.transport.wire import CALLS_BY_NAME

ANY_CALL = "*"
KILL_CLIENT = ("before", "after")


@dataclass
class Fault:
    id: int
    call: str
    nth: int | None = None
    error: int | None = None
    delay: float = 0.0
    crash_vm: bool = False
    disconnect: bool = False
    kill_client: str | None = None
    seen: int = 0
    triggered: int = 0

    def describe(self) -> dict[str, Any]:
        return asdict(self) | {"error": None if self.error is None else f"0x{self.error:08X}"}


class Faults:
    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._ids = itertools.count(1)

    def add(
        self,
        call: str,
        nth: int | None = None,
        error: int | None = None,
        delay: float = 0.0,
        crash_vm: bool = False,
        disconnect: bool = False,
        kill_client: str | None = None,
    ) -> Fault:
        """Raise ValueError, with what is wrong, for a fault that could never strike or would do nothing."""
        if call not in CALLS_BY_NAME and call != ANY_CALL:
            raise ValueError(
                f"no call is named {call}; calls are named as their exports, e.g. HcsStartComputeSystem, "
                f"and {ANY_CALL} is any of them"
            )
        if nth is not None and nth < 1:
            raise ValueError("nth counts from 1")
        if error is not None and not 0x80000000 <= error <= 0xFFFFFFFF:
            raise ValueError("an error is a failing HRESULT such as 0x80370109")
        if not 0 <= delay <= 3600:
            raise ValueError("a delay is given in seconds, from 0 to 3600")
        if kill_client is not None and kill_client not in KILL_CLIENT:
            raise ValueError("kill-client is before or after: the caller dies before or after it gets its answer")
        if error is None and not delay and not crash_vm and not disconnect and not kill_client:
            raise ValueError("the fault does nothing: give an error, a delay, crash-vm, disconnect or kill-client")
        fault = Fault(next(self._ids), call, nth, error, delay, crash_vm, disconnect, kill_client)
        self._faults.append(fault)
        return fault

    def describe(self) -> list[dict[str, Any]]:
        return [fault.describe() for fault in self._faults]

    def clear(self, identifier: int | None = None) -> int:
        kept = [] if identifier is None else [fault for fault in self._faults if fault.id != identifier]
        removed = len(self._faults) - len(kept)
        self._faults = kept
        return removed

    def trigger(self, call: str) -> list[Fault]:
        """Count this call; the faults that strike now."""
        triggered = []
        for fault in self._faults:
            if fault.call in (call, ANY_CALL):
                fault.seen += 1
                if fault.nth is None or fault.seen == fault.nth:
                    fault.triggered += 1
                    triggered.append(fault)
        return triggered
