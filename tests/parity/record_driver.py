"""The driver of our own recordings, run inside Wine: `python.exe record_driver.py SHIM WISH ANSWERS`.

It does what a wish's steps say, with the words of the recordings that there are, and writes down every answer.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from shim.api import task as api
from shim.api.types import Mount
from shim.ttrpc.status import ClosedError, StatusError
from tests.parity.answers import failure, plain
from tests.parity.requests import UPDATE_TYPES, options
from tests.wine.driver import Events, Pipe, Shim

HELD_SECONDS = 0.5
SETTLE_SECONDS = 0.5


class Recorded(Shim):
    def write_spec(self, directory: str, command: str, members: dict[str, Any]) -> None:
        with open(os.path.join(self.bundle, "config.json"), "w") as file:
            json.dump(members["spec"], file)


class Driver:
    def __init__(self, program: str, wish: dict[str, Any]) -> None:
        self.wish = wish
        self.results: list[dict[str, Any]] = []
        self.pipes: list[Pipe] = []
        self.events = Events(wish["id"])
        self.shim = Recorded(program, "C:\\bundles", wish["id"], "", self.events, spec=wish["spec"])

    def note(self, operation: str, ask: Callable[[], Any]) -> bool:
        try:
            answer = ask()
        except (StatusError, ClosedError) as error:
            told = failure(error)
            text = f"rpc error: code = {told['code']} desc = {told['text']}" if "code" in told else told["error"]
            self.results.append({"op": operation, "error": text})
            return False
        self.results.append({"op": operation, "result": json.dumps(answer or {})})
        return True

    def run(self) -> list[dict[str, Any]]:
        try:
            self.task = self.shim.start()
        except AssertionError:
            return [{"op": "start", "error": "exit status 1"}]
        self.results += [{"op": "start", "result": self.shim.address}, {"op": "dial"}]
        self.note("Connect", lambda: plain(self.task.connect()))
        for step in self.wish["steps"][2:]:
            name, _, argument = step.partition(":")
            if not getattr(self, f"do_{name}")(argument):
                break
        return self.results

    def streams(self, name: str, terminal: bool) -> dict[str, Any]:
        fields: dict[str, Any] = {"terminal": terminal}
        for stream in ("stdout",) if terminal else ("stdout", "stderr"):
            pipe = Pipe(f"containerd-{self.wish['id']}-{name}-{stream}")
            self.pipes.append(pipe)
            fields[stream] = pipe.path
        return fields

    def do_create(self, _: str) -> bool:
        fields = self.streams("init", bool(self.wish["spec"].get("process", {}).get("terminal")))
        rootfs = [Mount(**mount) for mount in self.wish["rootfs"] or []]
        given = options(self.wish.get("options"))
        if self.note("Create", lambda: plain(self.task.create(rootfs=rootfs, options=given, **fields))):
            return True
        time.sleep(HELD_SECONDS)
        held = any(not pipe._ended.is_set() for pipe in self.pipes)
        self.results.append({"op": "after-failed-create", "result": "stdio pipes still held by shim" if held else ""})
        self.do_state("")
        self.do_shutdown("")
        return False

    def do_state(self, exec_id: str) -> bool:
        self.note("State", lambda: plain(self.task.state(exec_id)))
        return True

    def do_run(self, exec_id: str) -> bool:
        self.note("Start", lambda: plain(api.StartResponse(pid=self.task.start(exec_id))))
        return True

    def do_wait(self, exec_id: str) -> bool:
        self.note(f"Wait({exec_id})", lambda: plain(self.task.wait(exec_id)))
        return True

    def do_delete(self, exec_id: str) -> bool:
        self.note(f"Delete({exec_id})", lambda: plain(self.task.delete(exec_id)))
        return True

    def do_kill(self, argument: str) -> bool:
        exec_id, signal, *everybody = argument.split(",")
        ask = self.task.kill
        self.note(f'Kill("{exec_id}",{signal})', lambda: ask(int(signal), exec_id, all=bool(everybody)))
        return True

    def do_exec(self, exec_id: str) -> bool:
        process = self.wish["execs"][exec_id]
        fields = self.streams(exec_id, bool(process.get("terminal")))
        self.note(f"Exec({exec_id})", lambda: self.task.exec(exec_id, process, **fields))
        return True

    def do_update(self, which: str) -> bool:
        update = self.wish["updates"][int(which or 0)]
        kind = UPDATE_TYPES[update.get("type", "WindowsResources")]
        self.note("Update", lambda: self.task.update(update["resources"], kind))
        return True

    def do_resize(self, exec_id: str) -> bool:
        self.note("ResizePty", lambda: self.task.resize(120, 40, exec_id))
        return True

    def do_sleep(self, milliseconds: str) -> bool:
        time.sleep(int(milliseconds) / 1000)
        return True

    def do_shutdown(self, _: str) -> bool:
        self.note("Shutdown", lambda: self.task.shutdown())
        self.shim.gone()
        return True

    def do_events(self, _: str) -> bool:
        time.sleep(SETTLE_SECONDS)
        self.results.append({"op": "events", "result": " | ".join(f"wine {topic} -" for topic in self.events.topics)})
        return True


if __name__ == "__main__":
    program, wish, answers = sys.argv[1:]
    with open(wish) as file:
        driver = Driver(program, json.load(file))
    found = driver.run()
    with open(answers, "w") as file:
        json.dump(found, file)
