"""A scripted computecore for tests of the bindings: see scripted.c."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("scripted.c")
BLOCK = 1
OPERATIONS, DOCUMENTS, HANDLES, CANCELS, TERMINATIONS = range(5)


def build(directory: Path) -> None:
    """Compile it into `directory`, under the name that the bindings load."""
    target = directory / "libcomputecore.so"
    command = ["cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*command, "-o", str(target), str(SOURCE)], check=True, timeout=60)


def _wide(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-16-le") + b"\0\0"


class Script:
    """The test's end of the scripted library."""

    def __init__(self, directory: Path) -> None:
        self._library = ctypes.CDLL(str(directory / "libcomputecore.so"))
        self._library.script_reset()

    def set(
        self, name: str, *, submit: int = 0, result: int = 0, document: str | None = None, no_handle: bool = False
    ) -> None:
        """Set how `name` answers: at submission, in its result, and with which document."""
        submit, result = (value - (1 << 32) if value >> 31 else value for value in (submit, result))
        self._library.script_set(name.encode(), submit, result, _wide(document), int(no_handle))

    def fire(self, event: int, data: str | None = None, times: int = 1, join: bool = True) -> None:
        """Call the callback registered last, on a foreign thread."""
        event = event - (1 << 32) if event >> 31 else event
        self._library.script_fire(event, _wide(data), times, int(join))

    def release(self) -> None:
        """Release the results that are scripted to BLOCK."""
        self._library.script_release()

    def pipes(self) -> None:
        """Give processes real pipes from now on."""
        self._library.script_pipes(1)

    def count(self, which: int) -> int:
        return int(self._library.script_counter(which))

    def is_clean(self) -> bool:
        return [self.count(OPERATIONS), self.count(DOCUMENTS), self.count(HANDLES)] == [0, 0, 0]
