"""The stacks of all threads of this process, as text.

For diagnosing a shim that hangs. A call takes no lock and imports nothing: it reads only the interpreter's own table of
frames. Modules such as `traceback` would have to be imported first, possibly while the thread that hangs
holds the import lock.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from shim import threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

# Of an endless recursion, which has thousands of equal frames.
MAX_FRAMES = 60


def all_threads(pod: str = "") -> str:
    """Innermost call last, as Python's own tracebacks are. Threads of a shared daemon have the name of their pod; with
    `pod`, those of other pods are only counted."""
    names = _names()
    pods = threads.pods()
    own = get_ident()
    others = 0
    parts = []
    for ident, frame in sorted(sys._current_frames().items()):
        of_pod = pods.get(ident, "")
        if pod and of_pod not in ("", pod):
            others += 1
            continue
        name = " ".join(part for part in (names.get(ident, ""), f"of pod {of_pod}" if of_pod else "") if part)
        title = f"thread {ident}{' ' + name if name else ''}{' (this one answers)' if ident == own else ''}"
        parts.append("\n".join([f"{title}:", *_lines(frame)]))
    if others:
        parts.append(f"{others} threads of other pods of this daemon are not shown.")
    return "\n\n".join(parts) + "\n"


def _lines(frame: FrameType | None) -> list[str]:
    lines: list[str] = []
    while frame is not None and len(lines) < MAX_FRAMES:
        code = frame.f_code
        lines.append(f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_qualname}')
        frame = frame.f_back
    if frame is not None:
        lines.append("  …")
    return lines[::-1]


def _names() -> dict[int, str]:
    """The names of threads created by `threading`, which may not be imported."""
    threading = sys.modules.get("threading")
    active = getattr(threading, "_active", {})
    return {ident: str(thread.name) for ident, thread in list(active.items())}
