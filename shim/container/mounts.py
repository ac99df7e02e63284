"""Mounts of a container without a VM: directories and files of the host, and named pipes."""

from __future__ import annotations

from shim.container.process_document import is_absolute_in_container
from shim.oci.errors import InvalidSpec
from shim.platform import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.oci.section import Section
    from shim.oci.spec import Spec

    Document = dict[str, Any]

PIPE = "\\\\.\\pipe\\"
# Sources that only a container in a utility VM can have.
_VM_SOURCES = (
    "sandbox://",
    "sandbox-tmp://",
    "hugepages://",
    "uvm://",
    "physical-disk://",
    "virtual-disk://",
    "evd://",
)


class MappedMounts:
    """The mounts for the container's document."""

    __slots__ = ("directories", "disks", "pipes")

    def __init__(self) -> None:
        self.directories: list[Document] = []
        #: Directories that are disks of a VM: they come last in the document, as with Microsoft's shim.
        self.disks: list[Document] = []
        self.pipes: list[Document] = []


def from_spec(spec: Spec) -> MappedMounts:
    result = MappedMounts()
    for mount in spec.mounts:
        _add(mount, result)
    return result


def _add(mount: Section, result: MappedMounts) -> None:
    source, destination = source_and_destination(mount)
    if source.lower().startswith(PIPE):
        if not destination.lower().startswith(PIPE):
            raise InvalidSpec(f"{mount.path} shows the pipe {source} at {destination}: name a pipe there too, {PIPE}…")
        result.pipes.append({"ContainerPipeName": destination[len(PIPE) :], "HostPath": source})
        return
    if source.lower().startswith(_VM_SOURCES):
        raise InvalidSpec(
            f'failed to resolve path for mount source "{source}": only a container in a utility VM can have that; '
            f"correct {mount.path}.source"
        )
    if not is_absolute_in_container(destination) and not is_drive(destination):
        raise InvalidSpec(f"{mount.path}.destination is {destination!r}: give an absolute path, such as C:\\data")
    result.directories.append(mapped_directory(mount, source, destination))


def source_and_destination(mount: Section) -> tuple[str, str]:
    source, destination = mount.text("source"), mount.text("destination")
    if not source or not destination:
        missing = "destination" if source else "source"
        raise InvalidSpec(
            f"invalid OCI spec - a mount must have both source and a destination: {mount.path} has no {missing}"
        )
    return source, destination


def mapped_directory(mount: Section, source: str, destination: str, failed: str = "") -> Document:
    """The entry of a directory or file of the host. `failed` comes before the reason in errors."""
    if not host.is_absolute(source):
        raise InvalidSpec(f"{failed}{mount.path}.source is {source!r}: give an absolute path of the host")
    try:
        path = host.final_path(source)
    except OSError as error:
        reason = host.reason(error)
        shown = source.replace("\\", "\\\\")  # as Go quotes it
        raise InvalidSpec(
            f'{failed}failed to resolve path for mount source "{shown}": {reason}; create it or correct '
            f"{mount.path}.source"
        ) from None
    entry: Document = {"HostPath": path, "ContainerPath": destination}
    if any(option.lower() == "ro" for option in mount.texts("options")):
        entry["ReadOnly"] = True
    return entry


def is_drive(path: str) -> bool:
    """`D:`, a drive of its own; C: is the container's."""
    return len(path) == 2 and path[0].isalpha() and path[1] == ":" and path[0] not in "cC"
