"""Runtime options: containerd's configuration for every container of a runtime.

They come as `containerd.runhcs.v1.Options`, or, under a runtime type that containerd does not know, as
`runtimeoptions.v1.Options` with TOML text or the path of a TOML file. TOML keys are Go's field names, in any case:
the proto name without its underscores. `shim.oci.option_table` has the allowed keys and values.
"""

from __future__ import annotations

from shim.api.packing import type_name
from shim.api.runhcs_options import Options as Values
from shim.api.runtimeoptions import Options as GenericOptions
from shim.api.wire import DecodeError
from shim.oci import windows_versions
from shim.oci.errors import InvalidOption
from shim.oci.option_table import OPTIONS, Option
from shim.platform import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.api.wellknown import Any as Packed

# Linux clients may send it for any runtime. This shim ignores it.
RUNC_OPTIONS = "containerd.runc.v1.Options"
PROCESS = Values.SandboxIsolation.PROCESS
HYPERVISOR = Values.SandboxIsolation.HYPERVISOR

OS_VERSION = "sandbox_os_version"
SHIM_SCOPE = "shim_scope"
SOURCE = "the runtime options"
# Keys of the generic options themselves: CRI copies the whole table of the configuration into their text.
_GENERIC = frozenset(("typeurl", "configpath", "configbody"))
_MAX_FILE = 1 << 20


class Options:
    """Decoded and checked runtime options."""

    __slots__ = ("is_empty", "os_version", "shim_scope", "values")

    def __init__(self, values: Values | None = None, os_version: str = "", shim_scope: str = "") -> None:
        self.values = values or Values()
        #: ShimScope, as configured: `start` has applied it.
        self.shim_scope = shim_scope
        #: SandboxOsVersion, as configured.
        self.os_version = os_version
        #: Absent, or all default: then isolation and platform are not checked against the spec.
        self.is_empty = self.values == Values() and not os_version

    def ineffective(self, isolated: bool) -> list[str]:
        """A warning for each option that is set and has no effect."""
        sentences = []
        for option in OPTIONS:
            if option.number and getattr(self.values, option.field):
                if option.unused:
                    sentences.append(f"option {option.key} has no effect. {option.effect}")
                elif option.needs_vm and not isolated:
                    sentences.append(f"option {option.key} has no effect: it is about utility VMs, and there is none")
        return sentences


def decode(packed: Packed | None) -> Options:
    if packed is None or not (packed.type_url or packed.value):
        return Options()
    name = type_name(packed)
    try:
        if name == Values.FULL_NAME:
            return _checked_message(Values.decode(packed.value))
        if name == GenericOptions.FULL_NAME:
            return _from_generic(GenericOptions.decode(packed.value))
    except DecodeError as error:
        raise InvalidOption(f"{SOURCE} ({name}) cannot be decoded: {error}") from None
    if name == RUNC_OPTIONS:
        return Options()
    raise InvalidOption(
        f"runtime options of type {packed.type_url!r} are not understood: give {Values.FULL_NAME} or "
        f"{GenericOptions.FULL_NAME}"
    )


def _checked_message(values: Values) -> Options:
    for option in OPTIONS:
        if option.number:
            value = getattr(values, option.field)
            if value is not None:  # a field with presence
                _check(option, value, SOURCE)
    return Options(values)


def _from_generic(options: GenericOptions) -> Options:
    if options.config_body:
        return from_toml(options.config_body, SOURCE)
    if not options.config_path:
        return Options()
    try:
        return from_toml(files.read(options.config_path, _MAX_FILE), options.config_path)
    except OSError as error:
        raise InvalidOption(f"{options.config_path}, named by {SOURCE}, cannot be read: {error.strerror}") from None


def from_toml(text: bytes, source: str) -> Options:
    import tomllib

    try:
        table = tomllib.loads(text.decode())
    except ValueError as error:
        raise InvalidOption(f"{source} is not TOML: {error}") from None
    except RecursionError:
        raise InvalidOption(f"{source} is nested too deeply: no option has more than one level") from None
    known = {option.key.lower(): option for option in OPTIONS}
    values = Values()
    os_version = shim_scope = ""
    for key, value in table.items():
        if key.lower() in _GENERIC:
            continue
        option = known.get(key.lower())
        if option is None:
            raise _unknown(key, value, source)
        if option.field == OS_VERSION:
            os_version = _os_version(value, source)
            continue
        _check(option, value, source)
        if option.field == SHIM_SCOPE:
            shim_scope = value.lower()
        else:
            setattr(values, option.field, value)
    return Options(values, os_version, shim_scope)


def _os_version(value: Any, source: str) -> str:
    text = str(value) if type(value) is int else value
    where = f"SandboxOsVersion in {source}"
    if not isinstance(text, str):
        raise InvalidOption(f"{where} is {_show(value)}: give {windows_versions.ALLOWED}")
    if text:
        windows_versions.parse(text, where)
    return text


def _check(option: Option, value: Any, source: str) -> None:
    if option.kind is dict and isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(item, str):
                raise InvalidOption(f"{option.key}.{name} in {source} is {_show(item)}: allowed is text")
    elif not option.allows(value):
        raise InvalidOption(f"{option.key} in {source} is {_show(value)}: allowed is {option.allowed}")


def _unknown(key: str, value: Any, source: str) -> InvalidOption:
    plain = key.replace("_", "").lower()
    similar = next((option.key for option in OPTIONS if option.key.lower() == plain), "")
    hint = f"did you mean {similar}?" if similar else f"options are {', '.join(option.key for option in OPTIONS)}"
    return InvalidOption(f"{key} in {source}, set to {_show(value)}, is no option: {hint}")


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = "a table" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
