"""A client of stdio FIFOs."""

from __future__ import annotations

import os
import select
import threading

from tests.support.eventually import eventually


class Reader:
    """Reads a FIFO until end of file. The FIFO is open when the constructor returns.

    An open that blocks would never return if it came after the writer, such as a shim, has opened and closed the FIFO.
    """

    def __init__(self, path: str) -> None:
        self.data = b""
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._read, args=(descriptor,), daemon=True)
        self._thread.start()

    def _read(self, descriptor: int) -> None:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        try:
            # The poll ends neither before the first writer has opened the FIFO nor without data or end of file.
            while poller.poll() and (data := os.read(descriptor, 65536)):
                self.data += data
        finally:
            os.close(descriptor)

    def text(self) -> str:
        self._thread.join(60)
        assert not self._thread.is_alive(), f"the stream is still open: {self.data!r}"
        return self.data.decode()

    def wait_for(self, text: str) -> None:
        eventually(lambda: text in self.data.decode(), f"{text!r} in the output")
