"""Faults on demand: the nth call of an export fails, is slow, crashes a VM, drops its connection or kills its caller.

A request that the shim sends to the guest of a Linux VM is a call, too: `guest:Create`, or `guest:*` for any of them.
The VM's worker carries these faults out (vm/linux/bridge_relay.py) and counts for each VM.

A fault counts the calls of its export, or of all exports (`*`), from the moment it was added. It triggers once (`nth`)
or, without `nth`, on every call.

`kill_client` lets a test kill a shim with SIGKILL at every HCS call it makes: "before" carries the call out and kills
the caller instead of answering, "after" sends the answer first.
"""

from __future__ import annotations

import itertools
from typing import Any

import attrs

from hcs_emulator.service.schema.bridge_procedures import PROCEDURES
from hcs_emulator.service.transport.wire import CALLS_BY_NAME

ANY_CALL = "*"
GUEST = "guest:"
KILL_CLIENT = ("before", "after")
LONGEST_DELAY = 3600


def _known_call(_: Any, attribute: Any, call: str) -> None:
    if call.startswith(GUEST):
        if call[len(GUEST) :] not in (ANY_CALL, *PROCEDURES):
            raise ValueError(f"no request of the guest is named {call}; there are {', '.join(PROCEDURES)}")
    elif call not in CALLS_BY_NAME and call != ANY_CALL:
        raise ValueError(
            f"no call is named {call}; calls are named as their exports, e.g. HcsStartComputeSystem, "
            f"and {ANY_CALL} is any of them"
        )


def _counts_from_one(_: Any, attribute: Any, nth: int | None) -> None:
    if nth is not None and nth < 1:
        raise ValueError("nth counts from 1")


def _failing_hresult(_: Any, attribute: Any, error: int | None) -> None:
    if error is not None and not 0x80000000 <= error <= 0xFFFFFFFF:
        raise ValueError("an error is a failing HRESULT such as 0x80370109")


def _bounded_delay(_: Any, attribute: Any, delay: float) -> None:
    if not 0 <= delay <= LONGEST_DELAY:
        raise ValueError(f"a delay is given in seconds, from 0 to {LONGEST_DELAY}")


def _before_or_after(_: Any, attribute: Any, kill_client: str | None) -> None:
    if kill_client is not None and kill_client not in KILL_CLIENT:
        raise ValueError("kill-client is before or after: the caller dies before or after it gets its answer")


@attrs.frozen
class FaultDefinition:
    """What a fault does, as a client of the control socket gives it. Raises ValueError for a fault that could never
    trigger or would do nothing.
    """

    call: str = attrs.field(validator=_known_call)
    nth: int | None = attrs.field(default=None, validator=_counts_from_one)
    error: int | None = attrs.field(default=None, validator=_failing_hresult)
    delay: float = attrs.field(default=0.0, validator=_bounded_delay)
    crash_vm: bool = False
    disconnect: bool = False
    kill_client: str | None = attrs.field(default=None, validator=_before_or_after)
    no_answer: bool = False

    def __attrs_post_init__(self) -> None:
        effects = (self.delay, self.crash_vm, self.disconnect, self.kill_client, self.no_answer)
        if self.error is None and not any(effects):
            raise ValueError("the fault does nothing: give an error, a delay, crash-vm, disconnect or kill-client")
        if self.no_answer and not self.call.startswith(GUEST):
            raise ValueError("only a guest can leave a request without an answer: name a call such as guest:Create")


@attrs.define
class Fault:
    """An active fault: how many calls it has seen, and how often it has triggered."""

    id: int
    definition: FaultDefinition
    seen: int = 0
    triggered: int = 0

    def describe(self) -> dict[str, Any]:
        error = self.definition.error
        return {
            "id": self.id,
            **attrs.asdict(self.definition),
            "error": None if error is None else f"0x{error:08X}",
            "seen": self.seen,
            "triggered": self.triggered,
        }


class Faults:
    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._ids = itertools.count(1)

    def add(self, definition: FaultDefinition) -> Fault:
        fault = Fault(next(self._ids), definition)
        self._faults.append(fault)
        return fault

    def describe(self) -> list[dict[str, Any]]:
        return [fault.describe() for fault in self._faults]

    def clear(self, identifier: int | None = None) -> int:
        """Remove one fault, or all; the number of faults removed."""
        kept = [] if identifier is None else [fault for fault in self._faults if fault.id != identifier]
        removed = len(self._faults) - len(kept)
        self._faults = kept
        return removed

    def for_guests(self) -> list[dict[str, Any]]:
        """The faults that workers of VMs carry out."""
        return [
            {"id": fault.id, "seen": fault.seen, **attrs.asdict(fault.definition)}
            for fault in self._faults
            if fault.definition.call.startswith(GUEST)
        ]

    def guest_triggered(self, identifier: int) -> None:
        for fault in self._faults:
            if fault.id == identifier:
                fault.triggered += 1

    def trigger(self, call: str) -> list[Fault]:
        """Count this call; the faults that trigger on it."""
        triggered = []
        for fault in self._faults:
            if fault.definition.call in (call, ANY_CALL):
                fault.seen += 1
                if fault.definition.nth in (None, fault.seen):
                    fault.triggered += 1
                    triggered.append(fault)
        return triggered
