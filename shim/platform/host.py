"""The host: directories, final paths, mounts, processors, and whether it can run Linux specs.

Without `os`, which nothing else in a shim needs: with its own imports it takes a twentieth of an idle shim's memory.
"""

from __future__ import annotations

import sys

from shim.platform import files

if sys.platform == "win32":
    import nt as system
else:
    import posix as system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# Elsewhere than on Windows, HCS is emulated with Linux processes: specs with only a `linux` section run too, and root
# file systems may be mounts of Linux snapshotters.
IS_EMULATED = sys.platform != "win32"

# The kernel limits mount data to a page.
MAX_MOUNT_DATA = 4000
_TYPE, _DIRECTORY, _LINK = 0o170000, 0o040000, 0o120000  # in a file's mode
_MOUNT_POINT = 0xA0000003  # the reparse tag of a junction
_SEPARATORS = "\\/" if sys.platform == "win32" else "/"
_LOWER = "lowerdir="
WAIT_DEBUGGER = "CONTAINERD_SHIM_RUNHCS_V1_WAIT_DEBUGGER"


def operating_system() -> str:
    """As container platforms name it."""
    return "linux" if IS_EMULATED else "windows"


def architecture() -> str:
    """As container platforms name it."""
    machine = files.environment("PROCESSOR_ARCHITECTURE") if sys.platform == "win32" else system.uname().machine
    return {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64"}.get(machine.lower(), machine.lower())


def processors() -> int:
    return system.cpu_count() or 1


def random(count: int) -> bytes:
    return system.urandom(count)


def reason(error: OSError) -> str:
    """The system's text for an error."""
    return error.strerror or system.strerror(error.errno or 0)


def exists(path: str) -> bool:
    try:
        system.stat(files.native(path))
    except (OSError, ValueError):
        return False
    return True


def is_directory(path: str) -> bool:
    try:
        return system.stat(files.native(path)).st_mode & _TYPE == _DIRECTORY
    except (OSError, ValueError):
        return False


def is_link(path: str) -> bool:
    """A symbolic link, or on Windows a junction."""
    try:
        status = system.lstat(files.native(path))
    except (OSError, ValueError):
        return False
    return status.st_mode & _TYPE == _LINK or getattr(status, "st_reparse_tag", 0) == _MOUNT_POINT


def make_directories(path: str, mode: int = 0o777) -> None:
    """Create a directory and its parents; they may exist."""
    if is_directory(path):
        return
    path = path.rstrip(_SEPARATORS)
    end = max(path.rfind(separator) for separator in _SEPARATORS)
    if end > 0 and not exists(path[:end]):
        make_directories(path[:end])
    try:
        system.mkdir(files.native(path), mode)
    except OSError:
        if not is_directory(path):
            raise


def revision() -> int:
    """The update build revision (UBR) of this Windows, 0 if unknown. An emulated one has every update of its build."""
    if sys.platform == "win32":
        import winreg

        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SOFTWARE\Microsoft\Windows NT\CurrentVersion") as key:
                return int(winreg.QueryValueEx(key, "UBR")[0])
        except (OSError, ValueError):
            return 0
    return 0xFFFF


def wait_for_debugger(log: Any) -> None:
    """If the environment requests it, and this is Windows: wait until a debugger signals its event."""
    if sys.platform == "win32" and files.environment(WAIT_DEBUGGER):
        from shim.platform.windows import debugger_event

        debugger_event.wait(log)


def beside_program(name: str) -> str:
    """The path of a file beside the shim's program: the .exe, or the modules that `runhcs install` compiled.

    The daemon of the Windows distribution runs code from memory: then argv[0] is `-c`, and the program is the .exe.
    """
    import os

    program = sys.executable if sys.argv[0] in ("", "-c", "-m") else sys.argv[0]
    return os.path.join(os.path.dirname(os.path.abspath(program)), name)


def final_path(path: str) -> str:
    """A path with all links resolved, in the form HCS accepts: by volume on Windows. OSError if it is missing."""
    if sys.platform == "win32":
        from shim.platform.windows.paths import final_path as by_volume

        return by_volume(path)
    descriptor = system.open(path, system.O_PATH | system.O_CLOEXEC)
    try:
        return system.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        system.close(descriptor)


def grant_vm_group(path: str) -> None:
    """Let all utility VMs create files in a directory. OSError if that fails."""
    if sys.platform == "win32":
        from shim.platform.windows import vm_access

        vm_access.grant(path)
    else:
        # The emulator's VMs have the rights of others.
        system.chmod(path, system.stat(path).st_mode & 0o7777 | 0o007)


def make_executable(path: str) -> None:
    """Let the guests of VMs run a program that is shared with them."""
    if sys.platform == "win32":
        from shim.platform.windows import vm_access

        vm_access.grant(path, vm_access.EVERYONE, vm_access.GENERIC_READ_EXECUTE)
    else:
        system.chmod(path, 0o755)


def is_absolute(path: str) -> bool:
    """Whether it is an absolute path of this host."""
    if sys.platform == "win32":
        begin = path[:3].replace("/", "\\")
        return begin.startswith("\\\\") or begin[1:] == ":\\"
    return path.startswith("/")


def mount(source: str, target: str, fstype: str, options: Sequence[str]) -> None:
    """Mount a root file system as a snapshotter describes it. Only if HCS is emulated."""
    if sys.platform == "win32":
        raise OSError(50, "Windows mounts layers, not file systems")
    from shim.platform.linux.mounts import mount as mount_linux

    if fstype != "overlay" or sum(len(option) + 1 for option in options) < MAX_MOUNT_DATA:
        mount_linux(source, target, fstype, options)
        return
    shorter, descriptor = _shorten(options)
    try:
        mount_linux(source, target, fstype, shorter)
    finally:
        system.close(descriptor)


def _shorten(options: Sequence[str]) -> tuple[list[str], int]:
    """An overlay's options with its lower directories relative to a descriptor of their common parent.

    The kernel accepts one page of options, and an image with fifty layers needs more. The caller closes the descriptor.
    """
    import os

    lower = next((option for option in options if option.startswith(_LOWER)), _LOWER)
    directories = lower[len(_LOWER) :].split(":")
    common = os.path.commonpath(directories) if all(map(os.path.isabs, directories)) else "/"
    descriptor = os.open(common, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    paths = [f"/proc/self/fd/{descriptor}/{os.path.relpath(directory, common)}" for directory in directories]
    return [_LOWER + ":".join(paths) if option == lower else option for option in options], descriptor


def unmount(target: str) -> None:
    """Unmount the target if it is mounted. A mount that is in use is detached and goes with its last user."""
    if sys.platform == "win32":
        return
    from shim.platform.linux.mounts import unmount as unmount_linux

    try:
        unmount_linux(target)
    except OSError as error:
        import errno

        if error.errno != errno.EBUSY:
            raise
        unmount_linux(target, detach=True)
