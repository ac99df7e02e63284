"""The daemon's side of a named pipe through which `start` hands over: the standby's, or a shared daemon's."""

from __future__ import annotations

from shim.platform.windows import daemon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.platform.windows.pipe import PipeStream


class PipeLink(daemon.Link):
    """The link to a `start`, instead of the pipes of a process that it has started."""

    __slots__ = ("_stream",)

    def __init__(self, stream: PipeStream, timeout: float) -> None:
        super().__init__(is_awaited=True)
        self._stream = stream
        stream.settimeout(timeout)

    def settimeout(self, timeout: float) -> None:
        self._stream.settimeout(timeout)

    @property
    def handle(self) -> int:
        return self._stream.handle

    def send(self, data: bytes) -> None:
        self._stream.sendall(data)

    def read_exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._stream.recv(size - len(data))
            if not piece:
                raise OSError(109, "start ended before it had sent its input")
            data += piece
        return data

    def report_ready(self) -> None:
        self.send(daemon.READY)

    def wait_for_handover(self) -> bool:
        try:
            return self._stream.recv(1) == daemon.DONE
        except OSError:
            return False
        finally:
            self.close()

    def close(self) -> None:
        self._stream.release()
