"""The user of a standalone Linux container, given by name.

Clients on Windows cannot read the image's `/etc/passwd`; they give the name. Guests resolve it for containers of a pod
and for execs, but not for a container without a pod, which would run as root. So the shim resolves it, by the files of
the image in the VM. The rules are the guest's: `user[:group]`, names or numbers; a number needs no entry.
"""

from __future__ import annotations

from shim.oci.errors import InvalidSpec
from shim.uvm.linux import commands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.uvm.linux.guest import LinuxGuest

    Document = dict[str, Any]
    Entry = list[str]

_MAX_ID = (1 << 32) - 1
# With leading zeros; Python refuses to convert thousands of digits.
_MAX_DIGITS = 100
# How much of a number is in an error.
_SHOWN = 40


def resolved(guest: LinuxGuest, root: str, user: Document) -> Document:
    """`process.user` with the uid and gid of its name. `root` is the root file system in the guest."""
    name = user.get("username")
    if not isinstance(name, str) or not name:
        return user
    uid, gid = resolve(name, lambda file: _read(guest, f"{root}/etc/{file}"))
    return {**user, "uid": uid, "gid": gid}


def resolve(name: str, read: Callable[[str], str]) -> tuple[int, int]:
    """(uid, gid). `read` returns the text of `passwd` or `group`."""
    user, colon, group = name.partition(":")
    if ":" in group:
        raise InvalidSpec(f"invalid userstr: '{name}': give user or user:group, names or numbers")
    entry = _find(read("passwd"), user, name_at=0, id_at=2)
    if entry is None and not _is_number(user):
        raise InvalidSpec(f"failed to find user by username: {user}: the image's /etc/passwd has no such user")
    uid = _number(entry[2] if entry is not None else user, "UID")
    gid = _number(entry[3], "GID") if entry is not None else 0
    if colon:
        found = _find(read("group"), group, name_at=0, id_at=2)
        if found is None and not _is_number(group):
            raise InvalidSpec(f"failed to find group by groupname: {group}: the image's /etc/group has no such group")
        gid = _number(found[2] if found is not None else group, "GID")
    return uid, gid


def _find(text: str, wanted: str, *, name_at: int, id_at: int) -> Entry | None:
    at = id_at if _is_number(wanted) else name_at
    for line in text.splitlines():
        fields = line.strip().split(":")
        is_whole = len(fields) > 3 and _is_number(fields[2]) and (len(fields) < 7 or _is_number(fields[3]))
        if is_whole and fields[at] == wanted:
            return fields
    return None


def _is_number(text: str) -> bool:
    """Digits as the guest reads them; Python reads those of other scripts, too."""
    return text.isascii() and text.isdecimal()


def _number(text: str, what: str) -> int:
    """The image's files are not trusted: a line may have the number of fields of the other file, or any number."""
    if not _is_number(text):
        raise InvalidSpec(f"{what} ({text[:_SHOWN]}) is not a number: correct /etc/passwd and /etc/group of the image")
    if len(text) > _MAX_DIGITS or int(text) > _MAX_ID:
        raise InvalidSpec(f"{what} ({text[:_SHOWN]}) exceeds uint32 bounds: give a smaller one")
    return int(text)


def _read(guest: LinuxGuest, path: str) -> str:
    """ "" if it does not exist, as in an image of one static program."""
    code, text = commands.run(guest, ("cat", path))
    return text if not code else ""
