"""Threads for requests, relays and waits. `threading.Thread.start` waits until the new thread runs, which costs a busy
machine more than the work of the thread; these start without.
"""

from __future__ import annotations

import _thread
import threading
import traceback
from collections.abc import Callable
from typing import Any

from hcs_emulator.vm.linux.agent import log


def start(work: Callable[..., None], *arguments: Any) -> threading.Event:
    """Run `work` in a thread of its own; the event is set when it has ended."""
    ended = threading.Event()

    def run() -> None:
        try:
            work(*arguments)
        except BaseException:
            log.error("a thread failed", error=traceback.format_exc())
        finally:
            ended.set()

    _thread.start_new_thread(run, ())
    return ended
