"""Decodes stdin: the runtime's options, in one of two forms.

Up to containerd 2.2, and always for a binary of our name, stdin is an `Any` with the options, or empty. From 2.3 on a
binary of another name gets `BootstrapParams`, with the options as an extension. Both are bare protobuf and each may
decode as the other, so BootstrapParams count only if they repeat the id and the namespace of the command line.

With an empty stdin, the usual case, this module is not imported.
"""

from __future__ import annotations

from shim.api.wellknown import Any
from shim.api.wire import DecodeError
from shim.commands import DEBUG_LEVEL, SHIM_SCOPE, Bootstrap, CommandError, Flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.api.runhcs_options import Options

RUNHCS_OPTIONS = "containerd.runhcs.v1.Options"
GENERIC_OPTIONS = "runtimeoptions.v1.Options"
RUNC_OPTIONS = "containerd.runc.v1.Options"
# What containerd's client library packs if a sandbox has no options.
NO_OPTIONS = "google.protobuf.Empty"

# Every option that a daemon needs before Create has one of these in its key. A key may be written in any case, and with
# escapes.
_BOOT_WORDS = (b"debug", b"loglevel", b"scrublogs", b"shimscope", b"shim-scope", b"\\")

# containerd.runtime.bootstrap.v1.LogLevel: debug and trace.
_LOG_DEBUG = -4


def read(data: bytes, flags: Flags) -> Bootstrap:
    """The content of stdin, decoded and checked."""
    boot = Bootstrap(flags.debug)
    if _read_params(data, flags, boot):
        return boot
    try:
        packed = Any.decode(data)
    except DecodeError as error:
        raise CommandError(f"stdin is not a protobuf Any with runtime options: {error}; give one, or nothing") from None
    _set_options(packed.type_url, packed.value, boot)
    return boot


def _read_params(data: bytes, flags: Flags, boot: Bootstrap) -> bool:
    from shim.api.bootstrap import BootstrapParams

    try:
        params = BootstrapParams.decode(data)
    except DecodeError:
        return False
    if params.instance_id != flags.id or params.namespace != flags.namespace:
        return False
    boot.socket_dir = params.socket_dir or ""
    boot.ttrpc_address = params.containerd_ttrpc_address
    if params.log_level <= _LOG_DEBUG:
        boot.log_level = DEBUG_LEVEL
    for extension in params.extensions:
        # There may be other extensions, which are not for this shim.
        if extension.value is not None and type_name(extension.value.type_url).endswith(".Options"):
            _set_options(extension.value.type_url, extension.value.value, boot)
    return True


def type_name(type_url: str) -> str:
    return type_url.rpartition("/")[2]


def _set_options(type_url: str, value: bytes, boot: Bootstrap) -> None:
    name = type_name(type_url)
    if name == NO_OPTIONS:
        return
    if name not in (RUNHCS_OPTIONS, GENERIC_OPTIONS):
        whose = " (runc's)" if name == RUNC_OPTIONS else ""
        raise CommandError(f"options of type {type_url!r}{whose} are not for this runtime: use {RUNHCS_OPTIONS}")
    _apply(_decode(name, value, boot), boot)
    boot.options_type = name
    boot.options = value


def _decode(name: str, value: bytes, boot: Bootstrap) -> Options:
    from shim.api.runhcs_options import Options

    try:
        if name == RUNHCS_OPTIONS:
            return Options.decode(value)
        from shim.api.runtimeoptions import Options as GenericOptions

        text = GenericOptions.decode(value).config_body
    except DecodeError as error:
        raise CommandError(f"options of type {name} cannot be read: {error}; check the client that made them") from None
    # containerd's Connect waits for this, and the parser of TOML takes longer to import than the whole daemon.
    if text and text.isascii() and not any(word in text.lower() for word in _BOOT_WORDS):
        return Options()
    from shim.oci.errors import InvalidSpec
    from shim.oci.options import decode

    try:
        options = decode(Any(type_url=name, value=value))
        boot.shim_scope = options.shim_scope
        return options.values
    except InvalidSpec:
        return Options()  # Create gets them too, and can return a status with the reason


def _apply(options: Options, boot: Bootstrap) -> None:
    if options.debug:
        boot.log_level = DEBUG_LEVEL
    if options.log_level:
        from shim.logs import LevelError, parse_level

        try:
            boot.log_level = parse_level(options.log_level)
        except LevelError as error:
            raise CommandError(f"option log_level: {error}") from None
    if options.debug_type == 1:
        raise CommandError("option debug_type FILE is not supported: use NPIPE (0) or ETW (2)")
    boot.log_text = options.debug_type != 2
    boot.scrub = options.scrub_logs is None or options.scrub_logs
    boot.shim_scope = options.default_container_annotations.get(SHIM_SCOPE) or boot.shim_scope
