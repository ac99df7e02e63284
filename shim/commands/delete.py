"""`delete`: release what a container left behind, and print its exit status.

containerd runs this after every task, after a clean shutdown of the daemon and after a crash, with a timeout of five
seconds (https://github.com/containerd/containerd/blob/main/core/runtime/v2/README.md#delete). It may run twice, without
a bundle, and while the daemon still runs: a pod's daemon serves other containers, and one that shuts down may not have
exited yet. So it touches no process. It releases what the bundle's ledger lists, which is nothing after a clean
shutdown, and removes a socket on which no process listens.

A daemon of this id that runs and does not exit is left alone: it may be busy, and killing it would destroy the evidence
of why. What the ledger lists is released all the same, since containerd has given up the task.
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
# The second is shim.commands.shared.DAEMON_PANIC_LOG.
PANIC_LOGS = ("panic.log", "daemon-panic.log")
# shim.container.ledger.FILE, without importing it.
LEDGER_FILE = "ledger.jsonl"
# containerd's timeout is five seconds, ours must be shorter.
RELEASE_TIMEOUT = 4.0
#: More seconds than that, for a containerd whose io.containerd.timeout.shim.cleanup is longer.
SECONDS_VARIABLE = "RUNHCS_DELETE_SECONDS"
MAX_SECONDS = 600.0
DAEMON_EXIT_TIMEOUT = 1.0
# Exit status of a task whose exit was not recorded.
UNKNOWN_STATUS = 255


def run(flags: Flags) -> int:
    flags.require("namespace", "address", "publish-binary", "id", "bundle")
    _print_panic_log(flags.bundle)
    _release_all(flags.bundle)
    _remove_user(flags.id)
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
    """A DeleteResponse. Encoded by hand: the task API's module has sixty messages that are not needed here."""
    moment = b"".join(tag + varint(value) for tag, value in ((b"\x08", seconds), (b"\x10", nanos)) if value)
    fields = b"".join(tag + varint(value) for tag, value in ((b"\x08", pid), (b"\x10", status)) if value)
    return fields + put_bytes(b"\x1a", moment)


def _release_all(bundle: str) -> None:
    """Release what this container holds; for a sandbox of the Sandbox service, what its workloads hold, too."""
    deadline = time.monotonic() + _release_timeout()
    failures = _release(bundle, deadline)
    if is_sandbox_bundle(bundle):
        from shim.task import pod_members

        for workload in pod_members.bundles(bundle):
            failures += _release(workload, deadline)
    if failures:
        from shim.platform import admin_events

        leaked = "; ".join(str(failure) for failure in failures)
        admin_events.report(admin_events.RESOURCES_LEAKED, f"{bundle}: failed to release: {leaked}")
        raise CommandError(leaked)


def _release_timeout() -> float:
    try:
        seconds = float(files.environment(SECONDS_VARIABLE))
    except ValueError:
        return RELEASE_TIMEOUT
    return seconds if RELEASE_TIMEOUT < seconds <= MAX_SECONDS else RELEASE_TIMEOUT


def _remove_user(id: str) -> None:
    """The user of a host process container that no ledger lists. As with Microsoft's shim, an error is only printed."""
    if not daemon.CREATES_USERS:
        return
    from shim.platform import admin_events, jobs
    from shim.platform.job_types import JobError

    try:
        jobs.remove_container_user(id)
    except JobError as error:
        files.write_stderr(f"{error}\n".encode())
        admin_events.report(admin_events.RESOURCES_LEAKED, f"{id}: {error}")


def _release(bundle: str, deadline: float) -> list[Failure]:
    """Release what the ledger lists. A daemon that shuts down releases the same: wait for it for a moment."""
    if not files.size(f"{bundle}/{LEDGER_FILE}"):
        return []
    deadline_of_daemon = time.monotonic() + DAEMON_EXIT_TIMEOUT
    try:
        return _release_when_daemon_has_exited(bundle, deadline, deadline_of_daemon)
    except OSError as error:
        raise CommandError(f"cannot read {bundle}/{LEDGER_FILE}, what it lists is not released: {error}") from None


def _release_when_daemon_has_exited(bundle: str, deadline: float, deadline_of_daemon: float) -> list[Failure]:
    from shim.container.ledger import Ledger

    while (held := Ledger(bundle)).entries() and _daemon_is_exiting(bundle) and time.monotonic() < deadline_of_daemon:
        time.sleep(0.02)
    return held.release_all(deadline - time.monotonic())


def _daemon_is_exiting(bundle: str) -> bool:
    """Whether it has removed its socket but its process still runs."""
    try:
        pid = int(files.read(f"{bundle}/shim.pid", 32, follow=False))
        address = files.read(f"{bundle}/address", 4096, follow=False).decode()
    except (OSError, ValueError):
        return False
    return daemon.is_running(pid) and not endpoint.exists(address)


def _daemon_is_running(bundle: str) -> bool:
    try:
        return daemon.is_running(int(files.read(f"{bundle}/shim.pid", 32, follow=False)))
    except (OSError, ValueError):
        return False


def _print_panic_log(bundle: str) -> None:
    """Copy the daemon's panic log to stderr, for containerd's log; of a shared daemon, its own and the pod's."""
    for name in PANIC_LOGS:
        try:
            text = files.read(f"{bundle}/{name}", PANIC_LIMIT, follow=False)
            if text and name == PANIC_LOGS[1]:
                from shim.platform import shared

                text = shared.crash_text(text, PANIC_LIMIT)
            if text:
                from shim.platform import admin_events

                files.write_stderr(text)
                story = text.decode("utf-8", "replace")
                admin_events.report(admin_events.SHIM_CRASHED, f"{bundle}: the shim crashed\n{story}")
        except OSError:
            pass


def _remove_socket(flags: Flags) -> None:
    """Remove the socket of this id's own daemon, if that is dead; of a shared daemon, also its control socket. A pod
    member's address is its sandbox's: not ours."""
    own = endpoint.address_for(flags.address, flags.namespace, flags.id)
    try:
        written = files.read(f"{flags.bundle}/address", 4096, follow=False).decode()
        if endpoint.name_of(written) == endpoint.name_of(own):
            own = written  # the socket directory may have been another when it was started
    except (OSError, UnicodeDecodeError):
        pass
    endpoint.remove_stale(own)
    if files.exists(f"{flags.bundle}/{PANIC_LOGS[1]}") and not _daemon_is_running(flags.bundle):
        from shim.platform import shared

        try:
            content = files.read(f"{flags.bundle}/{PANIC_LOGS[1]}", PANIC_LIMIT, follow=False)
        except OSError:
            content = b""  # not a file of the daemon
        shared.remove_stale(own, content)
