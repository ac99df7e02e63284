# Generated from containerd/types/mount.proto, containerd/types/task.proto, containerd/types/metrics.proto, containerd/types/platform.proto by scripts/generate_api.py. Do not edit; `make proto` regenerates it.
from __future__ import annotations

from shim.api.wire import Message, put_string, read_string, read_tag, skip


class Mount(Message):
    __slots__ = ("type", "source", "target", "options")
    FULL_NAME = "containerd.types.Mount"

    def __init__(self, *, type: str = "", source: str = "", target: str = "", options: list[str] | None = None) -> None:
        self.type = type
        self.source = source
        self.target = target
        self.options: list[str] = [] if options is None else options

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_tag(data, pos, end)
            if tag == 10:
                self.type, pos = read_string(data, pos, end)
            elif tag == 18:
                self.source, pos = read_string(data, pos, end)
            elif tag == 26:
                self.target, pos = read_string(data, pos, end)
            elif tag == 34:
                item_4, pos = read_string(data, pos, end)
                self.options.append(item_4)
            else:
                pos = skip(data, pos, end, tag)

    def encode(self) -> bytes:
        out: list[bytes] = []
        if self.type:
            out.append(put_string(b'\n', self.type))
        if self.source:
            out.append(put_string(b'\x12', self.source))
        if self.target:
            out.append(put_string(b'\x1a', self.target))
        for item_4 in self.options:
            out.append(put_string(b'"', item_4))
        return b"".join(out)


class Status:
    __slots__ = ()
    UNKNOWN = 0
    CREATED = 1
    RUNNING = 2
    STOPPED = 3
    PAUSED = 4
    PAUSING = 5


TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.api.types_more import ActiveMount as ActiveMount
    from shim.api.types_more import ActivationInfo as ActivationInfo
    from shim.api.types_more import Process as Process
    from shim.api.types_more import ProcessInfo as ProcessInfo
    from shim.api.types_more import Metric as Metric
    from shim.api.types_more import Platform as Platform
else:

    def __getattr__(name):
        if name.startswith("__"):  # the import system looks up __path__
            raise AttributeError(name)
        import shim.api.types_more as more

        return getattr(more, name)
