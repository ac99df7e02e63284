"""What the task API of one container promises, as a nondeterministic automaton.

A process exits by itself, so a client never knows its state exactly: the model keeps all states that explain the
responses so far. `explain` returns those that explain one more round of concurrent calls: some order of the calls, with
exits before, between or after them, must lead to exactly these responses (linearizability). No state left: the shim
violates its API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from shim.api.types import Status
from shim.ttrpc.status import ALREADY_EXISTS, FAILED_PRECONDITION, NOT_FOUND, OK, UNIMPLEMENTED, UNKNOWN

CREATED, RUNNING, STOPPED = Status.CREATED, Status.RUNNING, Status.STOPPED

# Exit statuses that the shim chooses itself, and those of processes that HCS ends.
NOT_STARTED, DELETED_BEFORE_START, NOT_EXITED = 1, 0, 255
TERMINATED, CONTROL_C = 0xFFFFFFFF, 0xC000013A
SIGKILL, SIGTERM = 9, 15
INIT = ""


@dataclass(frozen=True)
class Call:
    """`target` is an exec id, or INIT. `argument`: a signal, or the exit code of a program (None: it does not exit)."""

    method: str
    target: str = INIT
    argument: int | None = None


@dataclass(frozen=True)
class Outcome:
    """A response: the status code of the call, and what the model checks of its content."""

    code: int
    content: tuple[int, ...] = ()


@dataclass(frozen=True)
class Process:
    status: int = CREATED
    exit_status: int = NOT_EXITED
    #: The code with which the program exits by itself; None: it does not.
    program: int | None = None
    #: Codes with which it may exit at any time.
    pending: frozenset[int] = frozenset()
    started: bool = False

    def exited(self, code: int) -> Process:
        return replace(self, status=STOPPED, exit_status=code, pending=frozenset())

    def content(self) -> tuple[int, ...]:
        return (self.status, self.exit_status, int(self.started))


@dataclass(frozen=True)
class Task:
    """None: not created. `execs` are sorted by id. A container of a pod is gone when it is deleted, and can be created
    again; the one of a shim of its own stays until Shutdown."""

    init: Process | None = None
    execs: tuple[tuple[str, Process], ...] = ()
    deleted: bool = False
    is_member: bool = False

    def process(self, target: str) -> Process | None:
        return self.init if target == INIT else dict(self.execs).get(target)

    def with_process(self, target: str, process: Process | None) -> Task:
        if target == INIT:
            return replace(self, init=process)
        execs = {**dict(self.execs), target: process}
        return replace(self, execs=tuple(sorted(one for one in execs.items() if one[1] is not None)))


def closure(states: Iterable[Task]) -> set[Task]:
    """These states, and those that follow from them when processes exit."""
    found: set[Task] = set()
    waiting = list(states)
    while waiting:
        state = waiting.pop()
        if state not in found:
            found.add(state)
            waiting += _exits(state)
    return found


def _exits(state: Task) -> Iterator[Task]:
    init = state.init
    if init is None:
        return
    for target, process in [(INIT, init), *state.execs]:
        codes = set(process.pending) if process.status == RUNNING else set()
        if target != INIT and init.status == STOPPED:
            # The shim terminates the execs of a container that has exited.
            codes |= {RUNNING: {TERMINATED}, CREATED: {NOT_STARTED}}.get(process.status, set())
        for code in codes:
            yield state.with_process(target, process.exited(code))


def explain(states: Iterable[Task], calls: Sequence[Call], outcomes: Sequence[Outcome]) -> set[Task]:
    """The states that explain these outcomes of concurrent calls."""
    found: set[Task] = set()
    # Delete stops a process that was not started, and then removes it: concurrent calls may come between.
    begins = [at for at, call in enumerate(calls) if call.method == "delete"] if len(calls) > 1 else []
    events = [*range(len(calls)), *(-1 - at for at in begins)]
    for order in permutations(events):
        if any(order.index(-1 - at) > order.index(at) for at in begins):
            continue
        current = closure(states)
        for at in order:
            if at < 0:
                current = closure(current | {_begin_delete(state, calls[-1 - at].target) for state in current})
                continue
            after = {state for before in current for got, state in respond(before, calls[at]) if got == outcomes[at]}
            current = closure(after)
        found |= current
    return found


def _begin_delete(state: Task, target: str) -> Task:
    process = state.process(target)
    if process is None or process.status != CREATED:
        return state
    return state.with_process(target, process.exited(DELETED_BEFORE_START))


def respond(state: Task, call: Call) -> list[tuple[Outcome, Task]]:
    """Every response that this state allows, with the state after it."""
    if call.method == "create":
        if state.init is not None:
            return [(Outcome(ALREADY_EXISTS), state)]
        return [(Outcome(OK), Task(Process(program=call.argument), is_member=state.is_member))]
    if call.method == "checkpoint":
        return [(Outcome(UNIMPLEMENTED), state)]
    if call.method == "connect":
        return [(Outcome(OK, (int(state.init is not None and state.init.started),)), state)]
    if state.init is None:
        return [(Outcome(NOT_FOUND), state)]
    if call.method == "exec":
        return _exec(state, state.init, call)
    process = state.process(call.target)
    if process is None:
        return [(Outcome(NOT_FOUND), state)]
    handlers = {"start": _start, "kill": _kill, "delete": _delete}
    if call.method in handlers:
        return handlers[call.method](state, process, call)
    if call.method == "state":
        return [(Outcome(OK, process.content()), state)]
    if call.method == "resize":
        return [(Outcome(FAILED_PRECONDITION), state)]  # no process of the model has a terminal
    assert call.method == "close-io", call
    return [(Outcome(OK), state)]


def _exec(state: Task, init: Process, call: Call) -> list[tuple[Outcome, Task]]:
    if state.process(call.target) is not None:
        return [(Outcome(ALREADY_EXISTS), state)]
    if init.status != RUNNING:
        return [(Outcome(FAILED_PRECONDITION), state)]
    return [(Outcome(OK), state.with_process(call.target, Process(program=call.argument)))]


def _start(state: Task, process: Process, call: Call) -> list[tuple[Outcome, Task]]:
    if process.status != CREATED:
        return [(Outcome(FAILED_PRECONDITION), state)]
    pending = frozenset() if process.program is None else frozenset({process.program})
    running = replace(process, status=RUNNING, started=True, pending=pending)
    if call.target == INIT:
        return [(Outcome(OK), state.with_process(INIT, running))]
    init = state.init
    assert init is not None
    failed = state.with_process(call.target, process.exited(NOT_STARTED))
    if init.status != RUNNING:
        # Microsoft's words for it, or those of HCS if the container exits while the exec is being started.
        return [(Outcome(FAILED_PRECONDITION), failed), (Outcome(UNKNOWN), failed)]
    started = [(Outcome(OK), state.with_process(call.target, running))]
    # HCS may have begun to end the container before its init counts as exited.
    return started + ([(Outcome(UNKNOWN), failed)] if init.pending else [])


def _kill(state: Task, process: Process, call: Call) -> list[tuple[Outcome, Task]]:
    if process.status == STOPPED:
        return [(Outcome(NOT_FOUND), state)]
    if process.status == CREATED:
        return [(Outcome(OK), state.with_process(call.target, process.exited(NOT_STARTED)))]
    code = TERMINATED if call.argument == SIGKILL else CONTROL_C
    return [(Outcome(OK), state.with_process(call.target, replace(process, pending=process.pending | {code})))]


def _delete(state: Task, process: Process, call: Call) -> list[tuple[Outcome, Task]]:
    if process.status == RUNNING:
        return [(Outcome(FAILED_PRECONDITION), state)]
    if process.status == CREATED:
        process = process.exited(DELETED_BEFORE_START)
    outcome = Outcome(OK, (process.exit_status,))
    if call.target != INIT:
        return [(outcome, state.with_process(call.target, None))]
    if state.is_member:
        return [(outcome, Task(is_member=True))]
    return [(outcome, Task(process, (), deleted=True))]
