r"""Host paths of a recording, below one directory of this machine: `C:\layers\1` is `<directory>/c/layers/1`, and
`/tmp/a` of a recording on the emulator is `<directory>/root/tmp/a`.

The shim looks at some files of the host itself. They exist here as they did there, with the same size, but without
content.

A recording may come from anyone, and whoever replays it is root: no path of it leads out of the directory.
"""

from __future__ import annotations

import copy
import json
import os
import re
from typing import Any

from runhcs.recording.reading import RecordingError

_DRIVE = re.compile(r"([A-Za-z]):[\\/](.*)", re.DOTALL)
PARENTS = "parentLayerPaths="
PARTITIONED = "parent-partitioned-layers="
LOWER = "lowerdir="
# Annotations that name files of the host.
_ANNOTATIONS = ("bootfilesrootpath", "lcow.bootfilesrootpath", "dump-directory-path", "kerneldrivers")


class HostPaths:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._pattern = re.compile(re.escape(directory) + r"/(root|[a-z])(?=/|$)([^\s\"'\],;]*)")
        self._whole = re.compile(re.escape(directory) + r"/(root|[a-z])(?=/|$)(.*)", re.DOTALL)
        self._aliases: dict[str, str] = {}

    def set_alias(self, local: str, recorded: str) -> None:
        """A directory that has a place of its own here."""
        self._aliases[local] = recorded

    def local(self, path: str) -> str:
        """A name that is no absolute path, such as `tmpfs`, stays as it is."""
        for local, recorded in self._aliases.items():
            if path == recorded or path.startswith((recorded + "/", recorded + "\\")):
                return _below(local, path[len(recorded) :])
        drive = _DRIVE.fullmatch(path)
        if drive is not None:
            return _below(os.path.join(self._directory, drive[1].lower()), drive[2])
        if path.startswith("/") or ".." in _parts(path):
            return _below(os.path.join(self._directory, "root"), path)
        return path

    def inside(self, path: str) -> str:
        """As `local`; a name that is no absolute path is one below the root."""
        local = self.local(path)
        return local if local.startswith(self._directory + "/") else _below(f"{self._directory}/root", local)

    def recorded(self, value: Any) -> Any:
        """The value with paths of this machine as they were recorded."""
        if isinstance(value, dict):
            return {key: self.recorded(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.recorded(one) for one in value]
        if not isinstance(value, str) or self._directory not in value:
            return value
        for local, recorded in self._aliases.items():
            if value == local or value.startswith(local + "/"):
                rest = value[len(local) :]
                return recorded + (rest.replace("/", "\\") if "\\" in recorded else rest)
        whole = self._whole.fullmatch(value)
        return _back(whole) if whole is not None else self._pattern.sub(_back, value)

    def create(self, kinds: dict[str, Any]) -> None:
        """Create what existed when it was recorded. Raises RecordingError."""
        for path, kind in kinds.items():
            try:
                self._create(self.inside(path), kind)
            except (OSError, ValueError, TypeError, KeyError) as error:
                raise RecordingError(f"the recorded file {path!r} cannot be created: {error}") from None

    def _create(self, local: str, kind: Any) -> None:
        if kind == "missing" or os.path.lexists(local):
            return
        if kind == "directory":
            os.makedirs(local, exist_ok=True)
            return
        os.makedirs(os.path.dirname(local), exist_ok=True)
        if isinstance(kind, dict):
            os.symlink(self.local(kind["link"]), local)
        else:
            with open(local, "xb") as file:
                file.truncate(kind)  # without content, it takes no space

    def exists(self, path: str) -> bool:
        return os.path.lexists(self.local(path))

    def spec(self, spec: dict[str, Any], kinds: dict[str, Any]) -> dict[str, Any]:
        """Only paths of the host are translated, none of the container. `kinds` is as for `create`."""
        spec = copy.deepcopy(spec)
        for mount in spec.get("mounts") or ():
            mount["source"] = self.local(mount.get("source", ""))
        windows = spec.get("windows") or {}
        if windows.get("layerFolders"):
            windows["layerFolders"] = [self.local(path) for path in windows["layerFolders"]]
        for namespace in (spec.get("linux") or {}).get("namespaces") or ():
            if kinds.get(namespace.get("path"), "missing") != "missing":
                namespace["path"] = self.local(namespace["path"])
        root = spec.get("root") or {}
        if root.get("path"):
            root["path"] = self.local(root["path"])
        annotations = spec.get("annotations") or {}
        for name in _ANNOTATIONS:
            key = f"io.microsoft.virtualmachine.{name}"
            if key in annotations:
                annotations[key] = self.local(annotations[key])
        return spec

    def mount_options(self, options: list[str]) -> list[str]:
        return [self._option(option) for option in options]

    def _option(self, option: str) -> str:
        if option.startswith(PARENTS):
            parents = json.loads(option.removeprefix(PARENTS))
            return PARENTS + json.dumps([self.inside(path) for path in parents])
        if option.startswith(PARTITIONED):
            parents = json.loads(option.removeprefix(PARTITIONED))
            return PARTITIONED + json.dumps([{**one, "Path": self.inside(one["Path"])} for one in parents])
        key, equals, value = option.partition("=")
        if equals and key in ("upperdir", "workdir", "scratch"):
            return f"{key}={self.inside(value)}"
        if option.startswith(LOWER):
            return LOWER + ":".join(self.inside(path) for path in option.removeprefix(LOWER).split(":"))
        return option


def _parts(path: str) -> list[str]:
    return path.replace("\\", "/").split("/")


def _below(directory: str, path: str) -> str:
    """`..` does not lead out of the directory."""
    rest = path.replace("\\", "/").lstrip("/")
    if ".." in _parts(rest):
        rest = os.path.normpath("/" + rest).lstrip("/")
    return f"{directory}/{rest}".rstrip("/")


def _back(match: re.Match[str]) -> str:
    root, rest = match[1], match[2]
    if root == "root":
        return rest or "/"
    return f"{root.upper()}:" + (rest.replace("/", "\\") or "\\")
