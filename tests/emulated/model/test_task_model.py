"""The task API of a real shim against its model: any calls in any order, from several connections at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, example, given, seed, settings

from shim.ttrpc.status import FAILED_PRECONDITION, NOT_FOUND, OK
from tests.emulated.model.places import HYPERVISOR, PODS
from tests.emulated.model.programs import endings, exit_codes, pods, programs
from tests.emulated.model.task_driver import Host, Member, Round
from tests.emulated.model.task_model import INIT, RUNNING, STOPPED, Call, Outcome, Task, explain
from tests.support.emulator import Emulator
from tests.support.shims import Shims


def test_model_refuses_wrong_responses() -> None:
    """The model itself: what a correct shim never answers has no explanation."""
    create, start, kill, state = Call("create"), Call("start"), Call("kill", INIT, 9), Call("state")
    running = explain(explain({Task()}, [create], [Outcome(OK)]), [start], [Outcome(OK)])
    assert not explain(running, [create], [Outcome(OK)])
    assert not explain(running, [state], [Outcome(OK, (STOPPED, 0, 1))])
    assert not explain(running, [Call("delete")], [Outcome(OK, (0,))])
    killed = explain(running, [kill], [Outcome(OK)])
    assert explain(killed, [state], [Outcome(OK, (RUNNING, 255, 1))])
    stopped = explain(killed, [state], [Outcome(OK, (STOPPED, 0xFFFFFFFF, 1))])
    assert stopped and not explain(stopped, [state], [Outcome(OK, (RUNNING, 255, 1))])
    assert not explain(stopped, [kill], [Outcome(OK)]) and explain(stopped, [kill], [Outcome(NOT_FOUND)])
    # Of two concurrent starts one wins.
    created = explain({Task()}, [create], [Outcome(OK)])
    assert explain(created, [start, start], [Outcome(FAILED_PRECONDITION), Outcome(OK)])
    assert not explain(created, [start, start], [Outcome(OK), Outcome(OK)])


def test_shim_behaves_like_the_model(emulator: Emulator, shims: Shims) -> None:
    host = Host(emulator, shims)

    @seed(16)
    @settings(max_examples=25, database=None, phases=(Phase.explicit, Phase.generate, Phase.shrink),
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(programs(), exit_codes, endings)
    @example([], None, "shutdown")
    def run(rounds: Sequence[Round], program: int | None, ending: str) -> None:
        host.run(rounds, program, ending)

    try:
        run()
    finally:
        host.close()
    assert host.steps > 400


@pytest.mark.parametrize("kind", PODS)
def test_pod_members_behave_like_the_model(emulator: Emulator, shims: Shims, kind: str) -> None:
    """Two containers of a pod, each with clients of its own at the same time."""
    host = Host(emulator, shims)

    @seed(16)
    @settings(max_examples=5, database=None, phases=(Phase.generate, Phase.shrink),
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(pods(), endings)
    def run(members: Sequence[Member], ending: str) -> None:
        host.run_pod(kind, members, ending)

    try:
        run()
    finally:
        host.close()
    assert host.steps > 100


def test_container_in_its_own_vm_behaves_like_the_model(emulator: Emulator, shims: Shims) -> None:
    host = Host(emulator, shims)

    @seed(16)
    @settings(max_examples=5, database=None, phases=(Phase.generate, Phase.shrink),
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(programs(), exit_codes, endings)
    def run(rounds: Sequence[Round], program: int | None, ending: str) -> None:
        host.run(rounds, program, ending, HYPERVISOR)

    try:
        run()
    finally:
        host.close()
    assert host.steps > 50


def test_model_allows_calls_between_the_two_steps_of_delete() -> None:
    created = explain({Task()}, [Call("create")], [Outcome(OK)])
    calls = [Call("start"), Call("delete")]
    assert explain(created, calls, [Outcome(FAILED_PRECONDITION), Outcome(OK, (0,))])
    assert not explain(created, calls, [Outcome(OK), Outcome(OK, (0,))])
