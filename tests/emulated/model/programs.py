"""Strategies: programs of task API calls, and crashes of shims."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.emulated.model.ledger_driver import CALLS, HYPERVISOR, POD, PROCESS, Crash
from tests.emulated.model.places import MEMBERS
from tests.emulated.model.task_driver import EVENTS_AWAY, EVENTS_BACK, RECONNECT, Member, Round
from tests.emulated.model.task_model import INIT, SIGKILL, SIGTERM, Call

EXECS = ("e1", "e2", "e3")
# Long-running programs are more frequent: what exits at once leaves little to do.
exit_codes = st.sampled_from([None, None, None, 0, 3])
targets = st.sampled_from([INIT, *EXECS])
execs = st.sampled_from(EXECS)

calls = st.one_of(
    st.builds(Call, st.just("create")),
    st.builds(Call, st.just("start"), targets),
    st.builds(Call, st.just("start"), execs),
    st.builds(Call, st.just("exec"), execs, exit_codes),
    st.builds(Call, st.just("exec"), execs, exit_codes),
    st.builds(Call, st.just("kill"), execs, st.sampled_from([SIGKILL, SIGTERM])),
    st.builds(Call, st.just("kill"), targets, st.sampled_from([SIGKILL, SIGTERM])),
    st.builds(Call, st.just("delete"), targets),
    st.builds(Call, st.just("delete"), execs),
    st.builds(Call, st.just("state"), targets),
    st.builds(Call, st.sampled_from(["connect", "checkpoint"])),
    st.builds(Call, st.sampled_from(["resize", "close-io"]), targets),
)
others = st.sampled_from([RECONNECT, EVENTS_AWAY, EVENTS_BACK, "wait", *(f"wait{name}" for name in EXECS)])
rounds: st.SearchStrategy[Round] = st.one_of(
    st.lists(calls, min_size=1, max_size=1), st.lists(calls, min_size=1, max_size=3), others
)


@st.composite
def programs(draw: st.DrawFn, longest: int = 60) -> list[Round]:
    """Most programs create and start the container first: there is little else to do without it."""
    program = draw(st.lists(rounds, min_size=longest // 4, max_size=longest))
    first: list[Round] = [[Call("create")], [Call("start")]]
    return first[: draw(st.sampled_from([2, 2, 2, 2, 1, 0]))] + program


endings = st.sampled_from(["delete", "shutdown", "crash"])


@st.composite
def pods(draw: st.DrawFn, longest: int = 60) -> list[Member]:
    """The containers of a pod. Only the first stops the event endpoint, which is one for all."""
    members = [(draw(programs(longest)), draw(exit_codes)) for _ in range(MEMBERS)]
    first, *others = members
    shared = (EVENTS_AWAY, EVENTS_BACK)
    return [first, *(([one for one in rounds if one not in shared], code) for rounds, code in others)]


LIFECYCLE = ("create", "start", "workload", "exec", "stats", "pids", "kill", "delete")


@st.composite
def crashes(draw: st.DrawFn) -> Crash:
    """A prefix of a whole lifecycle, or its steps in any order."""
    kind = draw(st.sampled_from([PROCESS, PROCESS, HYPERVISOR, POD]))
    whole = LIFECYCLE[: draw(st.integers(0, len(LIFECYCLE)))]
    mixed = tuple(draw(st.lists(st.sampled_from(LIFECYCLE), max_size=8)))
    steps = draw(st.sampled_from([whole, whole, mixed]))
    delayed = draw(st.none() | st.tuples(st.sampled_from(CALLS), st.integers(1, 4)))
    return Crash(kind, steps, delayed, draw(st.sampled_from([1, 1, 2])))
