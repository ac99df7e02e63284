"""`-info`: name and version of the shim, for `ctr plugins inspect-runtime` and for CRI, which runs it for every runtime
when containerd starts."""

from __future__ import annotations

from shim.api.introspection import RuntimeInfo, RuntimeVersion
from shim.api.wellknown import Any
from shim.api.wire import DecodeError
from shim.commands import CommandError, read_stdin
from shim.platform import files
from shim.version import NAME, VERSION


def run() -> int:
    """Print a RuntimeInfo. The options of stdin, if any, are returned unchanged."""
    data = read_stdin()
    try:
        options = Any.decode(data) if data else None
    except DecodeError as error:
        raise CommandError(f"stdin is not a protobuf Any with runtime options: {error}; give one, or nothing") from None
    files.write_stdout(RuntimeInfo(name=NAME, version=RuntimeVersion(version=VERSION), options=options).encode())
    return 0
