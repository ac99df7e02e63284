"""mount(2) and umount2(2) by ctypes, without starting a program."""

from __future__ import annotations

import ctypes
import os

MS_PRIVATE = 1 << 18
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


def _check(result: int, path: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    _check(
        _libc.mount(os.fsencode(source), os.fsencode(target), kind.encode(), flags, os.fsencode(data) or None), target
    )


def unmount(target: str) -> None:
    """Detach at once; processes that use the mount keep it until they close it."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), target)


def overlay(target: str, lower: list[str], upper: str, work: str) -> None:
    """Mount `lower` (topmost first) with `upper` over them at `target`."""
    data = f"lowerdir={':'.join(map(_escape, lower))},upperdir={_escape(upper)},workdir={_escape(work)}"
    if len(os.fsencode(data)) >= os.sysconf("SC_PAGE_SIZE"):
        raise OSError(36, "the paths of all layers together are too long for one mount", target)
    mount("hcs-emulator", target, "overlay", 0, data)


def _escape(path: str) -> str:
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


def mounted_below(directory: str) -> list[str]:
    """Mount points in a directory, deepest first."""
    prefix = os.path.realpath(directory) + "/"
    found = []
    with open("/proc/self/mountinfo") as table:
        for line in table:
            point = line.split()[4].encode().decode("unicode_escape")
            if point.startswith(prefix):
                found.append(point)
    return sorted(found, reverse=True)
