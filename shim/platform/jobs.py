r"""Jobs: process trees on the host with common limits, statistics and termination, for host-process containers.

On Windows a job is a job object, `Global\JobContainer_<id>`, promoted to a silo if there is a bind filter, so that
files can be bound for its processes only. On Linux, where Windows is emulated, a keeper process (the emulator's silo
program in job mode), cgroups and a mount namespace implement it. Either ends with this process, even if it is killed.

The packages of both systems offer the same functions; this module selects. `job_types` has the types.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from shim.platform.job_types import Job

    Document = dict[str, Any]

_MICROSOFT_PATH = ("C:\\WINDOWS\\System32\\WindowsPowerShell\\v1.0\\", "C:\\WINDOWS\\System32\\Wbem")


def create(id: str, build: int) -> Job:
    """Create an empty job for a container on this Windows build. Raises JobError."""
    if sys.platform == "win32":
        from shim.platform.windows import job as windows

        return windows.Job(id)
    from shim.platform.linux import job as linux

    return linux.Job(id, build)


def is_local_group(name: str) -> bool:
    """Whether the machine has a local group of that name."""
    if sys.platform == "win32":
        from shim.platform.windows import job_users as windows

        return windows.is_local_group(name)
    from shim.platform.linux import job_users as linux

    return linux.is_local_group(name)


def remove_user(name: str) -> None:
    """Remove a user that was created for a job, if it exists."""
    if sys.platform == "win32":
        from shim.platform.windows import job_users as windows

        windows.remove_user(name)


def remove_container_user(id: str) -> None:
    """Remove the user that was created for a container, if it exists and is recognised. Raises JobError."""
    if sys.platform == "win32":
        from shim.platform.windows import job_users as windows

        windows.remove_container_user(id)


def kill_job(fields: Mapping[str, str], deadline: float) -> None:
    """Kill what a job leaves if its shim is killed. On Windows a job ends with its last handle."""
    if sys.platform != "win32":
        from shim.platform.linux import job_cgroups

        job_cgroups.kill_and_remove(fields.get("groups", "").split("|"), deadline)


def cgroup_paths(id: str) -> str:
    """The cgroups of a job, for the ledger: `delete` kills them if the shim is dead."""
    if sys.platform == "win32":
        return ""
    from shim.platform.linux import job_cgroups

    return "|".join(job_cgroups.Groups(id).paths())


def mount_volume(volume: str, directory: str) -> None:
    """Mount a volume at a directory of the host, visible to all. Raises JobError."""
    if sys.platform == "win32":
        from shim.platform.windows import mount_points as windows

        windows.mount(volume, directory)
    else:
        from shim.platform.linux import job_mounts as linux

        linux.mount(volume, directory)


def unmount_volume(directory: str) -> None:
    """Unmount it and remove the directory."""
    if sys.platform == "win32":
        from shim.platform.windows import mount_points as windows

        windows.unmount(directory)
    else:
        from shim.platform.linux import job_mounts as linux

        linux.unmount(directory)


def link_below(target: str, root: str, parts: Sequence[str]) -> None:
    """Create a link below `root`, and its parent directories. Links below `root` are not followed: they belong to the
    container. Raises OSError; FileExistsError if it exists, NotADirectoryError if there is a link on the way."""
    if sys.platform == "win32":
        from shim.platform.windows import mount_points as windows

        windows.link_below(target, root, parts)
    else:
        from shim.platform.linux import job_mounts as linux

        linux.link_below(target, root, parts)


def make_directory_below(root: str, parts: Sequence[str]) -> None:
    """Create a directory below `root`, with its parents, as `link_below`."""
    if sys.platform == "win32":
        from shim.platform.windows import mount_points as windows

        windows.make_directory_below(root, parts)
    else:
        from shim.platform.linux import job_mounts as linux

        linux.make_directory_below(root, parts)


def make_directory(path: str) -> None:
    """Create a directory of the host, by its Windows path, with its parents. Raises OSError."""
    from shim.platform import host

    if sys.platform != "win32":
        from shim.platform.linux import job_mounts as linux

        path = linux.posix(path)
    host.make_directories(path)


def statistics_of(job: int, started_at: float) -> Document:
    """The statistics of a job by a handle for queries, in the form of HCS. Raises JobError; on Windows only."""
    if sys.platform == "win32":
        from shim.platform.windows import job_library, job_stats

        return job_stats.statistics(job_library.handle(job), started_at)
    from shim.platform.job_types import GENERAL_FAILURE, JobError

    raise JobError(GENERAL_FAILURE, "jobs of the emulator have no handles")


def is_file(path: str) -> bool:
    import os

    return os.path.isfile(path)


def extend_path(path: str, root: str) -> str:
    """PATH with the container's files appended, and on Windows the directories that Microsoft's shim appends."""
    if sys.platform != "win32" and ";" not in path:
        from shim.platform.linux import job_mounts as linux

        return f"{path}:{linux.posix(root)}" if path else linux.posix(root)
    return ";".join([*filter(None, [path.rstrip(";")]), root, *_MICROSOFT_PATH])
