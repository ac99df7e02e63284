"""What containerd runs: start, serve, delete and -info. Each module imports only what its command needs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class CommandError(Exception):
    """The command cannot be done. The message is one line that says what is wrong and what to do about it."""


class Flags:
    """The command line, checked for form. What a command needs it asks for with `require`."""

    __slots__ = (
        "address", "bundle", "debug", "id", "is_sandbox", "listener", "namespace", "publish_binary", "socket",
        "spawned", "standby",
    )  # fmt: skip

    def __init__(self) -> None:
        self.namespace = ""
        self.address = ""
        self.publish_binary = ""
        self.id = ""
        self.bundle = ""
        self.socket = ""
        self.listener = ""
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
            # They become names of files and sockets. containerd is stricter; this is what would hurt us.
            if "/" in value or "\\" in value or "\0" in value or value in (".", ".."):
                raise CommandError(f"-{name} {value!r} cannot be part of a file name: use letters and digits")


# The state directory of containerd's plugin that leaves sandboxes to their shims (`sandboxer = "shim"`, since 2.0).
SANDBOX_CONTROLLER = "io.containerd.sandbox.controller.v1.shim"


def is_sandbox_bundle(bundle: str) -> bool:
    """Whether a bundle, …/<plugin>/<namespace>/<id>, is of a sandbox to be made by the Sandbox service.

    Nothing else tells: neither arguments nor environment differ, and there may or may not be a config.json.
    """
    return bundle.replace("\\", "/").rstrip("/").split("/")[-3:-2] == [SANDBOX_CONTROLLER]


# Levels of shim.logs, which is not loaded for a default.
INFO_LEVEL = 4
DEBUG_LEVEL = 5


class Bootstrap:
    """What came on stdin: the options, still encoded, and what they say about the log. The rest is for Create to
    read."""

    __slots__ = ("log_level", "log_text", "options", "options_type", "raw", "scrub", "socket_dir", "ttrpc_address")

    def __init__(self, debug: bool = False) -> None:
        #: As it came, for a daemon that is spawned and reads it once more.
        self.raw = b""
        self.options_type = ""
        self.options = b""
        self.socket_dir = ""
        self.ttrpc_address = ""
        self.log_level = DEBUG_LEVEL if debug else INFO_LEVEL
        #: False when the options ask for ETW events instead of text.
        self.log_text = True
        self.scrub = True


STDIN_LIMIT = 10 << 20


def read_stdin() -> bytes:
    """Stdin to its end."""
    from shim.platform import files

    data = files.read_stdin(STDIN_LIMIT + 1)
    if len(data) > STDIN_LIMIT:
        raise CommandError(
            f"more than {STDIN_LIMIT >> 20} MiB on stdin: give runtime options, a protobuf Any, or nothing"
        )
    return data


def read_bootstrap(flags: Flags) -> Bootstrap:
    """The options on stdin, checked; what reads them is loaded only if there are any."""
    data = read_stdin()
    if not data:
        return Bootstrap(flags.debug)
    from shim.commands import bootstrap

    boot = bootstrap.read(data, flags)
    boot.raw = data
    return boot


def leave(code: int) -> NoReturn:
    """End the process, with what it has written."""
    from shim.platform import daemon

    daemon.exit_now(code)
