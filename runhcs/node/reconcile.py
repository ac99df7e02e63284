"""Bring the node to the version of the image, and keep containerd's pods out of it.

    1. stage      copy the files; containerd keeps its version
    2. selftest   run containers with the staged version, without containerd. A failure ends here (`rejected`)
    3. switch     replace the runtimes, restart containerd; the previous version stays
    4. doctor     a failure of 3 or 4 returns to the previous version (`rolled-back`)
    5. confirm    remove old versions that no pod uses (`ready`)

A node that is current runs 4 and 5 only: containerd is not restarted. Every pass starts with what it finds, so a pass
that was killed is completed by the next one. A switch that is not confirmed is verified again. A failure is recorded
before the rollback, so a rollback that was killed is completed, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

from attrs import frozen

from runhcs.node.host import HostError, Installation
from runhcs.node.record import Failure, Record

INSTALLING, READY, UNHEALTHY, REJECTED, ROLLED_BACK, FAILED, REMOVED = (
    "installing", "ready", "unhealthy", "rejected", "rolled-back", "failed", "removed",
)  # fmt: skip
RETRY_STEP = "fix it, then set `retry` to another value, or deploy another version"


@frozen
class Status:
    """What the node's label and annotation, and the kubelet's probe, tell."""

    state: str
    #: The version that containerd uses; "" if none.
    version: str = ""
    reason: str = ""
    next_step: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the node has what was requested: the condition for the next node of a rolling update."""
        return self.state in (READY, REMOVED)

    @property
    def is_usable(self) -> bool:
        """Whether new pods may be scheduled."""
        return bool(self.version) and self.state not in (UNHEALTHY, REMOVED)

    @property
    def text(self) -> str:
        return f"{self.reason}: {self.next_step}" if self.next_step else self.reason


class Commands(Protocol):
    """`host.Host`."""

    def install(self, *options: str) -> Installation: ...
    def selftest(self, found: Installation) -> None: ...
    def doctor(self, found: Installation) -> None: ...


class Reconciler:
    def __init__(
        self,
        host: Commands,
        record: Record,
        report: Callable[[Status], None],
        *,
        runtimes: Sequence[str] = (),
        retry: str = "",
        selftest: bool = True,
    ) -> None:
        """`report` is called with intermediate states."""
        self._host = host
        self._record = record
        self._report = report
        self._selftest = selftest
        self._attempt = hashlib.sha256("\0".join((*sorted(runtimes), retry)).encode()).hexdigest()[:12]

    def install(self) -> Status:
        """One pass. It reports failures of the node as a status and raises nothing else."""
        try:
            plan = self._host.install("--upgrade", "--keep-previous", "--dry-run")
        except HostError as error:
            return Status(FAILED, reason=error.reason, next_step=error.next_step or "the log of this pod has details")
        if plan.is_current:
            return self._confirm(with_doctor=True)
        fingerprint = f"{plan.version}-{self._attempt}"
        failure = self._record.failure(fingerprint)
        if failure is not None and not self._record.is_due(failure):
            return self._roll_back(failure) if plan.is_unconfirmed else _status(failure)
        self._report(Status(INSTALLING, plan.installed, f"installing {plan.version}"))
        try:
            if not plan.is_unconfirmed:  # it was verified before it was switched to
                staged = self._host.install("--stage")
                if self._selftest:
                    self._host.selftest(staged)
        except HostError as error:
            step = error.next_step or RETRY_STEP
            rejected = Failure(fingerprint, REJECTED, error.reason, step, active=plan.installed)
            return _status(self._record.add(rejected, retry=True))
        return self._switch(fingerprint)

    def uninstall(self) -> Status:
        try:
            removed = self._host.install("--uninstall", "--restart-containerd")
        except HostError as error:
            return Status(FAILED, reason=error.reason, next_step=error.next_step or "the log of this pod has details")
        self._record.clear()
        if removed.kept:
            return Status(REMOVED, reason=f"{len(removed.kept)} versions are kept until their pods have stopped")
        return Status(REMOVED)

    def _switch(self, fingerprint: str) -> Status:
        try:
            switched = self._host.install("--upgrade", "--keep-previous", "--restart-containerd")
            self._host.doctor(switched)
        except HostError as error:
            failure = Failure(fingerprint, ROLLED_BACK, error.reason, error.next_step or RETRY_STEP)
            return self._roll_back(self._record.add(failure, retry=False))
        return self._confirm(with_doctor=False)

    def _roll_back(self, failure: Failure) -> Status:
        try:
            failure.active = self._host.install("--rollback", "--restart-containerd").version
        except HostError as error:
            step = "repair containerd on the node; the next pass tries the rollback again"
            return Status(FAILED, reason=f"{failure.reason}; the rollback failed, too: {error.reason}", next_step=step)
        failure.state = ROLLED_BACK
        return _status(self._record.add(failure, retry=False))

    def _confirm(self, with_doctor: bool) -> Status:
        """Give up the previous version, and remove versions that no pod uses."""
        try:
            found = self._host.install("--upgrade", "--restart-containerd")
        except HostError as error:
            return Status(FAILED, reason=error.reason, next_step=error.next_step or "the log of this pod has details")
        try:
            if with_doctor:
                self._host.doctor(found)
        except HostError as error:
            return Status(UNHEALTHY, found.version, error.reason, error.next_step)
        self._record.clear()
        return Status(READY, found.version)


def _status(failure: Failure) -> Status:
    return Status(failure.state, failure.active, failure.reason, failure.next_step)
