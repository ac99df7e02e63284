"""Steps, and how they run: each in a thread of its own, with a timeout, followed by its cleanup."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen
from attrs.validators import gt, in_, instance_of, min_len

if TYPE_CHECKING:
    from runhcs.selftest.node import Node

OUTCOMES = ("ok", "fail", "skip")
# Each cleanup action of a step, and the end of a step that timed out and whose resources were released.
CLEANUP_TIMEOUT = 60.0
UNWIND_TIMEOUT = 10.0


class StepFailed(Exception):  # noqa: N818
    """What the step verifies is not so; `next_step` is what to do about it."""

    def __init__(self, reason: str, next_step: str = "") -> None:
        super().__init__(reason)
        self.next_step = next_step


class StepSkipped(Exception):  # noqa: N818
    """The step does not apply here; `next_step` is how to make it apply."""

    def __init__(self, reason: str, next_step: str = "") -> None:
        super().__init__(reason)
        self.next_step = next_step


class Context:
    """What a running step uses: the node, the details that it reports, and its cleanup."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.details: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._cleanups: list[Callable[[], None]] = []
        self._closed = False

    def on_cleanup(self, action: Callable[[], None]) -> None:
        """Called after the step, last registered first, also after a failure or a timeout. After a timeout the thread
        of the step may still register actions: they are called at once."""
        with self._lock:
            if not self._closed:
                self._cleanups.append(action)
                return
        action()

    def cleanup(self) -> list[str]:
        """Run the registered actions, each with a timeout; returns what failed."""
        with self._lock:
            self._closed = True
            actions, self._cleanups = self._cleanups[::-1], []
        return [problem for action in actions if (problem := _bounded(action))]


def _bounded(action: Callable[[], None]) -> str:
    problems: list[str] = []

    def call() -> None:
        try:
            action()
        except Exception as error:
            problems.append(str(error) or type(error).__name__)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(CLEANUP_TIMEOUT)
    if thread.is_alive():
        return f"did not finish within {CLEANUP_TIMEOUT:.0f} s"
    return "; ".join(problems)


@frozen
class Step:
    name: str = field(validator=min_len(1))
    #: What it verifies, in one sentence without a full stop.
    verifies: str = field(validator=min_len(1))
    run: Callable[[Context], str]
    """Returns the finding; raises StepFailed or StepSkipped."""
    timeout: float = field(default=60.0, validator=[instance_of(float), gt(0)])


@define
class Result:
    """One element of `steps` in `selftest --json`."""

    name: str
    verifies: str
    outcome: str = field(validator=in_(OUTCOMES))
    #: What was found, or the reason of a failure or a skip.
    finding: str
    next_step: str
    seconds: float
    details: dict[str, Any]


def run_step(step: Step, node: Node) -> Result:
    context = Context(node)
    answer: list[tuple[str, str, str]] = []

    def call() -> None:
        try:
            answer.append(("ok", step.run(context), ""))
        except StepFailed as error:
            answer.append(("fail", str(error), error.next_step))
        except StepSkipped as error:
            answer.append(("skip", str(error), error.next_step))
        except BaseException as error:  # an unexpected error must not stop the other steps
            context.details["traceback"] = traceback.format_exc().splitlines()[-12:]
            answer.append(("fail", f"{type(error).__name__}: {error}", "see the traceback in --json"))

    began = time.monotonic()
    thread = threading.Thread(target=call, name=f"selftest {step.name}", daemon=True)
    thread.start()
    try:
        thread.join(step.timeout)
    except BaseException:  # Ctrl-C
        context.cleanup()
        raise
    if thread.is_alive():
        finding = f"did not finish within {step.timeout:.0f} s"
        outcome = ("fail", finding, "`runhcs stacks` shows what a shim waits for; see its log")
    else:
        outcome = answer[0]
    problems = context.cleanup()
    if thread.is_alive():
        thread.join(UNWIND_TIMEOUT)
        if thread.is_alive():
            problems.append("its thread is still blocked")
    kind, finding, next_step = outcome
    if problems:
        finding = f"{finding}; cleanup failed: {'; '.join(problems)}"
        kind, next_step = "fail", next_step or "`runhcs gc` lists what is left"
    seconds = round(time.monotonic() - began, 2)
    return Result(step.name, step.verifies, kind, finding, next_step, seconds, context.details)

