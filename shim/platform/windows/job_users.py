"""The user of a job's processes: its token, and creating a temporary member of a local group."""

from __future__ import annotations

from shim.platform.job_types import INHERIT, MEMBER, SERVICE, JobError, user_name
from shim.platform.windows.job_library import check, ffi, handle, library, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.platform.job_types import Identity

_LOGON_INTERACTIVE = 2
_LOGON_SERVICE = 5
_PROVIDER_DEFAULT = 0
_TOKEN_ALL_ACCESS = 0xF01FF
_OWN_PROCESS = 0xFFFFFFFFFFFFFFFF
_PRIVILEGE_USER = 1
_NORMAL_ACCOUNT = 0x200
_PASSWORD_NEVER_EXPIRES = 0x10000
_USER_NOT_FOUND = 2221
_SUCCESS = 0
# Levels of structures: USER_INFO_1, USER_INFO_23 and LOCALGROUP_MEMBERS_INFO_0.
_LEVEL_USER, _LEVEL_SID, _LEVEL_MEMBER_SID = 1, 23, 0
# CRI's ids have 64 hexadecimal digits.
_CRI_ID_LENGTH = 64
_HEXADECIMAL = frozenset("0123456789abcdef")


def is_local_group(name: str) -> bool:
    netapi32 = library("netapi32")
    buffer = ffi.new("void **")
    if netapi32.NetLocalGroupGetInfo(ffi.NULL, name, 1, buffer) != _SUCCESS:
        return False
    netapi32.NetApiBufferFree(buffer[0])
    return True


def log_on(identity: Identity) -> int:
    """A token; 0 for the shim's own user. Raises JobError."""
    if identity.kind == INHERIT:
        return 0
    user, domain, password = identity.name, identity.domain, None
    kind = _LOGON_SERVICE if identity.kind == SERVICE else _LOGON_INTERACTIVE
    if identity.kind == MEMBER:
        user, domain, password = identity.user, ".", _create_user(identity.id, identity.name)
    token = ffi.new("HANDLE *")
    result = library("advapi32").LogonUserW(
        user, domain, ffi.NULL if password is None else password, kind, _PROVIDER_DEFAULT, token
    )
    check(result, f"{domain}\\{user} cannot be logged on")
    return number(token[0])


def own_token() -> int:
    token = ffi.new("HANDLE *")
    result = library("advapi32").OpenProcessToken(handle(_OWN_PROCESS), _TOKEN_ALL_ACCESS, token)
    check(result, "the shim's own token cannot be opened")
    return number(token[0])


def environment(token: int) -> dict[str, str]:
    """The initial environment of the token's user."""
    userenv = library("userenv")
    block = ffi.new("void **")
    check(userenv.CreateEnvironmentBlock(block, handle(token), 0), "the user's variables cannot be read")
    try:
        variables = {}
        at = ffi.cast("char16_t *", block[0])
        while text := str(ffi.string(at)):
            # Names that begin with `=` are cmd's current directories of drives.
            name, sign, value = text[1:].partition("=")
            if sign:
                variables[text[0] + name] = value
            at += len(text.encode("utf-16-le")) // 2 + 1
        return variables
    finally:
        userenv.DestroyEnvironmentBlock(block[0])


def _create_user(id: str, group: str) -> str:
    """Create a user for a container in the group, with a random password, which is returned."""
    import nt

    name = user_name(id)
    netapi32 = library("netapi32")
    password = f"Aa-{nt.urandom(24).hex()}"
    texts = [ffi.new("char16_t[]", text) for text in (name, password, _comment(id))]
    info = ffi.new("USER_INFO *", {"Name": texts[0], "Password": texts[1], "Privilege": _PRIVILEGE_USER})
    info.Comment = texts[2]
    info.Flags = _NORMAL_ACCOUNT | _PASSWORD_NEVER_EXPIRES
    code = netapi32.NetUserAdd(ffi.NULL, _LEVEL_USER, info, ffi.NULL)
    if code != _SUCCESS:
        raise JobError(code, f"user {name!r} cannot be created for the container (NetUserAdd returns {code})")
    code = _add_to_group(name, group)
    if code != _SUCCESS:
        netapi32.NetUserDel(ffi.NULL, name)
        raise JobError(code, f"user {name!r} cannot be put into {group!r} (netapi32 returns {code})")
    return password


def _add_to_group(name: str, group: str) -> int:
    """By its SID: an account of the domain may have the same name."""
    netapi32 = library("netapi32")
    buffer = ffi.new("void **")
    code = int(netapi32.NetUserGetInfo(ffi.NULL, name, _LEVEL_SID, buffer))
    if code != _SUCCESS:
        return code
    try:
        member = ffi.new("GROUP_MEMBER *", {"Sid": ffi.cast("USER_SID *", buffer[0]).Sid})
        return int(netapi32.NetLocalGroupAddMembers(ffi.NULL, group, _LEVEL_MEMBER_SID, member, 1))
    finally:
        netapi32.NetApiBufferFree(buffer[0])


def remove_user(name: str) -> None:
    code = library("netapi32").NetUserDel(ffi.NULL, name)
    if code not in (_SUCCESS, _USER_NOT_FOUND):
        raise JobError(code, f"user {name!r} cannot be removed (NetUserDel returns {code})")


def remove_container_user(id: str) -> None:
    """Remove the user of a container without an entry in the ledger: the ledger may be lost, or Microsoft's shim may
    have created the user. Raises JobError.

    Any account may have the name of a container. So the user is removed only if its comment names the container, or if
    it has no comment, as with Microsoft's shim, and a name that only an id of CRI gives it: 20 hexadecimal digits.
    """
    netapi32 = library("netapi32")
    buffer = ffi.new("void **")
    if netapi32.NetUserGetInfo(ffi.NULL, user_name(id), _LEVEL_USER, buffer) != _SUCCESS:
        return
    try:
        found = ffi.cast("USER_INFO *", buffer[0]).Comment
        comment = str(ffi.string(found)) if found != ffi.NULL else ""
    finally:
        netapi32.NetApiBufferFree(buffer[0])
    if comment == _comment(id) or (not comment and len(id) == _CRI_ID_LENGTH and _HEXADECIMAL.issuperset(id)):
        remove_user(user_name(id))


def _comment(id: str) -> str:
    return f"containerd-shim-runhcs-v1: user of container {id}"
