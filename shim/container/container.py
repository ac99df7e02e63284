"""A process-isolated container: created from a spec and a root file system, started, and torn down.

`create` checks everything that can be checked, then acquires: network, root file system, credentials, compute system,
each entered in the ledger first. If a step fails, what the steps before it acquired is released before the error is
raised.

`teardown` shuts the container down, terminates it if that does not work, and releases the rest. It takes a minute at
worst and never raises: what could not be released is logged and stays in the ledger for the `delete` command.
"""

from __future__ import annotations

import time

from shim.container import affinity, compatibility, credentials, document, layers, mounts, network, process_document
from shim.container.base import BaseContainer, ReleaseOnError, release_ledger, run_all
from shim.container.ledger import Ledger
from shim.hcs_bindings import errors
from shim.hcs_bindings.system import DEFAULT_TIMEOUT, ComputeSystem
from shim.oci.errors import FAILED_PRECONDITION, InvalidSpec
from shim.platform import host
from shim.spans import span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from shim.api.types import Mount
    from shim.container.ledger import Entry
    from shim.hcs_bindings.process import Process
    from shim.oci.section import Section
    from shim.oci.spec import Spec

    Document = dict[str, Any]
    Warn = Callable[[str], object]

# How long a container gets to shut down, and then to exit once it was terminated.
SHUTDOWN_SECONDS = 30.0
TERMINATE_SECONDS = 30.0


class Container(BaseContainer):
    """A process-isolated container that has been created and not yet torn down."""

    def __init__(self, id: str, spec: Spec, system: ComputeSystem, entry: Entry, ledger: Ledger, warn: Warn) -> None:
        super().__init__(id, warn)
        self.spec = spec
        self.system: ComputeSystem = system
        self.ledger = ledger
        self._entry = entry
        self._has_init = False
        self._init_failed = False
        self._started_at = 0.0

    @classmethod
    def create(cls, id: str, bundle: str, spec: Spec, rootfs: Sequence[Mount], warn: Warn) -> Container:
        """Make the compute system of a spec that `shim.oci.normalize.normalize_spec` has been through.

        `rootfs` are the mounts of the request. `warn` takes a sentence for the log. Raises InvalidSpec, HcsError or
        OSError.
        """
        check(spec)
        with span("document"):
            mapped = mounts.from_spec(spec)
            root_plan = layers.plan(spec, rootfs, bundle)
            compatibility.check_process(spec, root_plan)
            credential_spec = credentials.from_spec(spec)
            processors = affinity.parse(spec.windows.section("resources").section("cpu"))
            draft = document.draft(id, spec, mapped, host.processors(), warn)
            # The init's process document is checked now, before anything is acquired.
            process_document.parameters(spec.process, stdin=False, stdout=False, stderr=False)
        for warning in spec.annotations.warnings:
            warn(warning)
        ledger = Ledger(bundle)
        with ReleaseOnError(ledger, warn):
            with span("network"):
                namespace = network.namespace(spec, ledger)
            with span("layers"), errors.ErrorContext("failed to mount container storage"):
                root = root_plan.acquire(ledger)
            guard = credentials.add(ledger, id, credential_spec) if credential_spec else {}
            with span("document"):
                whole = document.complete(draft, root, namespace, guard.get("CredentialGuard"))
            with span("system"):
                entry = ledger.enter("system", id=id)
                system = create_system(id, whole, ledger, entry)
            if processors:
                try:
                    affinity.apply(id, processors)
                except BaseException:
                    system.close()
                    raise
        return cls(id, spec, system, entry, ledger, warn)

    # Processes.

    def init_parameters(self, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None = None) -> Document:
        """The process document of the spec's own process, with the requested pipes."""
        parameters = process_document.parameters(
            self.spec.process, stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal
        )
        return process_document.keep_alive(parameters) if self.spec.pod_role == "sandbox" else parameters

    def exec_parameters(
        self, process: Section, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None = None
    ) -> Document:
        """The process document of an exec (`shim.oci.spec.parse_process`)."""
        return process_document.parameters(
            process, stdin=stdin, stdout=stdout, stderr=stderr, terminal=terminal, container=self.spec.process
        )

    def create_process(self, parameters: Document) -> Process:
        try:
            process = self.system.create_process(parameters, DEFAULT_TIMEOUT)
        except BaseException:
            self._init_failed = not self._has_init  # it runs, and no process in it could react to a shutdown
            raise
        self._has_init = True
        return process

    # Lifecycle.

    def start(self) -> None:
        self.system.start()
        self._started_at = time.time()

    def on_exit(self, callback: Callable[[], object]) -> None:
        """Call back once when the container has exited, from a thread of the bindings."""
        self.system.on_exit(lambda _: callback())

    def statistics(self, timeout: float) -> Document | None:
        """From its job object, if this process may open it (as SYSTEM): a query of HCS lists all processes of the
        machine (https://github.com/microsoft/hcsshim/blob/main/internal/hcs/system.go, statisticsInProc)."""
        if not host.IS_EMULATED:
            from shim.hcs_bindings import job
            from shim.platform import jobs
            from shim.platform.job_types import JobError

            try:
                return job.use(self.id, lambda handle: jobs.statistics_of(handle, self._started_at))
            except (errors.HcsError, JobError):
                pass  # HCS reports it, or why it cannot
        return super().statistics(timeout)

    def set_affinity(self, processors: Sequence[tuple[int, int]]) -> None:
        affinity.apply(self.id, processors)

    # Stop and teardown.

    def _teardown(self, stopped: bool) -> None:
        close_first = [self.system.close] if self._init_failed else []
        mark = [lambda: self.ledger.mark_released(self._entry)] if stopped else []
        run_all(
            [
                *close_first,
                lambda: release_ledger(self.ledger, self._warn, keep=[self._entry]),
                self.system.close,
                *mark,
            ]
        )

    def _stop(self) -> bool:
        attempts = ((self.system.shutdown, SHUTDOWN_SECONDS), (self.system.terminate, TERMINATE_SECONDS))
        for stop, seconds in attempts[1:] if self._init_failed else attempts:
            try:
                if not stop():
                    return True
                self.system.wait_exit(seconds)
                return True
            except Exception as error:
                self._warn(f"container {self.id} did not stop: {error}")
        return False


def check(spec: Spec) -> None:
    """Refuse specs of other kinds of containers."""
    if spec.is_isolated:
        raise InvalidSpec("the spec requests a utility VM; this container would have none", FAILED_PRECONDITION)


def create_system(id: str, whole: Document, ledger: Ledger, entry: Entry) -> ComputeSystem:
    """Create a compute system that has been entered in the ledger."""
    try:
        return ComputeSystem.create(id, whole)
    except errors.HcsError as error:
        if errors.is_already_exists(error):
            # It belongs to another shim, and stays.
            ledger.mark_released(entry)
        raise
