"""Mounts of a host process container: directories and files of the host.

With the bind filter they appear at their destinations, for the container's processes only; there is also a link below
the container's root, for programs that expect them there as before the bind filter. Without it there are only links.
"""

from __future__ import annotations

from shim.container.mounts import PIPE, mapped_directory, source_and_destination
from shim.container.process_document import is_absolute_in_container
from shim.hostprocess.paths import is_below, parts_of
from shim.oci.errors import InvalidSpec
from shim.platform import jobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.oci.section import Section
    from shim.oci.spec import Spec
    from shim.platform.job_types import Job

    Warn = Callable[[str], object]


class HostMount:
    __slots__ = ("destination", "read_only", "source")

    def __init__(self, source: str, destination: str, read_only: bool) -> None:
        self.source = source
        self.destination = destination
        self.read_only = read_only

    def parts_below(self, path: str) -> list[str]:
        """The names from the destination to a path at or below it."""
        return parts_of(path[len(self.destination.rstrip("\\/")) :])


def innermost(bound: list[HostMount], path: str) -> HostMount | None:
    """The mount that a path is in; of mounts in mounts, the innermost."""
    found = [mount for mount in bound if is_below(path, mount.destination)]
    return max(found, key=lambda mount: len(mount.destination), default=None)


def from_spec(spec: Spec) -> list[HostMount]:
    return [_read(mount) for mount in spec.mounts]


def _read(mount: Section) -> HostMount:
    source, destination = source_and_destination(mount)
    if source.lower().startswith(PIPE) or destination.lower().startswith(PIPE):
        raise InvalidSpec(
            f"{mount.path} is the pipe {source}: a host process container has the host's pipes, so use it directly and "
            "leave the mount out"
        )
    if "://" in source:
        raise InvalidSpec(f"{mount.path}.source is {source!r}, which only a container in a utility VM can have")
    if not is_absolute_in_container(destination):
        raise InvalidSpec(f"{mount.path}.destination is {destination!r}: give an absolute path, such as C:\\data")
    if ".." in parts_of(destination):
        raise InvalidSpec(f"{mount.path}.destination is {destination!r}: give a path without '..'")
    entry = mapped_directory(mount, source, destination)
    return HostMount(entry["HostPath"], destination, bool(entry.get("ReadOnly")))


def add(job: Job, mount: HostMount, files: str, warn: Warn) -> None:
    """`files` is the container's root directory as seen outside the job."""
    if job.can_bind:
        job.bind(mount.source, mount.destination, mount.read_only)
    elif mount.read_only:
        warn(f"the mount at {mount.destination} is writable: without the bind filter it is a link")
    try:
        jobs.link_below(mount.destination if job.can_bind else mount.source, files, parts_of(mount.destination))
    except (FileExistsError, NotADirectoryError):
        if not job.can_bind:
            warn(f"the mount at {mount.destination} is not created: the path exists in the container's image")
    except OSError as error:
        if not job.can_bind:
            raise InvalidSpec(f"the mount at {mount.destination} cannot be created: {error.strerror}") from error
