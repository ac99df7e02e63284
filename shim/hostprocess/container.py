r"""A host process container: a job object of processes of the host, with the container's files in a directory of the
host.

It has no compute system and no network of its own. The job is created first and closed last: the user created for it,
the files and the mounts exist for its processes. Everything is in the ledger before it is created. A job is terminated
with this process; the `delete` command releases the rest, and makes sure of the job.
"""

from __future__ import annotations

from shim.container import affinity, layers, process_document
from shim.container.base import BaseContainer, ReleaseOnError, release_ledger, run_all
from shim.container.ledger import Ledger
from shim.hcs_bindings.errors import INVALID_ARGUMENT, HcsError, normalise
from shim.hcs_bindings.windows_version import windows_build
from shim.hostprocess import identity, limits, mounts, paths
from shim.hostprocess.errors import as_hcs_error
from shim.hostprocess.job_system import JobSystem
from shim.oci.errors import InvalidSpec
from shim.oci.section import Section
from shim.platform import command_line, host, jobs
from shim.platform.job_types import ALREADY_EXISTS, DIRECTORY, FILE_NOT_FOUND, MEMBER, NOT_SUPPORTED, JobError, Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from shim.api.types import Mount
    from shim.container.ledger import Entry
    from shim.oci.spec import Spec
    from shim.platform.job_types import Identity, Job, JobProcess, Limits

    Document = dict[str, Any]
    Warn = Callable[[str], object]

# How long the other processes get to exit after CtrlShutdown when the init has exited.
SHUTDOWN_SECONDS = 5.0
# Members of a spec that have no effect for a process of the host.
_IGNORED = ("credentialSpec", "devices")


class HostProcessContainer(BaseContainer):
    """A host process container that has been created and not yet torn down."""

    isolation = "hostprocess"

    def __init__(self, id: str, spec: Spec, job: Job, root: str, ledger: Ledger, entry: Entry, warn: Warn) -> None:
        super().__init__(id, warn)
        self.spec = spec
        self.root = root
        self.ledger = ledger
        self.system: JobSystem
        #: Its root directory as seen outside the job; and what is bound at paths that only the job sees.
        self._files = ""
        self._bound: list[mounts.HostMount] = []
        self._job = job
        self._entry = entry
        self._init: JobProcess | None = None

    @classmethod
    def create(cls, id: str, bundle: str, spec: Spec, rootfs: Sequence[Mount], warn: Warn) -> HostProcessContainer:
        """Raises InvalidSpec, HcsError or OSError; then nothing is held."""
        plan = layers.plan(spec, rootfs, bundle)
        host_mounts = mounts.from_spec(spec)
        job_limits = limits.from_spec(spec, host.processors(), warn)
        processors = affinity.parse(spec.windows.section("resources").section("cpu"))
        user = identity.from_spec(spec, id, jobs.is_local_group)
        build = windows_build()
        paths.root(spec, id, True)
        _parameters(spec, None, paths.DEFAULT_ROOT)
        for name in _IGNORED:
            if spec.windows.has(name):
                warn(f"windows.{name} has no effect: a host process container has what the host has")
        for warning in spec.annotations.warnings:
            warn(warning)
        ledger = Ledger(bundle)
        with ReleaseOnError(ledger, warn), as_hcs_error(f"create {id}"):
            entry = ledger.enter("job", id=id, groups=jobs.cgroup_paths(id))
            try:
                job = jobs.create(id, build)
            except JobError as error:
                if error.code == ALREADY_EXISTS:
                    ledger.mark_released(entry)  # it is another shim's, and stays
                raise
            try:
                container = cls(id, spec, job, paths.root(spec, id, job.can_bind), ledger, entry, warn)
                container._set_up(plan, host_mounts, job_limits, processors, user)
            except BaseException:
                job.close()
                raise
        return container

    def _set_up(
        self,
        plan: layers.Plan,
        host_mounts: list[mounts.HostMount],
        job_limits: Limits,
        processors: list[tuple[int, int]],
        user: Identity,
    ) -> None:
        """Everything that its processes need: limits, user, root file system, mounts."""
        job = self._job
        if job_limits:
            job.set_limits(job_limits)
            for name in job.unenforced:
                self._warn(f"the limit of {name} is not enforced: this machine does not support it")
        if processors:
            self.set_affinity(processors)
        if user.kind == MEMBER:
            self.ledger.enter("user", name=user.user)
        job.log_on(user)
        files = plan.acquire(self.ledger).path
        if job.can_bind:
            job.bind(files, self.root, False)
            self._files = paths.with_separator(files)
            self._bound.append(mounts.HostMount(self._files, self.root, False))
        else:
            self._files = self.root
            self.ledger.enter("mount_point", directory=self.root)
            try:
                jobs.mount_volume(files, self.root)
            except JobError as error:
                if error.code != NOT_SUPPORTED:
                    raise
                self._warn(str(error))
        for mount in host_mounts:
            self._mount(mount)
        self.system = JobSystem(self.id, job, job_limits, self._mount)

    def _mount(self, mount: mounts.HostMount) -> None:
        mounts.add(self._job, mount, self._files, self._warn)
        if self._job.can_bind:
            self._bound.append(mount)

    # Processes.

    def init_parameters(self, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None = None) -> Document:
        streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        return {"Launch": self._launch(_parameters(self.spec, None, self.root, terminal, **streams))}

    def exec_parameters(
        self, process: Section, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None = None
    ) -> Document:
        identity.check_exec(process, self.spec.process)
        streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        return {"Launch": self._launch(_parameters(self.spec, process, self.root, terminal, **streams))}

    def _launch(self, parameters: Document) -> Launch:
        directory = parameters.get("WorkingDirectory") or self.root
        if not self._job.can_bind and not paths.is_below(directory, self.root):
            directory = paths.below(self.root, directory)
        variables = paths.environment(self._job.environment(), parameters.get("Environment") or {}, self.root)
        line, application = parameters["CommandLine"], ""
        if self._job.can_bind:
            line = paths.through_shell(line)
        else:
            search = next((value for name, value in variables.items() if name.upper() == "PATH"), "").split(";")
            application = paths.find_program(command_line.programs(line), directory, search)
        height, width = parameters.get("ConsoleSize") or (0, 0)
        return Launch(
            line,
            directory,
            variables,
            application=application,
            stdin=bool(parameters.get("CreateStdInPipe")),
            stdout=bool(parameters.get("CreateStdOutPipe")),
            stderr=bool(parameters.get("CreateStdErrPipe")),
            console=bool(parameters.get("EmulateConsole")),
            size=(height or 25, width or 80),
        )

    def create_process(self, parameters: Document) -> JobProcess:
        launch: Launch = parameters["Launch"]
        try:
            with as_hcs_error(f"start {launch.program!r} in {self.id}"):
                self._make_directory(launch.directory)
                process = self._job.spawn(launch)
        except HcsError as error:
            if error.code & 0xFFFF != FILE_NOT_FOUND or launch.application or self._job.can_bind:
                raise
            # The words of Microsoft's shim, without the command line.
            missing = f"failed to find executable {launch.program!r} of {self.id}"
            raise HcsError(error.code, f"failed to get application name from commandline: {missing}") from error
        if self._init is None:
            self._init = process
        return process

    def _make_directory(self, directory: str) -> None:
        """Create the working directory of a process, if it does not exist: on the host, and where it is bound.

        CreateProcess looks it up in the caller's view of the files. The shim is outside the job, so what is bound for
        the job does not count, and the call fails with ERROR_DIRECTORY (267)
        (https://github.com/microsoft/hcsshim/blob/main/internal/jobcontainers/jobcontainer.go).
        """
        if ".." in paths.parts_of(directory):
            raise JobError(DIRECTORY, f"the working directory {directory!r} has '..' in it: give a path without")
        try:
            if not self._job.can_bind and paths.is_below(directory, self.root):
                self._make_below(self.root, paths.parts_of(directory[len(self.root) :]))
                return
            jobs.make_directory(directory)
            if (bound := mounts.innermost(self._bound, directory)) is not None and not bound.read_only:
                self._make_below(bound.source, bound.parts_below(directory))
        except OSError as error:
            raise JobError(
                DIRECTORY, f"the working directory {directory!r} cannot be created: {error.strerror}"
            ) from error

    @staticmethod
    def _make_below(root: str, parts: list[str]) -> None:
        try:
            jobs.make_directory_below(root, parts)
        except NotADirectoryError:
            pass  # the image has a link or a file there: its own processes may follow it, the shim does not

    # Lifecycle.

    def start(self) -> None:
        """Only its init has to be started."""

    def on_exit(self, callback: Callable[[], object]) -> None:
        self._job.on_lost(callback)

    @property
    def memory_breached(self) -> bool:
        return self._job.memory_breached

    def set_affinity(self, processors: Sequence[tuple[int, int]]) -> None:
        try:
            with as_hcs_error(f"affinity of {self.id}"):
                self._job.set_affinity(processors)
        except HcsError as error:
            if normalise(error.code) != INVALID_ARGUMENT:
                raise
            masks = ", ".join(f"{mask:#x} of group {group}" for mask, group in processors)
            raise InvalidSpec(f"cpu.affinity is {masks}: Windows has no such processors here; correct them") from None

    # Stop and teardown.

    def _stop(self) -> bool:
        """Terminate what is left. It is sent CtrlShutdown first, unless the init was terminated."""
        self.system.stopped = True
        try:
            forced = self._init is None or self._init.killed
            if not forced and self._job.signal_all("CtrlShutdown"):
                self._job.wait_empty(SHUTDOWN_SECONDS)
            self._job.terminate()
            return True
        except JobError as error:
            self._warn(f"container {self.id} did not stop: {error}")
            return False

    def _teardown(self, stopped: bool) -> None:
        keep = [self._entry]
        run_all(
            [
                lambda: release_ledger(self.ledger, self._warn, keep),
                self._job.close,
                lambda: release_ledger(self.ledger, self._warn),
            ]
        )


def _parameters(
    spec: Spec,
    process: Section | None,
    root: str,
    terminal: bool | None = None,
    *,
    stdin: bool = False,
    stdout: bool = False,
    stderr: bool = False,
) -> Document:
    """The process document of the init, or of an exec, with the path of the root directory put in."""
    own = _expanded(spec.process, root)
    return process_document.parameters(
        own if process is None else _expanded(process, root),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        terminal=terminal,
        container=None if process is None else own,
    )


def _expanded(process: Section, root: str) -> Section:
    values = dict(process.values)
    for name in ("cwd", "commandLine"):
        if isinstance(values.get(name), str):
            values[name] = paths.expand(values[name], root)
    if isinstance(values.get("args"), list):
        values["args"] = [paths.expand(text, root) if isinstance(text, str) else text for text in values["args"]]
    return Section(values, process.path)
