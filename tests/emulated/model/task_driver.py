"""Runs programs of calls against a real shim, and checks responses and events with the model."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from runhcs.task_client import TaskClient
from shim.api import task as api
from shim.container.ledger import Ledger
from shim.ttrpc.status import OK, StatusError
from tests.emulated.model.places import MEMBERS, PODS, PROCESS, Places
from tests.emulated.model.task_model import INIT, STOPPED, Call, Outcome, Task, closure, explain
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shim, Shims

CONNECTIONS = 3

Round = Sequence[Call] | str
#: A container of a pod: its rounds, and the exit code of its init.
Member = tuple[Sequence[Round], int | None]
#: What a round can be besides calls: containerd restarts (its connections close, it connects again), containerd's event
#: endpoint is away for a while, and a client waits for a process.
RECONNECT, EVENTS_AWAY, EVENTS_BACK = "reconnect", "events-away", "events-back"


class Host:
    """An emulator with shims. Counts the steps: calls and other actions."""

    def __init__(self, emulator: Emulator, shims: Shims) -> None:
        self.emulator = emulator
        self.shims = shims
        self.places = Places(emulator, shims)
        self.steps = 0
        self.programs = 0
        self.pool = ThreadPoolExecutor(CONNECTIONS * MEMBERS)
        self._members = ThreadPoolExecutor(MEMBERS)

    def run(self, rounds: Sequence[Round], program: int | None, ending: str, kind: str = PROCESS) -> None:
        """`program` is the exit code of the init, None if it runs for ever. `ending`: `delete`, `shutdown`, `crash`."""
        self.programs += 1
        shim = self.places.start(kind, f"m{self.programs}", *command(program))
        run = TaskRun(self, shim, program, kind)
        try:
            run.take_all(rounds)
            run.restart_events()
            if ending == "crash":
                shim.kill_daemon()
            else:
                run.end(ending)
                shim.shutdown()
                shim.wait_exited()
                run.check_events()
            self._expect_nothing_after_delete([shim])
        finally:
            run.disconnect()
            self._clean_up([shim])

    def run_pod(self, kind: str, members: Sequence[Member], ending: str) -> None:
        """A pod of containers, each with calls of its own at the same time. `ending` as for `run`."""
        self.programs += 1
        pod = f"m{self.programs}"
        started = [self.places.start_sandbox(kind, pod)]
        runs: list[TaskRun] = []
        try:
            for number, (_, program) in enumerate(members):
                shim = self.places.start_member(kind, pod, f"{pod}c{number}", *command(program))
                started.append(shim)
                runs.append(TaskRun(self, shim, program, kind))
            futures = [
                self._members.submit(run.take_all, rounds) for run, (rounds, _) in zip(runs, members, strict=True)
            ]
            for future in futures:
                future.result(1200)
            runs[0].restart_events()
            self._end_pod(started[0], runs, ending)
            self._expect_nothing_after_delete(started)
        finally:
            for run in runs:
                run.disconnect()
            self._clean_up(started)

    def _end_pod(self, sandbox: Shim, runs: list[TaskRun], ending: str) -> None:
        if ending == "crash":
            sandbox.kill_daemon()
            return
        for run in runs:
            run.end(ending)
            run.check_events()
        sandbox.kill(9)
        sandbox.wait(timeout=120)
        sandbox.delete()
        sandbox.shutdown()
        sandbox.wait_exited()

    def _expect_nothing_after_delete(self, started: Sequence[Shim]) -> None:
        for _ in range(2):  # containerd may repeat it
            for shim in reversed(started):
                shim.delete_command()
        status = self.emulator.control
        eventually(lambda: status("status")["systems"] == [] and status("status")["handles"] == 0, "no system left")
        eventually(lambda: not self.emulator.descendants(), "no process left")
        assert not self.shims.mounts() and not self.emulator.mounts()
        assert not list((self.shims.directory / "s").glob("*"))
        for shim in started:
            assert not Ledger(str(shim.path)).entries()
            assert not shim.panic_log(), shim.panic_log()

    def _clean_up(self, started: Sequence[Shim]) -> None:
        """Also after a failure: hypothesis runs more programs to find the shortest."""
        if started[0].alive:
            started[0].kill_daemon()
        self.shims.clients.clear()
        for shim in reversed(started):
            shim.delete_command()
            self.shims.shims.remove(shim)
            shutil.rmtree(shim.path, ignore_errors=True)

    def close(self) -> None:
        self.pool.shutdown()
        self._members.shutdown()


class TaskRun:
    """One container, the calls of its clients, and the states that explain their responses."""

    def __init__(self, host: Host, shim: Shim, program: int | None, kind: str) -> None:
        self._host = host
        self._shims = host.shims
        self._kind = kind
        self._mark = len(self._shims.events.messages)
        self._shim = shim
        self._program = program
        self._clients = [self._connect() for _ in range(CONNECTIONS)]
        self.states: set[Task] = {Task(is_member=kind in PODS)}
        #: Which process of an id this is: ids of execs are used again, and those of a pod's containers.
        self._incarnation: dict[str, int] = {}
        self._waits: list[tuple[str, int, Future[api.WaitResponse]]] = []
        self._results: dict[tuple[str, int], int] = {}
        self._creates = self._deletes = 0

    def _connect(self) -> TaskClient:
        return TaskClient(self._shim.dial(), self._shim.id, str(self._shim.path))

    def disconnect(self) -> None:
        for client in self._clients:
            client.client.close()

    def restart_events(self) -> None:
        self._shims.events.stop()
        self._shims.events.start()

    # Steps.

    def take_all(self, rounds: Sequence[Round]) -> None:
        for one in rounds:
            self.take(one)
            self._host.steps += 1 if isinstance(one, str) else len(one)

    def take(self, one: Round) -> None:
        if one == RECONNECT:
            self.disconnect()
            self._waits.clear()  # their connection is gone, and the client asks again
            self._clients = [self._connect() for _ in range(CONNECTIONS)]
        elif one == EVENTS_AWAY:
            self._shims.events.stop()
        elif one == EVENTS_BACK:
            self.restart_events()
        elif isinstance(one, str):
            self._wait_in_background(one.removeprefix("wait"))
        else:
            self._call(one)
        self._check_waits()

    def _call(self, calls: Sequence[Call]) -> None:
        # The spec of the bundle names the init's program, whichever call creates the task.
        calls = [replace(call, argument=self._program) if call.method == "create" else call for call in calls]
        pairs = zip(self._clients, calls, strict=False)
        futures = [self._host.pool.submit(self._perform, client, call) for client, call in pairs]
        outcomes = [future.result(120) for future in futures]
        before = self.states
        self.states = explain(before, calls, outcomes)
        assert self.states, f"no order of {list(calls)} explains {outcomes} in {closure(before)}"
        pairs_done = list(zip(calls, outcomes, strict=True))
        made = {call.target for call, got in pairs_done if call.method in ("exec", "create") and got.code == OK}
        for call, outcome in pairs_done:
            if outcome.code != OK:
                continue
            if call.method == "exec":
                self._count_process(call.target)
            elif call.method == "create":
                self._creates += 1
            elif call.method == "delete":
                self._deleted(call.target, outcome.content[0], call.target in made)

    def _deleted(self, target: str, status: int, is_made: bool) -> None:
        """`is_made`: a call at the same time has made one of this id, so it is not known which one was deleted."""
        if not is_made:
            self._results[target, self._incarnation.get(target, 0)] = status
        if target != INIT:
            return
        self._deletes += 1
        # The execs are gone with the task: what a Wait for one of them answers is not known any more.
        for name in list(self._incarnation):
            if name != INIT:
                self._count_process(name)
        if self._kind in PODS:
            self._count_process(INIT)

    def _count_process(self, target: str) -> None:
        self._incarnation[target] = self._incarnation.get(target, 0) + 1

    def _perform(self, client: TaskClient, call: Call) -> Outcome:
        try:
            return Outcome(OK, self._content(client, call))
        except StatusError as error:
            return Outcome(error.code)

    def _content(self, client: TaskClient, call: Call) -> tuple[int, ...]:
        target = call.target
        if call.method == "state":
            state = client.state(target)
            return (state.status, state.exit_status, int(state.pid > 0))
        if call.method == "delete":
            return (client.delete(target).exit_status,)
        if call.method == "connect":
            connected = client.connect()
            assert connected.shim_pid == self._shim.pid
            return (int(connected.task_pid > 0),)
        perform: dict[str, Callable[[], Any]] = {
            "create": lambda: self._host.places.create(self._kind, client),
            "start": lambda: client.start(target),
            "kill": lambda: client.kill(call.argument or 0, target),
            "exec": lambda: client.exec(target, self._shims.process(*command(call.argument))),
            "resize": lambda: client.resize(80, 25, target),
            "close-io": lambda: client.close_io(target),
            "checkpoint": client.checkpoint,
        }
        perform[call.method]()
        return ()

    # Waits.

    def _wait_in_background(self, target: str) -> None:
        """Wait answers when the process has exited, however long that takes, also after it was deleted."""
        known = [state.process(target) is not None for state in closure(self.states)]
        if not all(known):
            return  # it may have been deleted: another round asks for that
        client = self._clients[0]
        waiting: Future[api.WaitResponse] = ThreadPoolExecutor(1).submit(client.wait, target, timeout=300)
        self._waits.append((target, self._incarnation.get(target, 0), waiting))
        client.connect()  # requests of one connection are read in order: the shim has the Wait now

    def _check_waits(self) -> None:
        for entry in [entry for entry in self._waits if entry[2].done()]:
            self._waits.remove(entry)
            self._answered(entry[0], entry[1], entry[2].result())

    def _answered(self, target: str, incarnation: int, response: api.WaitResponse) -> None:
        expected = self._results.get((target, incarnation))
        if expected is not None:
            assert response.exit_status == expected, f"Wait for {target!r}: {response.exit_status}, Delete: {expected}"
        elif incarnation == self._incarnation.get(target, 0):
            exits = {state for state in closure(self.states) if _has_exited(state, target, response.exit_status)}
            assert exits, f"Wait for {target!r} answered {response.exit_status} in {self.states}"
            self.states = exits
            self._results[target, incarnation] = response.exit_status

    # The end.

    def end(self, ending: str) -> None:
        """Stop the task, and delete it if that is the ending."""
        if any(state.init is not None for state in self.states):
            self._stop_task()
            if ending == "delete":
                self._call([Call("delete")])

    def _stop_task(self) -> None:
        self._call([Call("kill", INIT, 9)])
        waited = self._clients[0].wait(timeout=120)
        for target, incarnation, waiting in self._waits:
            self._answered(target, incarnation, waiting.result(120))
        self._waits.clear()
        self._answered(INIT, self._incarnation.get(INIT, 0), waited)

    def check_events(self) -> None:
        """Each process has its events in order and once; the container's surround those of its execs."""
        if not self._creates:
            return
        task = self._shim.id
        for kind, count in (("exit", self._creates), ("delete", self._deletes)):
            eventually(lambda kind=kind, count=count: self._events().count(f"{kind} {task}") >= count, f"each {kind}")  # type: ignore[misc]
        received = self._events()
        mine = " ".join(entry.split()[0] for entry in received if entry.split()[1] == task)
        # Delete may be repeated, and each that succeeds is published. A pod's container may be created again after it.
        lifecycle = "create( start)? exit( delete)*"
        assert re.fullmatch(f"{lifecycle}( {lifecycle}){{{self._creates - 1}}}", mine), received
        assert mine.count("delete") == self._deletes, received
        assert received[0] == f"create {task}", received
        exit_at = len(received) - 1 - received[::-1].index(f"exit {task}")
        for target in {entry.split()[1] for entry in received} - {task}:
            kinds = " ".join(entry.split()[0] for entry in received if entry.split()[1] == target)
            for whole in ("exec-added exec-started exit delete", "exec-added exec-started exit", "exec-added delete"):
                kinds = kinds.replace(whole, "")
            assert not kinds.replace("exec-added", "").strip(), received
        execs_after = [entry for entry in received[exit_at + 1 :] if entry.split()[0] in ("exit", "exec-started")]
        assert not execs_after, received

    def _events(self) -> list[str]:
        from runhcs.task_events import TASKS, exec_of

        # An outage may come between the arrival of an event and its response: then it is sent again, with its time.
        events = self._shims.events
        messages = dict([*zip(events.requests, events.messages, strict=False)][self._mark :])
        return [
            f"{topic.removeprefix(TASKS)} {exec_of(event) or event.container_id}"
            for topic, event in messages.values()
            if event.container_id == self._shim.id
        ]


def _has_exited(state: Task, target: str, code: int) -> bool:
    process = state.process(target)
    return process is not None and process.status == STOPPED and process.exit_status == code


def command(program: int | None) -> tuple[str, ...]:
    return ("sleep", "600") if program is None else ("sh", "-c", f"exit {program}")
