"""`delete`: free what a container left behind, and say how it ended.

containerd runs this after every task, when its daemon ended in order and when it was lost, and gives it five seconds.
It may run twice, without a bundle, and while the daemon still lives: a pod's daemon serves other containers, and an
ending one may not be gone yet. So it touches no process. It frees what the bundle's ledger lists, which is nothing
after an orderly end, and removes a socket that nobody answers on.

A daemon of this very id that is alive but does not end is left alone: it may be busy, and killing it would take its
log away from whoever has to find out why. What the ledger lists is freed under it all the same, since containerd has
given the task up.
"""

from __future__ import annotations

import time

from shim.api.wire import put_bytes, varint
from shim.commands import CommandError, Flags, is_sandbox_bundle
from shim.platform import daemon, endpoint, files
from shim.task import exit_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.container.ledger import Failure

PANIC_LIMIT = 1 << 20
# shim.container.ledger.FILE, without loading it.
LEDGER_FILE = "ledger.jsonl"
# containerd's patience is five seconds, ours must be shorter.
FREE_TIME = 4.0
ENDING_TIME = 1.0
# Exit status of a task that nobody saw ending.
UNKNOWN_STATUS = 255


def run(flags: Flags) -> int:
    flags.require("namespace", "address", "publish-binary", "id", "bundle")
    _show_panic(flags.bundle)
    _free_all(flags.bundle)
    _remove_socket(flags)
    record = exit_record.read(flags.bundle)
    if record is None:
        seconds, nanos = divmod(time.time_ns(), 1_000_000_000)
        record = UNKNOWN_STATUS, seconds, nanos, 0
    try:
        files.write_stdout(encode_response(*record))
    except OSError as error:
        raise CommandError(f"cannot write the answer to stdout: {error.strerror}") from None
    return 0


def encode_response(status: int, seconds: int, nanos: int, pid: int) -> bytes:
    """A DeleteResponse. By hand: the task API's module holds sixty messages that nobody needs here."""
    moment = b"".join(tag + varint(value) for tag, value in ((b"\x08", seconds), (b"\x10", nanos)) if value)
    fields = b"".join(tag + varint(value) for tag, value in ((b"\x08", pid), (b"\x10", status)) if value)
    return fields + put_bytes(b"\x1a", moment)


def _free_all(bundle: str) -> None:
    """What this container holds; for a sandbox of the Sandbox service, what its workloads hold, too."""
    deadline = time.monotonic() + FREE_TIME
    failures = _free(bundle, deadline)
    if is_sandbox_bundle(bundle):
        from shim.task import pod_members

        for workload in pod_members.bundles(bundle):
            failures += _free(workload, deadline)
    if failures:
        raise CommandError("; ".join(str(failure) for failure in failures))


def _free(bundle: str, deadline: float) -> list[Failure]:
    """What the ledger lists. An ending daemon is freeing the same things: it is given a moment to finish."""
    if not files.size(f"{bundle}/{LEDGER_FILE}"):
        return []
    from shim.container.ledger import Ledger

    patience = time.monotonic() + ENDING_TIME
    while (held := Ledger(bundle)).entries() and _daemon_is_ending(bundle) and time.monotonic() < patience:
        time.sleep(0.02)
    return held.release_all(deadline - time.monotonic())


def _daemon_is_ending(bundle: str) -> bool:
    """Its socket goes first, its process last."""
    try:
        pid = int(files.read(f"{bundle}/shim.pid", 32))
        address = files.read(f"{bundle}/address", 4096).decode()
    except (OSError, ValueError):
        return False
    return daemon.is_running(pid) and not endpoint.exists(address)


def _show_panic(bundle: str) -> None:
    """The daemon's last words, for containerd's log."""
    try:
        text = files.read(f"{bundle}/panic.log", PANIC_LIMIT)
        if text:
            files.write_stderr(text)
    except OSError:
        pass


def _remove_socket(flags: Flags) -> None:
    """The socket of this id's own daemon, if that is dead. A pod member's address names its sandbox's: not ours."""
    own = endpoint.address_for(flags.address, flags.namespace, flags.id)
    try:
        written = files.read(f"{flags.bundle}/address", 4096).decode()
        if endpoint.name_of(written) == endpoint.name_of(own):
            own = written  # the directory may have been another when it was started
    except (OSError, UnicodeDecodeError):
        pass
    endpoint.remove_stale(own)
