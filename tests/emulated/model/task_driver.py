"""Runs programs of calls against a real shim, and checks responses and events with the model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from runhcs.task_client import TaskClient
from shim.api import task as api
from shim.container.ledger import Ledger
from shim.ttrpc.status import OK, StatusError
from tests.emulated.model.task_model import INIT, STOPPED, Call, Outcome, Task, closure, explain
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shim, Shims

CONNECTIONS = 3

Round = Sequence[Call] | str
#: What a round can be besides calls: containerd restarts (its connections close, it connects again), containerd's event
#: endpoint is away for a while, and a client waits for a process.
RECONNECT, EVENTS_AWAY, EVENTS_BACK = "reconnect", "events-away", "events-back"


@dataclass
class Host:
    """An emulator with shims. Counts the steps: calls and other actions."""

    emulator: Emulator
    shims: Shims
    steps: int = 0
    programs: int = 0
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(CONNECTIONS))

    def run(self, rounds: Sequence[Round], program: int | None, ending: str) -> None:
        """`program` is the exit code of the init, None if it runs for ever. `ending`: `delete`, `shutdown`, `crash`."""
        self.programs += 1
        run = _Run(self, f"m{self.programs}", program)
        try:
            for one in rounds:
                run.take(one)
                self.steps += 1 if isinstance(one, str) else len(one)
            run.end(ending)
        finally:
            run.clean_up()

    def close(self) -> None:
        self.pool.shutdown()


class _Run:
    def __init__(self, host: Host, id: str, program: int | None) -> None:
        self._host = host
        self._shims = host.shims
        self._shims.rootfs()
        self._mark = len(self._shims.events.messages)
        self._shim: Shim = self._shims.start(id, self._shims.spec(*command(program)))
        self._program = program
        self._clients = [self._connect() for _ in range(CONNECTIONS)]
        self.states: set[Task] = {Task()}
        #: Which exec of an id this is: ids are used again.
        self._incarnation: dict[str, int] = {}
        self._waits: list[tuple[str, int, Future[api.WaitResponse]]] = []
        self._results: dict[tuple[str, int], int] = {}
        self._deletes = 0

    def _connect(self) -> TaskClient:
        return TaskClient(self._shim.dial(), self._shim.id, str(self._shim.path))

    # Steps.

    def take(self, one: Round) -> None:
        if one == RECONNECT:
            for client in self._clients:
                client.client.close()
            self._waits.clear()  # their connection is gone, and the client asks again
            self._clients = [self._connect() for _ in range(CONNECTIONS)]
        elif one == EVENTS_AWAY:
            self._shims.events.stop()
        elif one == EVENTS_BACK:
            self._shims.events.stop()
            self._shims.events.start()
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
        made = {call.target for call, got in pairs_done if call.method == "exec" and got.code == OK}
        for call, outcome in pairs_done:
            if call.method == "exec" and outcome.code == OK:
                self._incarnation[call.target] = self._incarnation.get(call.target, 0) + 1
            elif call.method == "delete" and outcome.code == OK and call.target not in made:
                if call.target == INIT:
                    self._deletes += 1
                    # The execs are gone with the task: what a Wait for one of them answers is not known any more.
                    self._incarnation = {name: number + 1 for name, number in self._incarnation.items()}
                self._results[call.target, self._incarnation.get(call.target, 0)] = outcome.content[0]

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
            "create": lambda: client.create(rootfs=self._shims.rootfs()),
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
        self._shims.events.stop()
        self._shims.events.start()
        if ending == "crash":
            self._shim.kill_daemon()
        else:
            created = any(state.init is not None for state in self.states)
            if created:
                self._stop_task()
                if ending == "delete":
                    self._call([Call("delete")])
            self._clients[0].shutdown()
            self._shim.wait_exited()
            if created:
                self._check_events()
        for _ in range(2):  # containerd may repeat it
            self._shim.delete_command()
        self._expect_clean()

    def _stop_task(self) -> None:
        self._call([Call("kill", INIT, 9)])
        waited = self._clients[0].wait(timeout=120)
        for target, incarnation, waiting in self._waits:
            self._answered(target, incarnation, waiting.result(120))
        self._waits.clear()
        self._answered(INIT, 0, waited)

    def _check_events(self) -> None:
        """Each process has its events in order and once; the container's surround those of its execs."""
        task = self._shim.id
        last = "delete" if self._deletes else "exit"
        eventually(lambda: self._events().count(f"{last} {task}") >= max(self._deletes, 1), "the last event")
        received = self._events()
        mine = [entry.split()[0] for entry in received if entry.split()[1] == task]
        # Delete may be repeated, and each that succeeds is published.
        deletes = ["delete"] * self._deletes
        assert mine in (["create", "exit", *deletes], ["create", "start", "exit", *deletes]), received
        assert received[0] == f"create {task}", received
        exit_at = received.index(f"exit {task}")
        for target in {entry.split()[1] for entry in received} - {task}:
            kinds = " ".join(entry.split()[0] for entry in received if entry.split()[1] == target)
            for whole in ("exec-added exec-started exit delete", "exec-added exec-started exit", "exec-added delete"):
                kinds = kinds.replace(whole, "")
            assert not kinds.replace("exec-added", "").strip(), received
        execs_after = [entry for entry in received[exit_at + 1 :] if entry.split()[0] in ("exit", "exec-started")]
        assert not execs_after, received

    def _events(self) -> list[str]:
        from runhcs.task_events import TASKS, exec_of

        messages = self._shims.events.messages[self._mark :]
        return [
            f"{topic.removeprefix(TASKS)} {exec_of(event) or event.container_id}"
            for topic, event in messages
            if event.container_id == self._shim.id
        ]

    def _expect_clean(self) -> None:
        status = self._host.emulator.control
        eventually(lambda: status("status")["systems"] == [] and status("status")["handles"] == 0, "no system left")
        eventually(lambda: not self._host.emulator.descendants(), "no process left")
        assert not self._shims.mounts() and not self._host.emulator.mounts()
        assert not list((self._shims.directory / "s").glob("*"))
        assert not Ledger(str(self._shim.path)).entries()
        assert not self._shim.panic_log(), self._shim.panic_log()

    def clean_up(self) -> None:
        """Also after a failure: hypothesis runs more programs to find the shortest."""
        for client in self._clients:
            client.client.close()
        if self._shim.alive:
            self._shim.kill_daemon()
        self._shim.delete_command()
        self._shims.clients.clear()
        self._shims.shims.remove(self._shim)
        shutil.rmtree(self._shim.path, ignore_errors=True)


def _has_exited(state: Task, target: str, code: int) -> bool:
    process = state.process(target)
    return process is not None and process.status == STOPPED and process.exit_status == code


def command(program: int | None) -> tuple[str, ...]:
    return ("sleep", "600") if program is None else ("sh", "-c", f"exit {program}")


