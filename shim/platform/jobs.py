r"""Jobs: trees of processes of the host that are limited, counted and ended as one. Host process containers are made of
them.

On Windows a job is a job object, `Global\JobContainer_<id>`, promoted to a silo where the bind filter is there, so
that files can be shown to its processes alone. On Linux, where Windows is emulated, a keeper process, a control group
and a mount namespace stand in for it. Either dies with this process, whatever happens to it.

The two packages offer the same functions and classes; this page chooses. What goes in and comes out is in `job_types`.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.platform.job_types import Job

_ALSO_IN_PATH = ("C:\\WINDOWS\\System32\\WindowsPowerShell\\v1.0\\", "C:\\WINDOWS\\System32\\Wbem")


def create(id: str, build: int) -> Job:
    """A new job with a container's name on a Windows of this build, empty. Raises JobError."""
    if sys.platform == "win32":
        from shim.platform.windows import job as windows

        return windows.Job(id)
    from shim.platform.linux import job as linux

    return linux.Job(id, build)


def is_local_group(name: str) -> bool:
    """Whether the machine has a group of users of that name."""
    if sys.platform == "win32":
        from shim.platform.windows import job_users as windows

        return windows.is_local_group(name)
    from shim.platform.linux import job_users as linux

    return linux.is_local_group(name)


def remove_user(name: str) -> None:
    """A user that was made for a job's time; one that is not there is as good."""
    if sys.platform == "win32":
        from shim.platform.windows import job_users as windows

        windows.remove_user(name)


def kill_job(fields: Mapping[str, str], deadline: float) -> None:
    """What a job leaves when its shim is killed. On Windows it ends with its last handle."""
    if sys.platform != "win32":
        from shim.platform.linux import job_cgroups

        job_cgroups.end(fields.get("groups", "").split("|"), deadline)


def cgroup_paths(id: str) -> str:
    """What the ledger has to know to end a job without its shim."""
    if sys.platform == "win32":
        return ""
    from shim.platform.linux import job_cgroups

    return "|".join(job_cgroups.Groups(id).paths())


def mount_volume(volume: str, directory: str) -> None:
    """Show a volume at a directory of the host, for everybody. Raises JobError."""
    if sys.platform == "win32":
        from shim.platform.windows import mount_points as windows

        windows.mount(volume, directory)
    else:
        from shim.platform.linux import job_mounts as linux

        linux.mount(volume, directory)


def unmount_volume(directory: str) -> None:
    """Undo it; the directory goes, too."""
    if sys.platform == "win32":
        from shim.platform.windows import mount_points as windows

        windows.unmount(directory)
    else:
        from shim.platform.linux import job_mounts as linux

        linux.unmount(directory)


def link(target: str, path: str) -> None:
    """Make a link at `path`, the directories above it included. Raises OSError; FileExistsError if that is there."""
    if sys.platform == "win32":
        from shim.platform.windows import mount_points as windows

        windows.link(target, path)
    else:
        from shim.platform.linux import job_mounts as linux

        linux.link(target, path)


def make_directory(path: str) -> None:
    """A directory of the host, as a spec names it, with those above it. Raises OSError."""
    import os

    if sys.platform == "win32":
        os.makedirs(path, exist_ok=True)
    else:
        from shim.platform.linux import job_mounts as linux

        os.makedirs(linux.posix(path), exist_ok=True)


def is_file(path: str) -> bool:
    import os

    return os.path.isfile(path)


def extend_path(path: str, root: str) -> str:
    """A search path with the container's files, and on Windows what else Microsoft's shim puts there, at its end."""
    if sys.platform != "win32" and ";" not in path:
        from shim.platform.linux import job_mounts as linux

        return f"{path}:{linux.posix(root)}" if path else linux.posix(root)
    return ";".join([*filter(None, [path.rstrip(";")]), root, *_ALSO_IN_PATH])
