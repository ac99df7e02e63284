"""The driver of `tests.parity.record`, run under Wine: `python.exe record_driver.py SHIM`.

Each line of its stdin is a request with a scenario, the name of its group, and the file for its results. It performs
the steps of the scenario, writes every response to the file in the format of the other recordings, and prints
`recorded <file>`. Scenarios of one pod have the same group, and use the same shims.
"""

from __future__ import annotations

import copy
import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import _winapi

from runhcs.shim_driver import ShimError, wait_until
from runhcs.task_client import TaskClient
from shim.api import task as api
from shim.api.types import Mount
from shim.platform.windows import endpoint
from shim.ttrpc.status import ClosedError, StatusError
from tests.parity.answers import EVENT_CONTENTS, event_contents, failure, process_details, stats_text, to_json
from tests.parity.requests import DONE, EXEC, INPUT, PAIR, SIZE, UPDATE, UPDATE_TYPES, options
from tests.wine.driver import Events, Pipe, Shim

HELD_SECONDS = 0.5
EXIT_MILLISECONDS = 60_000
SYNCHRONIZE = 0x100000
SETTLE_SECONDS = 0.5
CLOSE_SECONDS = 5.0
# When the stacks of a scenario that takes so long are printed; then `DriverProcess` gives up.
STUCK_SECONDS = 200.0


class Recorded(Shim):
    def write_spec(self, directory: str, command: str, members: dict[str, Any]) -> None:
        with open(os.path.join(self.bundle, "config.json"), "w") as file:
            json.dump(members["spec"], file)


class ShimProcess:
    """The process of a shim. Its pipe disappears earlier: it sends its last events after that."""

    def __init__(self, task: TaskClient) -> None:
        try:
            self.pid = task.connect().shim_pid
            self._handle = _winapi.OpenProcess(SYNCHRONIZE, False, self.pid)
        except (StatusError, ClosedError, OSError):
            self.pid = self._handle = 0  # it has exited

    def wait_exited(self) -> None:
        if self._handle:
            _winapi.WaitForSingleObject(self._handle, EXIT_MILLISECONDS)
            _winapi.CloseHandle(self._handle)


class Machine:
    """The shims, tasks and events of the scenarios of one group."""

    def __init__(self, program: str, group: str) -> None:
        self.program = program
        self.group = group
        self.events = Events(group)
        self.shims: dict[str, Recorded] = {}
        self.tasks: dict[str, TaskClient] = {}
        self.clients: list[TaskClient] = []

    def add_client(self, id: str, client: TaskClient) -> None:
        self.tasks[id] = client
        self.clients.append(client)

    def disconnect(self) -> None:
        """As containerd does after Shutdown. Our shim waits a moment for it."""
        for client in self.clients:
            client.client.close()
        self.clients.clear()

    def restart(self, outage: float) -> None:
        """containerd crashes, and is back after so many seconds."""
        self.disconnect()
        self.events.restart(outage)
        for task in self.tasks:
            shim = self.shims[task]
            with suppress(OSError):  # the shim has crashed: calls of the closed client fail
                self.add_client(task, TaskClient(shim.connect(), task, shim.bundle))

    def expect_last_events(self) -> None:
        """After the exit of a shim: its connection has been read to its end. While one runs: no event for a while."""
        if all(not endpoint.exists(shim.address) for shim in self.shims.values()):
            wait_until(lambda: not self.events.is_connected, CLOSE_SECONDS)
            return
        count = -1
        while count != len(self.events.topics):
            count = len(self.events.topics)
            time.sleep(SETTLE_SECONDS)

    def close(self) -> None:
        self.disconnect()
        self.events.close()


class Driver:
    def __init__(self, machine: Machine, scenario: dict[str, Any]) -> None:
        self.machine = machine
        self.scenario = scenario
        self.id = scenario["id"]
        self.results: list[dict[str, Any]] = []
        self.pipes: dict[str, Pipe] = {}
        self.seen = len(machine.events.topics)
        #: Of a driver that is one of two clients.
        self.own_task: Any = None

    @property
    def task(self) -> Any:
        return self.own_task or self.machine.tasks[self.id]

    def record_result(self, operation: str, call: Callable[[], Any]) -> bool:
        try:
            answer = call()
        except (StatusError, ClosedError) as error:
            why = failure(error)
            text = f"rpc error: code = {why['code']} desc = {why['text']}" if "code" in why else why["error"]
            self.results.append({"op": operation, "error": text})
            return False
        text = answer if isinstance(answer, str) else json.dumps(answer or {})
        self.results.append({"op": operation, "result": text})
        return True

    def run(self) -> list[dict[str, Any]]:
        for step in self.scenario["steps"]:
            name, _, argument = step.partition(":")
            if not getattr(self, f"do_{name}")(argument):
                break
        return self.results

    def do_start(self, _: str) -> bool:
        spec = self.scenario["spec"]
        shim = Recorded(self.machine.program, "C:\\bundles", self.id, "", self.machine.events, spec=spec)
        shim.environment |= self.scenario.get("environment") or {}
        try:
            self.machine.add_client(self.id, shim.start())
        except ShimError:
            self.results.append({"op": "start", "error": "exit status 1"})
            return False
        self.machine.shims[self.id] = shim
        self.results += [{"op": "start", "result": shim.address}]
        return True

    def do_client(self, _: str) -> bool:
        """The next calls are those of another client."""
        self.machine.add_client(self.id, self.connect())
        return True

    def connect(self) -> TaskClient:
        shim = self.machine.shims[self.id]
        return TaskClient(shim.connect(), self.id, shim.bundle)

    def do_restart(self, _: str) -> bool:
        """containerd crashes and is restarted."""
        self.machine.restart(0.0)
        return True

    def do_outage(self, milliseconds: str) -> bool:
        """containerd crashes, and is restarted some time later."""
        self.machine.restart(int(milliseconds) / 1000)
        return True

    def do_both(self, step: str) -> bool:
        """The same call of two clients at the same time. The one that succeeds is recorded first, then by code."""
        self.results += sorted(self._at_the_same_time(step, step), key=lambda one: str(one.get("error", "")))
        return True

    def do_pair(self, steps: str) -> bool:
        """Two calls of two clients at the same time."""
        self.results += self._at_the_same_time(*steps.split(PAIR))
        return True

    def _at_the_same_time(self, *steps: str) -> list[dict[str, Any]]:
        """The results, in the order of the steps."""
        drivers = [copy.copy(self) for _ in steps]
        threads = []
        for driver, step in zip(drivers, steps, strict=True):
            driver.results = []
            driver.own_task = self.connect()
            self.machine.clients.append(driver.own_task)
            name, _, argument = step.partition(":")
            threads.append(threading.Thread(target=getattr(driver, f"do_{name}"), args=(argument,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        return [one for driver in drivers for one in driver.results]

    def do_killshim(self, _: str) -> bool:
        """The shim is terminated, and with it its connections."""
        shim = ShimProcess(self.task)
        os.kill(shim.pid, signal.SIGTERM)
        shim.wait_exited()
        return True

    def do_attach(self, _: str) -> bool:
        self.results.append({"op": "dial"})
        return True

    def do_connect(self, _: str) -> bool:
        if "attach" not in self.scenario["steps"]:
            self.results.append({"op": "dial"})
        self.record_result("Connect", lambda: to_json(self.task.connect()))
        return True

    def do_ls(self, _: str) -> bool:
        bundle = self.machine.shims[self.id].bundle
        self.results.append({"op": "bundle", "result": " ".join(f'{name}=""' for name in sorted(os.listdir(bundle)))})
        return True

    def streams(self, name: str, terminal: bool) -> dict[str, Any]:
        fields: dict[str, Any] = {"terminal": terminal}
        names = ["stdout"] if terminal else ["stdout", "stderr"]
        written = ("stdin", "" if name == "init" else name)
        if any(step.partition(":")[::2] == written for step in self.scenario["steps"]):
            names.append("stdin")
        for stream in names:
            full = f"{name}-{stream}"
            while full in self.pipes:  # a repeated exec
                full += "-again"
            self.pipes[full] = Pipe(f"containerd-{self.id}-{full}")
            fields[stream] = self.pipes[full].path
        return fields

    def do_create(self, _: str) -> bool:
        fields = self.streams("init", bool((self.scenario["spec"].get("process") or {}).get("terminal")))
        rootfs = [Mount(**mount) for mount in self.scenario["rootfs"] or []]
        given = options(self.scenario.get("options"))
        if self.record_result("Create", lambda: to_json(self.task.create(rootfs=rootfs, options=given, **fields))):
            return True
        held = not wait_until(lambda: all(pipe.is_closed for pipe in self.pipes.values()), HELD_SECONDS)
        self.results.append({"op": "after-failed-create", "result": "stdio pipes still held by shim" if held else ""})
        self.do_state("")
        self.do_shutdown("")
        return False

    def do_state(self, exec_id: str) -> bool:
        self.record_result("State", lambda: to_json(self.task.state(exec_id)))
        return True

    def do_run(self, exec_id: str) -> bool:
        self.record_result("Start", lambda: to_json(api.StartResponse(pid=self.task.start(exec_id))))
        return True

    def do_wait(self, exec_id: str) -> bool:
        self.record_result(f"Wait({exec_id})", lambda: to_json(self.task.wait(exec_id)))
        return True

    def do_delete(self, exec_id: str) -> bool:
        self.record_result(f"Delete({exec_id})", lambda: to_json(self.task.delete(exec_id)))
        return True

    def do_kill(self, argument: str) -> bool:
        exec_id, signal, *all_processes = argument.split(",")
        kill = self.task.kill
        self.record_result(f'Kill("{exec_id}",{signal})', lambda: kill(int(signal), exec_id, all=bool(all_processes)))
        return True

    def do_exec(self, exec_id: str) -> bool:
        process = (self.scenario.get("execs") or {}).get(exec_id, EXEC)
        fields = self.streams(exec_id, bool(process.get("terminal")))
        self.record_result(f"Exec({exec_id})", lambda: self.task.exec(exec_id, process, **fields))
        return True

    def do_update(self, which: str) -> bool:
        update = (self.scenario.get("updates") or [{"resources": UPDATE}])[int(which or 0)]
        kind = UPDATE_TYPES[update.get("type", "WindowsResources")]
        self.record_result("Update", lambda: self.task.update(update["resources"], kind, update.get("annotations")))
        return True

    def do_resize(self, exec_id: str) -> bool:
        self.record_result("ResizePty", lambda: self.task.resize(*SIZE, exec_id))
        return True

    def do_pids(self, _: str) -> bool:
        self.record_result("Pids", lambda: process_details(self.task.pids()))
        return True

    def do_stats(self, _: str) -> bool:
        self.record_result("Stats", lambda: stats_text(self.task.stats()))
        return True

    def do_pause(self, _: str) -> bool:
        self.record_result("Pause", self.task.pause)
        return True

    def do_resume(self, _: str) -> bool:
        self.record_result("Resume", self.task.resume)
        return True

    def do_checkpoint(self, _: str) -> bool:
        self.record_result("Checkpoint", self.task.checkpoint)
        return True

    def do_stdin(self, exec_id: str) -> bool:
        with suppress(OSError):  # after a CloseIO
            self.pipes[f"{exec_id or 'init'}-stdin"].write(INPUT)
        return True

    def do_closeio(self, exec_id: str) -> bool:
        self.record_result("CloseIO", lambda: self.task.close_io(exec_id))
        return True

    def do_io(self, exec_id: str) -> bool:
        read = {
            stream: self.pipes[name].text() if (name := f"{exec_id or 'init'}-{stream}") in self.pipes else ""
            for stream in ("stdout", "stderr")
        }
        text = " ".join(f"{stream}={json.dumps(text)}" for stream, text in read.items())
        self.results.append({"op": f"io({exec_id})", "result": text})
        return True

    def do_ready(self, exec_id: str) -> bool:
        deadline = time.monotonic() + 60
        while not self.pipes[f"{exec_id or 'init'}-stdout"].data and time.monotonic() < deadline:
            time.sleep(0.01)
        return True

    def do_sleep(self, milliseconds: str) -> bool:
        time.sleep(int(milliseconds) / 1000)
        return True

    def do_shutdown(self, _: str) -> bool:
        """A member of a pod requests it, too, and its shim keeps running."""
        exits = self.machine.shims[self.id].address.endswith(f"-{self.id}-pipe")
        shim = ShimProcess(self.task) if exits else None
        self.record_result("Shutdown", lambda: self.task.shutdown())
        if shim is not None:
            self.machine.disconnect()
            shim.wait_exited()
        return True

    def do_deletecmd(self, _: str) -> bool:
        answer = api.DeleteResponse.decode(self.machine.shims[self.id].delete())
        self.results.append({"op": "delete-cmd", "result": f"stdout={json.dumps(to_json(answer))} stderr="})
        return True

    def do_events(self, _: str) -> bool:
        self.machine.expect_last_events()
        topics = self.machine.events.topics[self.seen :]
        self.results.append({"op": "events", "result": " | ".join(f"wine {topic} -" for topic in topics)})
        mine = event_contents(self.id, self.machine.events.messages[self.seen :])
        self.results.append({"op": EVENT_CONTENTS, "result": json.dumps(mine)})
        return True


def main(program: str) -> None:
    machine: Machine | None = None
    for line in sys.stdin:
        request = json.loads(line)
        faulthandler.dump_traceback_later(STUCK_SECONDS)
        if machine is None or machine.group != request["group"]:
            if machine is not None:
                machine.close()
            machine = Machine(program, request["group"])
        results = Driver(machine, request["scenario"]).run()
        faulthandler.cancel_dump_traceback_later()
        with open(request["results"], "w") as file:
            json.dump(results, file)
        print(DONE, request["results"], flush=True)
    os._exit(0)  # do not wait for threads of pipes that were not closed


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # threads of pipes that were not closed would keep it alive
