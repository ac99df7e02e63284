"""The commands that containerd runs: start, serve, delete and -info. Each module imports only what its command needs.

Their contract: https://github.com/containerd/containerd/blob/main/core/runtime/v2/README.md
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class CommandError(Exception):
    """The command failed. The message is one line with the cause and the next step."""


class Flags:
    """The parsed command line. A command checks the flags it needs with `require`."""

    __slots__ = (
        "address", "bundle", "debug", "id", "is_sandbox", "listener", "log_pipe", "namespace", "publish_binary",
        "scope", "socket", "spawned", "standby",
    )  # fmt: skip

    def __init__(self) -> None:
        self.namespace = ""
        self.address = ""
        self.publish_binary = ""
        self.id = ""
        self.bundle = ""
        self.socket = ""
        self.listener = ""
        self.log_pipe = ""
        self.scope = ""
        self.standby = ""
        self.debug = False
        self.is_sandbox = False
        self.spawned = False

    def require(self, *names: str) -> None:
        missing = [name for name in names if not getattr(self, name.replace("-", "_"))]
        if missing:
            raise CommandError(f"missing -{' -'.join(missing)}: give each a value before the action")
        for name in ("namespace", "id"):
            value = getattr(self, name)
            # They become file and socket names. containerd is stricter; these characters would be harmful here.
            if "/" in value or "\\" in value or "\0" in value or value in (".", ".."):
                raise CommandError(f"-{name} {value!r} cannot be part of a file name: use letters and digits")


# The state directory of containerd's plugin for sandboxes that shims manage (`sandboxer = "shim"`, since 2.0).
SANDBOX_CONTROLLER = "io.containerd.sandbox.controller.v1.shim"


def is_sandbox_bundle(bundle: str) -> bool:
    """Whether a bundle, …/<plugin>/<namespace>/<id>, is of a sandbox that the Sandbox service will create.

    Nothing else identifies it: neither arguments nor environment differ, and config.json may or may not exist.
    """
    return bundle.replace("\\", "/").rstrip("/").split("/")[-3:-2] == [SANDBOX_CONTROLLER]


# Levels of shim.logs, which is not imported for the default.
INFO_LEVEL = 4
DEBUG_LEVEL = 5


class Bootstrap:
    """The content of stdin: the encoded runtime options, and their log settings. Create decodes the rest."""

    __slots__ = ("log_level", "log_text", "options", "options_type", "raw", "scrub", "shim_scope", "socket_dir",
                 "ttrpc_address")  # fmt: skip

    def __init__(self, debug: bool = False) -> None:
        #: The raw bytes, for a spawned daemon, which decodes them again.
        self.raw = b""
        self.options_type = ""
        self.options = b""
        self.socket_dir = ""
        self.ttrpc_address = ""
        self.log_level = DEBUG_LEVEL if debug else INFO_LEVEL
        #: False if the options select ETW events instead of text.
        self.log_text = True
        self.scrub = True
        #: Which pods share a daemon, if the options say so.
        self.shim_scope = ""


# The annotation of the same meaning: shim.oci.annotations.container.SHIM_SCOPE, without importing it.
SHIM_SCOPE = "io.microsoft.container.shim-scope"
POD_SCOPE, NAMESPACE_SCOPE, NODE_SCOPE = "pod", "namespace", "node"


STDIN_LIMIT = 10 << 20


def read_stdin() -> bytes:
    """stdin up to EOF."""
    from shim.platform import files

    data = files.read_stdin(STDIN_LIMIT + 1)
    if len(data) > STDIN_LIMIT:
        raise CommandError(
            f"more than {STDIN_LIMIT >> 20} MiB on stdin: give runtime options, a protobuf Any, or nothing"
        )
    return data


def read_bootstrap(flags: Flags) -> Bootstrap:
    """The checked options of stdin. The decoder is imported only if there are any."""
    return decode_bootstrap(flags, read_stdin())


def decode_bootstrap(flags: Flags, data: bytes) -> Bootstrap:
    """The checked options of a `start`'s stdin."""
    if not data:
        return Bootstrap(flags.debug)
    from shim.commands import bootstrap

    boot = bootstrap.read(data, flags)
    boot.raw = data
    return boot


def exit_process(code: int) -> NoReturn:
    """Flush the output and exit."""
    from shim.platform import daemon

    daemon.exit_now(code)
