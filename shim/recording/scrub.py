"""Removes secrets from what is recorded: from documents by the names of their members, from texts by value.

A document has its secrets in known members: the environment, command lines, credential specs, passwords, registry
values, annotations that are not the runtime's own. Their names stay, their values are replaced. A text (an error, a log
line) may quote such a value: whatever a spec contained is replaced there.

A scrubbed document is still valid for the shim, so that a recording can be replayed.
"""

from __future__ import annotations

from shim.lean_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCRUBBED = "<scrubbed>"
# A shorter value would occur in many texts by chance.
SHORTEST = 6
MAX_VALUES = 4096

_ENVIRONMENT = frozenset(("env", "environment", "environmentvariables"))
_COMMANDS = frozenset(("args", "argv", "command", "commandline", "commandargs"))
_SECRETS = frozenset(("credentialspec", "password", "passwd", "secret", "token", "sas", "accesskey"))
_TEXTS = frozenset(("message", "errormessage", "data", "stacktrace", "error", "detail", "msg", "reason"))
# Annotations that the runtime and its clients define. Others are the user's own and may hold anything.
_KNOWN_ANNOTATIONS = ("io.microsoft.", "microsoft.com/", "io.kubernetes.cri.", "io.containerd.", "io.hcsshim.")
# Of these, one that names the programs of the containers, with their arguments and environment.
_POLICY = ".securitypolicy"
_REGISTRY = ("StringValue", "BinaryValue", "DWordValue", "QWordValue")
# Options of mounts with a value that a replay needs; the value of another one may be a password.
_MOUNT_OPTIONS = (
    "parentLayerPaths", "parent-partitioned-layers", "lowerdir", "upperdir", "workdir", "scratch", "size", "mode",
)  # fmt: skip


class Scrubber:
    """`command_lines` keeps command lines, which the operator has requested."""

    def __init__(self, *, command_lines: bool = False) -> None:
        self._command_lines = command_lines
        self._values: set[str] = set()
        self._sorted: list[str] | None = None

    def learn(self, document: Any) -> None:
        """Remember the secrets of a spec or of the process of an exec, for `text`."""
        if isinstance(document, dict):
            for name, value in document.items():
                if self._is_secret(name, value):
                    self._learn_all(value)
                else:
                    self.learn(value)
        elif isinstance(document, list):
            for item in document:
                self.learn(item)

    def _is_secret(self, name: str, value: Any) -> bool:
        plain = name.replace("_", "").lower()
        if plain == "annotations":
            for key, one in value.items() if isinstance(value, dict) else ():
                if not _is_kept(key):
                    self._learn_all(one)
            return False
        return plain in _ENVIRONMENT or plain in _SECRETS or (plain in _COMMANDS and not self._command_lines)

    def _learn_all(self, value: Any) -> None:
        if isinstance(value, str):
            for one in (value, value.partition("=")[2]):
                if len(one) >= SHORTEST and len(self._values) < MAX_VALUES:
                    self._values.add(one)
                    self._sorted = None
        elif isinstance(value, dict):
            for one in value.values():
                self._learn_all(one)
        elif isinstance(value, list):
            for one in value:
                self._learn_all(one)
            if value and all(isinstance(one, str) for one in value):
                self._learn_all(" ".join(value))

    def text(self, text: str) -> str:
        """The text without the values that `learn` has seen."""
        if self._sorted is None:
            self._sorted = sorted(self._values, key=len, reverse=True)
        for value in self._sorted:
            if value in text:
                text = text.replace(value, SCRUBBED)
        return text

    def document(self, value: Any, name: str = "") -> Any:
        plain = name.replace("_", "").lower()
        if value is None or value == "":
            return value
        if plain in _ENVIRONMENT:
            return _environment(value)
        if plain in _COMMANDS and not self._command_lines:
            return [SCRUBBED] if isinstance(value, list) else SCRUBBED
        if plain in _SECRETS:
            return SCRUBBED
        if plain == "annotations" and isinstance(value, dict):
            return {key: self.document(one) if _is_kept(key) else SCRUBBED for key, one in value.items()}
        if isinstance(value, dict):
            if "Key" in value and any(one in value for one in _REGISTRY):
                return {key: _registry(key, one) for key, one in value.items()}
            return {key: self.document(one, key) for key, one in value.items()}
        if isinstance(value, list):
            if plain == "options":
                return [_mount_option(one) for one in value]
            return [self.document(one, name if isinstance(one, str) else "") for one in value]
        if isinstance(value, str):
            if plain in _TEXTS:
                return self.text(value)
            return self.nested(value)
        return value

    def failure(self, value: Any) -> Any:
        """A document about a failure: any text in it may quote what failed."""
        if isinstance(value, dict):
            return {key: self.failure(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.failure(one) for one in value]
        return self.text(value) if isinstance(value, str) else value

    def nested(self, text: str) -> str:
        """A text that is itself a document, as in messages to a guest, with its secrets removed."""
        if not text.startswith(("{", "[")):
            return text
        try:
            found = loads(text)
        except ValueError:
            return self.text(text)
        return dumps(self.document(found))


def _is_kept(annotation: str) -> bool:
    return annotation.startswith(_KNOWN_ANNOTATIONS) and not annotation.endswith(_POLICY)


def _environment(value: Any) -> Any:
    if isinstance(value, dict):
        return dict.fromkeys(value, SCRUBBED)
    if isinstance(value, list):
        return [f"{str(one).partition('=')[0]}={SCRUBBED}" for one in value]
    return SCRUBBED


def _registry(name: str, value: Any) -> Any:
    if name not in _REGISTRY:
        return value
    return 0 if isinstance(value, int) else SCRUBBED


def _mount_option(option: Any) -> Any:
    if not isinstance(option, str):
        return option
    key, equals, _ = option.partition("=")
    return f"{key}={SCRUBBED}" if equals and key not in _MOUNT_OPTIONS else option
