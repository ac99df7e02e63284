"""What the replaying service answers: recorded calls and guest messages, each of which is used once.

A call is matched by its name, its handle and its arguments; if no unused one has these arguments, the next one of that
name and handle is used and the difference is noted. Calls of different handles, and of different threads, may come in
another order than recorded.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any

import attrs

# Calls that depend on time or on the operating system of the shim, not on what is asked of it: neither their absence
# nor their presence is a difference. On Windows the shim reads statistics from a container's job, elsewhere from HCS.
INCIDENTAL = frozenset(
    ("HcsGetProcessProperties", "HcsCloseProcess", "HcsCloseComputeSystem", "NtOpenJobObject", "RtlGetVersion")
)
GUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
STATISTICS = [{"PropertyTypes": ["Statistics"]}]


@attrs.define(eq=False)
class Call:
    """`end` is 0 for a call without an answer; `strings` is None if the arguments are not known."""

    name: str
    begin: int
    end: int
    code: int = 0
    handle: int = 0
    number: int = 0
    strings: list[Any] | None = None
    opened: int = 0
    pid: int = 0
    document: str | None = None
    used: bool = False

    @property
    def seconds(self) -> float:
        return max(0, self.end - self.begin) / 1e9

    @property
    def is_incidental(self) -> bool:
        return is_incidental(self.name, self.strings)


def is_incidental(name: str, strings: list[Any] | None) -> bool:
    return name in INCIDENTAL or (name == "HcsGetComputeSystemProperties" and strings == STATISTICS)


@attrs.define(eq=False)
class GuestCall:
    procedure: str
    container: str
    begin: int
    end: int
    request: dict[str, Any]
    response: dict[str, Any] | None
    used: bool = False

    @property
    def name(self) -> str:
        return f"guest {self.procedure}"

    @property
    def seconds(self) -> float:
        return max(0, self.end - self.begin) / 1e9


@attrs.define
class Difference:
    """`what` is a name such as HcsCreateComputeSystem; `recorded` and `replayed` are None where there was none."""

    what: str
    problem: str
    recorded: Any = None
    replayed: Any = None


@attrs.define
class Script:
    """`normalize` turns arguments of this machine into those of the recording. Thread-safe."""

    calls: list[Call]
    guest_calls: list[GuestCall]
    build: int
    normalize: Callable[[Any], Any]
    on_done: Callable[[object], object]
    delays: bool = True
    #: What kind of guest the VM has, and how long it took from its start to the first message.
    is_linux: bool = False
    boot_seconds: float = 0.0
    #: GUIDs that the shim did not make up: of requests, specs and answers.
    given_guids: frozenset[str] = frozenset()
    _guids: dict[str, str] = attrs.Factory(dict)
    differences: list[Difference] = attrs.Factory(list)
    _lock: Any = attrs.field(factory=threading.Lock)

    def match_call(self, name: str, handle: int, strings: list[Any]) -> Call | None:
        """The recorded call, which is used now; None if there is none."""
        with self._lock:
            actual = [self._with_recorded_guids(self.normalize(one)) for one in strings]
            named = [call for call in self.calls if not call.used and call.name == name and call.handle == handle]
            same = [call for call in named if call.strings is None or call.strings == actual]
            same = same or [call for call in named if self._is_same_but_guids(call.strings, actual)][:1]
            others = [] if is_incidental(name, actual) else named
            found = next(iter(same or others), None)
            if found is None:
                if not is_incidental(name, actual):
                    self.differences.append(Difference(name, "the recording has no such call", None, actual))
                return None
            found.used = True
            if not same:
                self.differences.append(Difference(name, "other arguments", found.strings, actual))
            return found

    def match_guest_call(self, procedure: str, container: str, request: dict[str, Any]) -> GuestCall | None:
        with self._lock:
            actual = self._with_recorded_guids(self.normalize(request))
            named = [
                call for call in self.guest_calls
                if not call.used and call.procedure == procedure and call.container == container
            ]  # fmt: skip
            same = [call for call in named if call.request == actual]
            same = same or [call for call in named if self._is_same_but_guids(call.request, actual)][:1]
            found = next(iter(same or named), None)
            if found is None:
                problem = "the recording has no such message"
                self.differences.append(Difference(f"guest {procedure}", problem, None, actual))
                return None
            found.used = True
            if not same:
                self.differences.append(Difference(f"guest {procedure}", "another message", found.request, actual))
            return found

    def _with_recorded_guids(self, value: Any) -> Any:
        """The value with GUIDs that this shim has made up as those that the recorded one has made up."""
        if not self._guids or value is None:
            return value
        return json.loads(GUID.sub(lambda found: self._guids.get(found[0], found[0]), json.dumps(value)))

    def _is_same_but_guids(self, recorded: Any, actual: Any) -> bool:
        """Whether they differ only in GUIDs that both shims have made up; learns which is which."""
        texts = json.dumps(recorded), json.dumps(actual)
        if GUID.sub("", texts[0]) != GUID.sub("", texts[1]):
            return False
        pairs = [pair for pair in zip(*(GUID.findall(text) for text in texts), strict=True) if pair[0] != pair[1]]
        known = self.given_guids | set(self._guids.values())
        if any(guid in known for pair in pairs for guid in pair):
            return False
        self._guids.update((made_up, of_recording) for of_recording, made_up in pairs)
        return True

    def unused(self) -> list[Difference]:
        """What the recording has and the replay did not do."""
        missing = [call for call in self.calls if not call.used and not call.is_incidental]
        return [Difference(call.name, "the replay has no such call", call.strings) for call in missing] + [
            Difference(call.name, "the replay has no such message", call.request)
            for call in self.guest_calls
            if not call.used
        ]
