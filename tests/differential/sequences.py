"""Strategies for sequences of calls: in every state of a task, repeated, from several clients, at the same time.

A case must give the same result in every run with the same shim. So a process runs until it is killed, and each kill
is followed by a wait; or it exits by itself, and its Start is followed by a wait. Two calls at the same time (`pair`)
are such that their order does not change a response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.parity import lcow_specs
from tests.parity.scenarios import EXEC, SLEEP

SLEEPING, EXITING, READING, MISSING = "sleeping", "exiting", "reading", "missing"


@dataclass(frozen=True)
class Programs:
    """What processes of one kind of container run. `members` are those that every process needs."""

    members: Mapping[str, Any]
    sleeping: list[str]
    exiting: Callable[[int], list[str]]
    #: Copies its input to its output; empty if there is none.
    reading: list[str]
    missing: list[str]

    def arguments(self, kind: str, code: int) -> list[str]:
        return self.exiting(code) if kind == EXITING else list(getattr(self, kind))


WINDOWS = Programs(
    EXEC, SLEEP["args"], lambda code: ["C:\\tool.exe", "exit", str(code)], ["C:\\tool.exe", "cat"], ["C:\\none.exe"]
)
HOST_USER = {"username": "NT AUTHORITY\\SYSTEM"}
# Without a child: Microsoft's shim waits for the children of a killed host process, which keep its output open.
HOST = Programs(
    {**EXEC, "user": HOST_USER}, ["ping", "-n", "600", "127.0.0.1"], lambda code: ["cmd", "/c", f"exit {code}"], [],
    ["C:\\none.exe"],
)  # fmt: skip
LINUX = Programs(
    lcow_specs.process(), lcow_specs.SLEEP["args"], lambda code: ["/bin/sh", "-c", f"echo out; exit {code}"],
    ["/bin/cat"], ["/none"],
)  # fmt: skip

exit_codes = st.sampled_from([0, 1, 2, 7, 127, 128, 255])
# While an init runs, only these execs are used.
_NAMES = ("e1", "e2")
# Calls that every state of a task answers.
_ANYTIME = (
    "state", "checkpoint", "resize", "closeio", "connect", "client", "pause", "resume", "restart", "kill:e7,9",
    "state:e7", "run:e7", "wait:e7", "delete:e7", "closeio:e7", "resize:e7",
)  # fmt: skip
# Calls of two clients at the same time.
_PAIRS = (
    "state&pids", "state&stats", "pids&stats", "update&state", "update&stats", "update&pids", "connect&stats",
    "checkpoint&state", "resume&stats", "resize&state", "closeio&pids", "pause&state", "state&state:e7",
)  # fmt: skip
_EXEC_PAIRS = (
    ("exec:e3&exec:e4", "exec:e3&state", "exec:e3&pids", "exec:e3&stats"),
    ("run:e3&run:e4", "run:e3&stats", "run:e3&state", "run:e3&update", "run:e3&kill:e4,9"),
    ("kill:e3,9&kill:e4,9", "kill:e3,9&stats", "kill:e3,9&update"),
    ("delete:e3&delete:e4", "delete:e3&state", "delete:e3&stats"),
)


@st.composite
def execs(draw: st.DrawFn, programs: Programs, members: st.SearchStrategy[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Processes of execs by id. Those of `_NAMES` vary, the others sleep. `kind_of` tells what they do."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("e0", "e1", "e2", "e3", "e4", "e9"):
        kind, more = SLEEPING, {}
        if name in _NAMES:
            kind = draw(st.sampled_from([SLEEPING, SLEEPING, SLEEPING, EXITING, EXITING, MISSING]))
            more = draw(members)
        found[name] = {**programs.members, **more, "args": programs.arguments(kind, draw(exit_codes))}
    return found


def kind_of(programs: Programs, process: Mapping[str, Any]) -> str:
    """What a process does."""
    for kind in (SLEEPING, READING, MISSING):
        arguments = getattr(programs, kind)
        if arguments and process["args"][: len(arguments)] == arguments:
            return kind
    return EXITING


@st.composite
def pairs(draw: st.DrawFn) -> list[str]:
    """Two different calls at the same time, while the init runs: one pair, or a pair in each state of two execs."""
    if draw(st.booleans()):
        return [f"pair:{draw(st.sampled_from(_PAIRS))}"]
    added, runs, kills, deletes = (draw(st.sampled_from(choice)) for choice in _EXEC_PAIRS)
    found = [f"pair:{added}", *([] if "e4" in added else ["exec:e4"]), f"pair:{runs}"]
    if "kill:e4" not in runs and "run:e4" not in runs:
        found.append("run:e4")
    found += [f"pair:{kills}", "wait:e3", *([] if "e4" in kills else ["kill:e4,9"]), "wait:e4", f"pair:{deletes}"]
    return found


@st.composite
def steps(draw: st.DrawFn, execs: Mapping[str, str], init: str = SLEEPING, not_started: bool = True) -> list[str]:
    """Calls in the states that a task goes through: created, running, stopped, deleted. `execs` are the kinds of execs,
    `init` is that of the init; `not_started` allows that it is not started."""
    # Whether what a client writes after CloseIO is read is not defined.
    anytime = [call for call in _ANYTIME if init != READING or call != "closeio"]
    created = st.sampled_from([*anytime, "exec:e0", "delete:e0"])
    found = ["start", "connect", "create", *draw(st.lists(created, max_size=2))]
    after = [*_ANYTIME, "kill:,9", "kill:,15", "exec:e9", "run", "wait", "state:e1", "delete:e1"]
    if not_started and draw(st.sampled_from([True, False, False, False, False])):
        if draw(st.booleans()):
            found += [draw(st.sampled_from(["kill:,9", "kill:,15", "both:kill:,9"])), "wait"]
            found += draw(st.lists(st.sampled_from(after), max_size=3))
        return [*found, "delete", "shutdown", "events"]
    if init == SLEEPING:
        found.append(draw(st.sampled_from(["run", "run", "run", "both:run"])))
        found += draw(while_running(execs))
        if draw(st.sampled_from([True, False, False])):
            found += draw(pairs())
        found += [draw(st.sampled_from(["kill:,9", "kill:,9", "kill:,9,all"])), "wait"]
    elif init == READING:
        found += ["run", "stdin:", "closeio", "wait", "io:"]
    else:
        found += ["run", "wait", *draw(st.sampled_from([[], ["io:"]]))]
    found += draw(st.lists(st.sampled_from(after), max_size=4))
    return [*found, "delete", *draw(st.sampled_from([[], [], ["delete"], ["state"]])), "shutdown", "events"]


@st.composite
def while_running(draw: st.DrawFn, kinds: Mapping[str, str]) -> list[str]:
    """Calls while the init runs."""
    calls = [*_ANYTIME, "run", "delete", "pids", "stats", "update", "update:1", "both:state", "both:stats", "kill:,99"]
    found: list[str] = []
    states = dict.fromkeys(_NAMES, "none")
    actions = ["exec", "start", "exec and start", "exec and start", "state", "kill", "delete", "resize", "closeio"]
    for _ in range(draw(st.integers(0, 8))):
        name = draw(st.sampled_from(_NAMES))
        action = draw(st.sampled_from([*calls, *actions, *actions]))
        if action in calls and action not in actions:
            found.append(action)
        elif action == "kill":
            found.append(f"kill:{name},{draw(st.sampled_from(['9', '9', '9', '99']))}")
            if states[name] != "none" and found[-1].endswith(",9"):
                found.append(f"wait:{name}")
                states[name] = "stopped"
        elif action in ("start", "exec and start"):
            if action != "start" and states[name] == "none":
                found.append(f"exec:{name}")
                states[name] = "created"
            is_first = states[name] == "created"
            is_both = kinds[name] == SLEEPING and draw(st.sampled_from([True, False, False]))
            found.append(f"both:run:{name}" if is_both else f"run:{name}")
            if is_first:
                states[name] = "running" if kinds[name] == SLEEPING else "stopped"
                found += [] if kinds[name] == SLEEPING else [f"wait:{name}"]
        else:
            found.append(f"{action}:{name}")
            if action == "exec" and states[name] == "none":
                states[name] = "created"
            if action == "delete" and states[name] in ("created", "stopped"):
                states[name] = "none"
    # The exit of the container ends these in an order of its own.
    for name, state in states.items():
        found += [f"kill:{name},9", f"wait:{name}"] if state in ("created", "running") else []
    return found


def in_sequence(calls: list[str]) -> list[str]:
    """Without calls at the same time: if one of them fails, or the VM crashes during it, the order decides which. A
    kill is the last, since a wait for its effect follows."""
    return [
        one for call in calls for one in sorted(call.removeprefix("pair:").split("&"), key=lambda one: "kill" in one)
    ]


@st.composite
def crash(draw: st.DrawFn, whole: list[str]) -> list[str]:
    """The shim is killed after some of these calls, and containerd runs `delete`, once or twice. Events that it had not
    sent are lost."""
    begin = whole.index("create") + 1
    end = draw(st.integers(begin, len(whole) - 2))  # before Shutdown
    while whole[end - 1].startswith(("kill:", "both:kill:", "run:", "both:run:", "run", "stdin:", "pair:")):
        end += 1  # what follows waits for its effect
    return [*whole[:end], "killshim", *["deletecmd"] * draw(st.sampled_from([1, 1, 1, 2]))]
