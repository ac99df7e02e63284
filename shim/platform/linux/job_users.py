"""Maps Windows accounts and groups to users of the emulator's host."""

from __future__ import annotations

from shim.platform.job_types import INHERIT, LOGON_FAILURE, MEMBER, SERVICE, JobError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.platform.job_types import Identity

NOBODY = "65534"
# Built-in groups of Windows; members of the first have all privileges.
_ADMINISTRATORS = "administrators"
_GROUPS = (_ADMINISTRATORS, "users", "guests")
_SYSTEM = "system"


def is_local_group(name: str) -> bool:
    return name.lower() in _GROUPS or _number("/etc/group", name) is not None


def linux_user(identity: Identity) -> str:
    """The user for the keeper: "" is the shim's own, otherwise `uid` or `uid:gid`. Raises JobError."""
    name = identity.name.lower()
    if identity.kind == INHERIT or (identity.kind == SERVICE and name == _SYSTEM):
        return ""
    if identity.kind == SERVICE:
        return NOBODY
    if identity.kind == MEMBER:
        group = _number("/etc/group", identity.name)
        if name == _ADMINISTRATORS:
            return ""
        return f"{NOBODY}:{group}" if group is not None else NOBODY
    user = _number("/etc/passwd", identity.name)
    if user is None:
        raise JobError(LOGON_FAILURE, f"{identity.name!r} cannot be logged on: the host has neither user nor group")
    return str(user)


def _number(table: str, name: str) -> int | None:
    with open(table, encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(":")
            if len(fields) > 2 and fields[0].lower() == name.lower() and fields[2].isascii() and fields[2].isdigit():
                return int(fields[2])
    return None
