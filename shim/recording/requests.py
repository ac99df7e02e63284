"""The requests of the task and sandbox API as JSON, and the documents that come with a Create."""

from __future__ import annotations

from shim.api import sandbox
from shim.api import task as api
from shim.api.cri_pod import PodSandboxConfig
from shim.api.runhcs_options import Options
from shim.api.runtimeoptions import Options as GenericOptions
from shim.api.wellknown import Any as PackedAny
from shim.api.wire import DecodeError, Message
from shim.lean_json import dumps, loads
from shim.platform import boot_directory, files
from shim.recording.host_files import HostFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.recording.scrub import Scrubber

MAX_SPEC = 16 << 20
CREATE, CREATE_SANDBOX, EXEC = "Create", "CreateSandbox", "Exec"


def message_classes(service: str, method: str) -> tuple[type[Message], type[Message]] | None:
    methods = api.SERVICES.get(service) or sandbox.SERVICES.get(service)
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
    scrubbed = scrubbed_message(message.type_url, message.value, scrubber)
    if scrubbed is not None:
        found["hex"] = scrubbed.hex()
    else:
        found["bytes"] = len(message.value)
    return found


def scrubbed_message(type_url: str, payload: bytes, scrubber: Scrubber) -> bytes | None:
    """The runtime's options, or CRI's configuration of a pod, without secrets; None for other messages."""
    name = type_url.rpartition("/")[2]
    try:
        if name == GenericOptions.FULL_NAME:
            generic = GenericOptions.decode(payload)
            text = generic.config_body or (files.read(generic.config_path, MAX_SPEC) if generic.config_path else b"")
            return GenericOptions(type_url=generic.type_url, config_body=_toml(text, scrubber)).encode()
        if name == Options.FULL_NAME:
            options = Options.decode(payload)
            options.default_container_annotations = _annotations(options.default_container_annotations, scrubber)
            return options.encode()
        if name == PodSandboxConfig.FULL_NAME:
            pod = PodSandboxConfig.decode(payload)
            pod.annotations, pod.labels = _annotations(pod.annotations, scrubber), {}
            return pod.encode()
    except (DecodeError, ValueError, OSError):
        pass
    return None


def _toml(text: bytes, scrubber: Scrubber) -> bytes:
    """Runtime options: texts, numbers and flags, and one table, of annotations. JSON's are TOML's, too."""
    import tomllib

    lines = []
    for name, value in tomllib.loads(text.decode()).items():
        if isinstance(value, dict):
            items = ", ".join(f"{dumps(key)} = {dumps(one)}" for key, one in _annotations(value, scrubber).items())
            lines.append(f"{dumps(name)} = {{{items}}}")
        else:
            lines.append(f"{dumps(name)} = {dumps(value)}")
    return "".join(f"{line}\n" for line in lines).encode()


def _annotations(values: dict[str, str], scrubber: Scrubber) -> dict[str, str]:
    scrubber.learn({"annotations": values})
    found: dict[str, str] = scrubber.document(values, "annotations")
    return found or {}


def learn(method: str, payload: bytes, scrubber: Scrubber) -> None:
    """The secrets of a request, before it is handled: its log lines and errors may quote them."""
    try:
        if method == EXEC:
            packed = api.ExecProcessRequest.decode(payload).spec
        else:
            request = sandbox.CreateSandboxRequest.decode(payload)
            _annotations(request.annotations, scrubber)
            packed = request.options
        if packed is not None:
            _packed(packed, scrubber)
    except (DecodeError, ValueError):
        pass  # the response says so


class CreateDocuments:
    """What a Create finds besides its request, read when it begins: later the shim has changed it."""

    __slots__ = ("_boot_files", "_paths", "_spec", "id")

    def __init__(self, method: str, payload: bytes, start_options: bytes) -> None:
        """`start_options` are those that came with `start`, if they are the runtime's."""
        network_namespace = ""
        if method == CREATE:
            request = api.CreateTaskRequest.decode(payload)
            self.id, bundle, rootfs, packed = request.id, request.bundle, request.rootfs, request.options
        else:
            asked = sandbox.CreateSandboxRequest.decode(payload)
            self.id, bundle, rootfs, packed = asked.sandbox_id, asked.bundle_path, asked.rootfs, None
            network_namespace = asked.netns_path
        self._spec: dict[str, Any] | None = None
        try:
            spec = loads(files.read(f"{bundle.rstrip('/')}/config.json", MAX_SPEC, follow=False))
            self._spec = spec if isinstance(spec, dict) else None
        except (OSError, ValueError):
            pass  # a sandbox may have none
        host_files = HostFiles(self._spec, rootfs, _boot_directory(packed, start_options))
        is_linux = method == CREATE_SANDBOX or (self._spec or {}).get("linux") is not None
        self._paths = host_files.kinds(network_namespace, with_default_boot_files=is_linux)
        self._boot_files = boot_directory.default() if is_linux else ""

    def entry(self, time: int, scrubber: Scrubber) -> dict[str, Any]:
        scrubber.learn(self._spec)
        spec = scrubber.document(self._spec)
        return {"kind": "spec", "id": self.id, "time": time, "spec": spec, "paths": self._paths,
                "boot_files": self._boot_files}  # fmt: skip


def _boot_directory(packed: PackedAny | None, start_options: bytes) -> str:
    given = start_options
    if packed is not None and packed.type_url.rpartition("/")[2] == Options.FULL_NAME:
        given = packed.value
    try:
        return Options.decode(given).boot_files_root_path
    except (DecodeError, ValueError):
        return ""
