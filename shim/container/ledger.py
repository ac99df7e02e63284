"""The ledger: every resource that a container holds, on disk in its bundle, with how to release it.

One JSON object per line of `ledger.jsonl`. A line is written *before* the resource is acquired, so that a `kill -9` at
any moment leaves no resource unlisted, and struck out by a second line when the resource is released:

    {"n":"1","enter":"layer","path":"C:\\snapshots\\7"}
    {"n":"1","strike":"layer"}

Where HCS is emulated, the first line names the instance, for a cleanup in another environment:

    {"n":"0","hcs":"/run/hcs-emulator"}

Therefore an entry may name a resource that was never acquired, or that is released already: release is idempotent. A
last line that was torn by a crash counts as not written: its resource was not acquired.

Resources are released in reverse order, a VM first, the root file system last, and the release continues after a
failure. It has a timeout: each step runs in a thread of its own, and one that does not return is left behind and
reported. The `delete` command releases from here in a process of its own, so this module imports little; the code that
releases a kind of resource is imported when there is one.
"""

from __future__ import annotations

import time
from _json import encode_basestring_ascii
from _thread import allocate_lock, start_new_thread

from shim.lean_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = "ledger.jsonl"
INSTANCE_VARIABLE = "HCS_EMULATOR_DIR"
# A ledger of an ordinary container has a dozen lines.
MAX_SIZE = 4 << 20
_MAX_DIGITS = 18

# What releases each kind: module and function, called with the entry's fields and a deadline (monotonic seconds).
RELEASERS = {
    "system": ("shim.container.cleanup", "release_system"),
    "vm": ("shim.container.cleanup", "release_system"),
    "job": ("shim.container.cleanup", "release_job"),
    "user": ("shim.container.cleanup", "release_user"),
    "mount_point": ("shim.container.cleanup", "release_mount_point"),
    "namespace": ("shim.container.cleanup", "release_namespace"),
    "endpoint": ("shim.container.cleanup", "release_endpoint"),
    "credentials": ("shim.container.cleanup", "release_credentials"),
    "layer": ("shim.container.cleanup", "release_layer"),
    "overlay": ("shim.container.cleanup", "release_overlay"),
    "cim": ("shim.container.cleanup", "release_cim"),
    "mount": ("shim.container.cleanup", "release_mount"),
}
# A utility VM, or a job of processes, which holds other resources until it exits.
_RELEASED_FIRST = ("vm", "job")
# The root file system: nothing may use it any more.
_RELEASED_LAST = ("layer", "overlay", "cim", "mount")


class Entry:
    __slots__ = ("fields", "kind", "number")

    def __init__(self, number: int, kind: str, fields: dict[str, str]) -> None:
        self.number = number
        self.kind = kind
        self.fields = fields

    def __repr__(self) -> str:
        return f"{self.kind} {' '.join(self.fields.values())}".rstrip()


class Failure:
    """A resource that could not be released, and why."""

    __slots__ = ("entry", "error")

    def __init__(self, entry: Entry, error: BaseException) -> None:
        self.entry = entry
        self.error = error

    def __str__(self) -> str:
        return f"failed to release {self.entry}: {self.error}"


class Ledger:
    def __init__(self, bundle: str) -> None:
        self.path = f"{bundle.rstrip('/')}/{FILE}"
        self._lock = allocate_lock()
        self._entries, self._next, torn = _read(self.path)
        if torn:
            self._append("")

    def enter(self, kind: str, **fields: str) -> Entry:
        """To be called before the resource is acquired. If this fails, it must not be acquired."""
        with self._lock:
            entry = Entry(self._next, kind, fields)
            line = _line({"n": str(entry.number), "enter": kind, **fields})
            instance = _instance() if entry.number == 1 else ""
            self._append(_line({"n": "0", "hcs": instance}) + "\n" + line if instance else line)
            self._next += 1
            self._entries[entry.number] = entry
            return entry

    def mark_released(self, entry: Entry) -> None:
        """It has been released. A bundle that was removed needs no line."""
        with self._lock:
            if self._entries.pop(entry.number, None) is not None:
                try:
                    self._append(_line({"n": str(entry.number), "strike": entry.kind}))
                except OSError:
                    pass

    def entries(self) -> list[Entry]:
        """What is held, in the order of release."""
        with self._lock:
            entries = [self._entries[number] for number in sorted(self._entries, reverse=True)]
        return sorted(entries, key=_release_order)

    def release_all(self, timeout: float, keep: Iterable[Entry] = ()) -> list[Failure]:
        """Release everything but `keep`, within `timeout` seconds.

        What could not be released stays listed, and is returned.
        """
        deadline = time.monotonic() + timeout
        kept = {entry.number for entry in keep}
        failures = []
        for entry in self.entries():
            if entry.number in kept:
                continue
            error = _run(entry, deadline)
            if error is None:
                self.mark_released(entry)
            else:
                failures.append(Failure(entry, error))
        return failures

    def _append(self, line: str) -> None:
        # One write, so that a crash tears at most this line.
        from shim.platform import files

        files.append(self.path, line.encode() + b"\n")


def _instance() -> str:
    from shim.platform import files

    return files.environment(INSTANCE_VARIABLE)


def _content(path: str, limit: int) -> bytes:
    """Only of a regular file: a FIFO in its place must not block us, and a link is not ours."""
    from shim.platform import files

    return files.read(path, limit, follow=False)


def read_entries(bundle: str) -> tuple[list[Entry], str]:
    """What a bundle's ledger lists, in the order of release, and the emulated instance of HCS that has it ("" for the
    machine's own). Read-only: nothing is written."""
    path = f"{bundle.rstrip('/')}/{FILE}"
    entries, _, _ = _read(path)
    instance = ""
    try:
        instance = (_fields(_content(path, 4096).partition(b"\n")[0]) or {}).get("hcs", "")
    except FileNotFoundError:
        pass
    return sorted((entries[number] for number in sorted(entries, reverse=True)), key=_release_order), instance


def _release_order(entry: Entry) -> int:
    return 0 if entry.kind in _RELEASED_FIRST else 2 if entry.kind in _RELEASED_LAST else 1


def _read(path: str) -> tuple[dict[int, Entry], int, bool]:
    """The entries that are not released, the next number, and whether the last line is torn."""
    entries: dict[int, Entry] = {}
    highest = 0
    try:
        data = _content(path, MAX_SIZE)
    except FileNotFoundError:
        return entries, 1, False
    for line in data.split(b"\n"):
        fields = _fields(line)
        if fields is None:
            continue
        number = int(fields.pop("n"))
        highest = max(highest, number)
        if "strike" in fields:
            entries.pop(number, None)
        elif "enter" in fields:
            entries[number] = Entry(number, fields.pop("enter"), fields)
    return entries, highest + 1, bool(data) and not data.endswith(b"\n")


def _fields(line: bytes) -> dict[str, str] | None:
    """One line, or None if it is torn."""
    if not line:
        return None
    try:
        value = loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict) or not _is_number(str(value.get("n", ""))):
        return None
    return {str(name): str(item) for name, item in value.items()}


def _is_number(text: str) -> bool:
    """`isdigit` is true for `²` as well, and a number of thousands of digits cannot be parsed."""
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def _line(fields: dict[str, str]) -> str:
    return "{" + ",".join(f"{encode_basestring_ascii(k)}:{encode_basestring_ascii(v)}" for k, v in fields.items()) + "}"


def _run(entry: Entry, deadline: float) -> BaseException | None:
    """Release one resource in a thread of its own, and wait for it until the deadline."""
    if entry.kind not in RELEASERS:
        return ValueError(f"this version of the shim cannot release a {entry.kind}")
    outcome: list[BaseException | None] = []
    done = allocate_lock()
    done.acquire()

    def work() -> None:
        module, function = RELEASERS[entry.kind]
        try:
            release = getattr(__import__(module, fromlist=[function]), function)
            release(entry.fields, deadline)
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)
        done.release()

    try:
        start_new_thread(work, ())
    except (RuntimeError, MemoryError):
        work()  # without a thread it is bounded by the timeouts of its own calls only
    # Even after the deadline, a step that takes no time gets a chance.
    if not done.acquire(timeout=max(0.2, deadline - time.monotonic())):
        return TimeoutError("timed out and was left behind; release it by hand if it stays")
    return outcome[0]
