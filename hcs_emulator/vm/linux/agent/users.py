"""Users and groups by name, from the files in a container's root."""

from __future__ import annotations

import os
from collections.abc import Callable

from hcs_emulator.vm.linux.agent.errors import GuestError, reason

_LARGEST = 0xFFFFFFFF


def resolve(root: str, user: str) -> tuple[int, int]:
    """The uid and gid of `user[:group]`. A number that the files do not have is taken as it is; its group is then 0."""
    parts = user.split(":")
    if len(parts) > 2:
        raise GuestError(f"invalid userstr: '{user}'")
    uid, gid = _user(root, parts[0])
    if len(parts) == 2:
        gid = _group(root, parts[1])
    return uid, gid


def _user(root: str, text: str) -> tuple[int, int]:
    number = _number(text)
    if number is None:
        try:
            entry = _only(_entries(root, "passwd", 4), lambda fields: fields[0] == text, "user")
        except GuestError as error:
            raise error.within(f"failed to find user by username: {text}") from error
        return _bounded("UID", int(entry[2])), _bounded("GID", int(entry[3]))
    try:
        entry = _only(_entries(root, "passwd", 4), lambda fields: int(fields[2]) == number, "user")
    except GuestError:
        return _bounded("UID", number), 0
    return int(entry[2]), int(entry[3])


def _group(root: str, text: str) -> int:
    number = _number(text)
    if number is not None:
        return _bounded("GID", number)
    try:
        entry = _only(_entries(root, "group", 3), lambda fields: fields[0] == text, "user")
    except GuestError as error:
        raise error.within(f"failed to find group by groupname: {text}") from error
    return _bounded("GID", int(entry[2]))


def _entries(root: str, name: str, numbers: int) -> list[list[str]]:
    """The lines of a file whose fields before `numbers` are complete, and from the third on numbers."""
    path = os.path.join(root, "etc", name)
    try:
        with open(path, errors="surrogateescape") as file:
            lines = [line.strip().split(":") for line in file]
    except OSError as error:
        raise GuestError(f"open {path}: {reason(error)}") from error
    return [fields for fields in lines if len(fields) >= numbers and all(map(_is_number, fields[2:numbers]))]


def _is_number(text: str) -> bool:
    return _number(text) is not None


def _number(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return int(text) if digits.isascii() and digits.isdecimal() else None


def _only(entries: list[list[str]], matches: Callable[[list[str]], bool], kind: str) -> list[str]:
    found = [entry for entry in entries if matches(entry)]
    if len(found) != 1:
        raise GuestError(f"expected exactly 1 {kind} matched '{len(found)}'")
    return found[0]


def _bounded(kind: str, number: int) -> int:
    if not 0 <= number <= _LARGEST:
        raise GuestError(f"{kind} ({number}) exceeds uint32 bounds")
    return number
