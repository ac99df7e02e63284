"""The requests of the task API as JSON, and the documents that come with a Create."""

from __future__ import annotations

from shim.api import task as api
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any as PackedAny
from shim.api.wire import DecodeError, Message
from shim.lean_json import loads
from shim.platform import files, host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.recording.scrub import Scrubber

MAX_SPEC = 16 << 20
# Below a layer: what decides how the shim uses it.
_IN_LAYER = ("sandbox.vhdx", "UtilityVM", "UtilityVM/Files", "UtilityVM/SystemTemplate.vhdx", "blank-base.vhdx")
PARENTS = "parentLayerPaths="


def message_classes(service: str, method: str) -> tuple[type[Message], type[Message]] | None:
    methods = api.SERVICES.get(service)
    return None if methods is None else methods.get(method)


def to_json(kind: type[Message], payload: bytes, scrubber: Scrubber) -> Any:
    """The message as a dict, without secrets."""
    try:
        return _message(kind.decode(payload), scrubber)
    except (DecodeError, ValueError) as error:
        return {"unreadable": type(error).__name__, "bytes": len(payload)}


def _message(message: Message, scrubber: Scrubber) -> dict[str, Any]:
    if isinstance(message, PackedAny):
        return _packed(message, scrubber)
    return {
        name: _value(name, value, scrubber)
        for name in _fields(message)
        if (value := getattr(message, name)) not in (None, "", 0, b"", [], {}, False)
    }


def _fields(message: Message) -> list[str]:
    return [name for kind in type(message).__mro__ for name in getattr(kind, "__slots__", ())]


def _value(name: str, value: Any, scrubber: Scrubber) -> Any:
    if isinstance(value, Message):
        return _message(value, scrubber)
    if isinstance(value, list):
        if value and isinstance(value[0], Message):
            return [_message(one, scrubber) for one in value]
        return scrubber.document(value, name)
    if isinstance(value, bytes):
        return {"bytes": len(value)}
    return scrubber.document(value, name) if isinstance(value, dict) else value


def _packed(message: PackedAny, scrubber: Scrubber) -> dict[str, Any]:
    """JSON documents and our own options; of other messages only type and size."""
    found: dict[str, Any] = {"type_url": message.type_url}
    if message.value[:1] == b"{":
        try:
            document = loads(message.value)
        except ValueError:
            document = None
        if document is not None:
            scrubber.learn(document)
            found["document"] = scrubber.document(document)
            return found
    if message.type_url.rpartition("/")[2] == Options.FULL_NAME:
        found["hex"] = message.value.hex()
    else:
        found["bytes"] = len(message.value)
    return found


class CreateDocuments:
    """What a Create finds besides its request, read when it begins: later the shim has changed it."""

    __slots__ = ("_paths", "_spec", "id")

    def __init__(self, payload: bytes) -> None:
        request = api.CreateTaskRequest.decode(payload)
        self.id = request.id
        self._spec: dict[str, Any] | None = None
        self._paths: dict[str, str] = {}
        try:
            spec = loads(files.read(f"{request.bundle.rstrip('/')}/config.json", MAX_SPEC, follow=False))
        except (OSError, ValueError):
            return
        if isinstance(spec, dict):
            self._spec = spec
            self._paths = {path: _kind(path) for path in _host_paths(spec, request)}

    def entry(self, time: int, scrubber: Scrubber) -> dict[str, Any]:
        scrubber.learn(self._spec)
        spec = scrubber.document(self._spec)
        return {"kind": "spec", "id": self.id, "time": time, "spec": spec, "paths": self._paths}


def _host_paths(spec: dict[str, Any], request: api.CreateTaskRequest) -> list[str]:
    """Layers, and sources of mounts: whether they exist decides what the shim does."""
    windows = spec.get("windows")
    folders = windows.get("layerFolders") if isinstance(windows, dict) else None
    layers = [str(one) for one in folders or ()]
    for mount in request.rootfs:
        layers.append(mount.source)
        for option in mount.options:
            if option.startswith(PARENTS):
                try:
                    parents = loads(option[len(PARENTS) :])
                except ValueError:
                    continue
                layers += [str(one) for one in parents] if isinstance(parents, list) else []
            elif option.startswith("lowerdir="):
                layers += option[len("lowerdir=") :].split(":")
    sources = [mount.get("source") for mount in spec.get("mounts") or () if isinstance(mount, dict)]
    found = [*layers, *(join(layer, *name.split("/")) for layer in layers for name in _IN_LAYER)]
    return [path for path in (*found, *(str(one) for one in sources if one)) if host.is_absolute(path)]


def join(directory: str, *names: str) -> str:
    """With the separator that the directory uses."""
    separator = "\\" if "\\" in directory else "/"
    return separator.join((directory.rstrip("\\/"), *names))


def _kind(path: str) -> str:
    if host.is_directory(path):
        return "directory"
    return "file" if host.exists(path) else "missing"
