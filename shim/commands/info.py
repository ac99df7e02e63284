"""`-info`: name, version and features of the shim, for `ctr plugins inspect-runtime` and for CRI, which runs it for
every runtime when containerd starts."""

from __future__ import annotations

from shim.api.introspection import RuntimeInfo, RuntimeVersion
from shim.api.wellknown import Any
from shim.api.wire import DecodeError
from shim.commands import CommandError, read_stdin
from shim.oci import options as runtime_options
from shim.oci.errors import InvalidSpec
from shim.oci.features import features
from shim.platform import files, host
from shim.version import NAME, VERSION


def run() -> int:
    """Print a RuntimeInfo. The options of stdin, if any, are returned unchanged."""
    data = read_stdin()
    try:
        options = Any.decode(data) if data else None
    except DecodeError as error:
        raise CommandError(f"stdin is not a protobuf Any with runtime options: {error}; give one, or nothing") from None
    info = RuntimeInfo(
        name=NAME, version=RuntimeVersion(version=VERSION), options=options, features=features(_system(options))
    )
    files.write_stdout(info.encode())
    return 0


def _system(options: Any | None) -> str:
    """The operating system of the containers, as the options or else the host have it."""
    try:
        platform = runtime_options.decode(options).values.sandbox_platform.lower()
    except InvalidSpec as error:
        raise CommandError(str(error)) from None
    return platform.partition("/")[0] or host.operating_system()
