"""Windows paths of a Wine prefix as Linux paths.

`C:\\x` is `<prefix>/dosdevices/c:/x`. Windows paths are case-insensitive, so each component is looked up in any case.
In documents only members with host paths are translated: a container's `C:\\` is its own.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

from hcs_emulator.service.transport.wire import Request

_DRIVE = re.compile(r"(?:\\\\\?\\)?([A-Za-z]):(?:[\\/]|\Z)")
# Wine's name for the volume of a drive: the last two digits are the drive letter.
_VOLUME = re.compile(r"\\\\\?\\Volume\{00000000-0000-0000-0000-0000000000([0-9A-Fa-f]{2})\}(?=\\|\Z)")
# Members of HCS documents and layer data whose values are paths of the host.
_HOST_MEMBERS = frozenset(
    (
        "Path",
        "HostPath",
        "ParentPath",
        "RuntimeStateFilePath",
        "GuestStateFilePath",
        "AllowedFiles",
        "KernelFilePath",
        "InitRdPath",
        "VmbFsRootPath",
        "DumpFileName",
    )
)


class WindowsPaths:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def translate(self, request: Request) -> Request:
        strings = [text if text is None else self._text(text) for text in request.strings]
        return Request(request.call, request.handle, request.number, strings)

    def _text(self, text: str) -> str:
        if _is_of_drive(text):
            return self.linux(text)
        if text[:1] in "{[" and '"' in text:
            try:
                return json.dumps(self._document(json.loads(text)))
            except ValueError:
                return text  # the service reports what is wrong with it
        return text

    def _document(self, value: Any, member: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._document(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self._document(item, member) for item in value]
        if member in _HOST_MEMBERS and isinstance(value, str) and _is_of_drive(value):
            return self.linux(value)
        return value

    def linux(self, path: str) -> str:
        path = _VOLUME.sub(lambda volume: f"{chr(int(volume[1], 16))}:", path)
        match = _DRIVE.match(path)
        if match is None:
            return path
        found = os.path.realpath(os.path.join(self.prefix, "dosdevices", f"{match[1].lower()}:"))
        for name in re.split(r"[\\/]+", path[match.end() :]):
            if name:
                found = os.path.join(found, _spelling(found, name))
        return found


def _is_of_drive(path: str) -> bool:
    return bool(_DRIVE.match(path) or _VOLUME.match(path))


def _spelling(directory: str, name: str) -> str:
    """The name as the directory has it; unchanged when there is none."""
    if os.path.lexists(os.path.join(directory, name)):
        return name
    try:
        return next((one for one in os.listdir(directory) if one.lower() == name.lower()), name)
    except OSError:
        return name
