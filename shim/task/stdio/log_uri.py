"""Parses the stdio of a request: a path, or a URI with one of a few schemes.

Python's own URL parser is not used: its import costs more than all callers of this module.
"""

from __future__ import annotations

from shim.platform.stream_paths import EXAMPLE, PIPE, SCHEMES, absolute
from shim.task.errors import unknown

__all__ = ["PIPE", "SCHEMES", "Target", "parse"]


class Target:
    """The endpoint of a stream. `scheme` is "" for a plain path; `query` holds the URI's parameters in order."""

    __slots__ = ("path", "query", "scheme")

    def __init__(self, scheme: str, path: str, query: list[tuple[str, str]]) -> None:
        self.scheme = scheme
        self.path = path
        self.query = query

    @property
    def is_logger(self) -> bool:
        return self.scheme.startswith("binary")


def parse(name: str, value: str) -> Target:
    """`name` is the stream's, for error messages."""
    scheme, separator, rest = value.partition("://")
    if not separator:
        scheme, path, query = "", value, ""
    else:
        if scheme not in SCHEMES:
            raise unknown(
                f"{name} {value!r} has the scheme {scheme!r}, which is none of those that can be used: "
                f"the path of {PIPE}, {', '.join(f'{one}://' for one in SCHEMES)}"
            )
        rest = rest.partition("#")[0]
        path, _, query = rest.partition("?")
        path = _unquote(path)
    path = absolute(scheme, path)
    if not path or "\0" in path:
        raise unknown(f"{name} {value!r} must be an absolute path, or a URI with one, as in {EXAMPLE}")
    parameters = []
    for part in query.split("&") if query else ():
        key, _, text = part.partition("=")
        if key:
            parameters.append((_unquote(key.replace("+", " ")), _unquote(text.replace("+", " "))))
    return Target(scheme, path, parameters)


def _unquote(text: str) -> str:
    if "%" not in text:
        return text
    first, *parts = text.encode("utf-8", "surrogateescape").split(b"%")
    out = [first]
    for part in parts:
        try:
            out.append(bytes((int(part[:2].decode("ascii"), 16),)) + part[2:])
        except ValueError:
            out.append(b"%" + part)
    return b"".join(out).decode("utf-8", "surrogateescape")
