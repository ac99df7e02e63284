"""Requests of a recording as messages of the task and sandbox API, and their responses as the recording has them."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

from runhcs.recording.reading import RecordingError
from runhcs.replay.paths import HostPaths
from shim.api.runhcs_options import Options
from shim.api.types import Mount
from shim.api.wellknown import Any as PackedAny
from shim.api.wire import Message
from shim.recording.requests import message_classes, to_json
from shim.recording.scrub import Scrubber

_STREAMS = ("stdin", "stdout", "stderr")
# Of this run, not of what was asked: they differ each time.
_VOLATILE = ("created_at", "exited_at", "shim_pid", "version")
_PATHS = ("bundle", "bundle_path")
OVERLAY = "overlay"


class Streams:
    """FIFOs for the streams that requests name. Output is read and dropped."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._held: list[int] = []
        self._paths: dict[str, str] = {}
        os.makedirs(directory, exist_ok=True)

    def create(self, recorded: str) -> str:
        if recorded in self._paths:
            return self._paths[recorded]
        path = os.path.join(self._directory, str(len(self._paths)))
        os.mkfifo(path, 0o600)
        # Open for both: neither this process nor the shim waits for the other.
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._held.append(descriptor)
        self._paths[recorded] = path
        return path

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)


class Requests:
    def __init__(self, paths: HostPaths, streams: Streams, scrubber: Scrubber) -> None:
        self._paths = paths
        self._streams = streams
        self._scrubber = scrubber
        self._lock = threading.Lock()

    def message(self, service: str, method: str, fields: dict[str, Any]) -> Message:
        kind = self._classes(service, method)[0]
        values = {name: self._value(name, value) for name, value in fields.items()}
        return kind(**values)

    @staticmethod
    def _classes(service: str, method: str) -> tuple[type[Message], type[Message]]:
        found = message_classes(service, method)
        if found is None:
            raise RecordingError(f"the recording has a request {service}/{method}, which this version does not know")
        return found

    def _value(self, name: str, value: Any) -> Any:
        if name in _STREAMS and isinstance(value, str) and value:
            with self._lock:
                return self._streams.create(f"{name} {value}")
        if name in _PATHS:
            return self._paths.inside(value)
        if name == "netns_path" and self._paths.exists(value):
            return self._paths.local(value)
        if name == "rootfs":
            return [self._mount(one) for one in value]
        if isinstance(value, dict) and "type_url" in value:
            return self.packed(value)
        return value

    def _mount(self, value: dict[str, Any]) -> Mount:
        options = self._paths.mount_options(value.get("options", []))
        if value.get("type") == OVERLAY:
            # Of a Linux snapshotter, for a recording on the emulator. Its layers are empty here; kernels differ in what
            # overlay file systems they take.
            layer = next((one.partition("=")[2] for one in options if one.startswith(("upperdir=", "lowerdir="))), "")
            return Mount(type="bind", source=layer.split(":")[0], target=value.get("target", ""), options=["rbind"])
        source = self._paths.inside(value.get("source", ""))
        return Mount(type=value.get("type", ""), source=source, target=value.get("target", ""), options=options)

    def packed(self, value: dict[str, Any]) -> PackedAny:
        if "document" in value:
            return PackedAny(type_url=value["type_url"], value=json.dumps(value["document"]).encode())
        payload = bytes.fromhex(value.get("hex", ""))
        if value["type_url"].rpartition("/")[2] == Options.FULL_NAME:
            options = Options.decode(payload)
            if options.boot_files_root_path:
                options.boot_files_root_path = self._paths.local(options.boot_files_root_path)
                payload = options.encode()
        return PackedAny(type_url=value["type_url"], value=payload)

    def response(self, service: str, method: str, payload: bytes, shim_pid: int) -> dict[str, Any]:
        kind = self._classes(service, method)[1]
        return self.comparable(self._paths.recorded(to_json(kind, payload, self._scrubber)), shim_pid)

    @staticmethod
    def comparable(response: dict[str, Any] | None, shim_pid: int) -> dict[str, Any]:
        found = {name: value for name, value in (response or {}).items() if name not in _VOLATILE}
        if found.get("pid") == shim_pid:
            found["pid"] = "of the shim"  # a sandbox without a process has the shim's
        # The paths of streams are those of this run.
        return {name: bool(value) if name in _STREAMS else _sized(value) for name, value in found.items()}


def _sized(value: Any) -> Any:
    """Of a message that is not recorded, the size says nothing."""
    if isinstance(value, dict) and "bytes" in value:
        return {name: one for name, one in value.items() if name != "bytes"}
    return value
