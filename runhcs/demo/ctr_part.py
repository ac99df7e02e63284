"""The same with `ctr` on a real containerd: every command as a person would type it, and what it says."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from runhcs.demo import DemoError
from runhcs.demo.containerd import RUNTIME, Containerd
from runhcs.demo.process_part import EXIT_CODE
from runhcs.demo.screen import Screen
from runhcs.demo.workspace import HELLO, NAMESPACE, Workspace

EVENTS_TIMEOUT = 10.0
WAIT_TIMEOUT = 10.0
TASK_EVENTS = ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]
EXEC_EVENTS = ["/tasks/exec-added", "/tasks/exec-started", "/tasks/exit", "/tasks/delete"]


class Typist:
    """Types commands and keeps what came of them."""

    def __init__(self, containerd: Containerd, screen: Screen) -> None:
        self._containerd = containerd
        self._screen = screen
        self.commands: list[dict[str, Any]] = []

    def ctr(self, words: str, expected: int = 0, shown: Callable[[str], bool] = bool) -> str:
        """Everything it said. Of that the screen gets the lines that are `shown`."""
        self._screen.command(f"ctr {words}")
        try:
            done = self._containerd.ctr(*shlex.split(words))
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"ctr {words} has not ended after {error.timeout:.0f} s") from None
        output = done.stdout.decode(errors="replace")
        self._screen.output("\n".join(line for line in output.expandtabs().splitlines() if shown(line)))
        self.commands.append({"command": f"ctr {words}", "exit_code": done.returncode, "output": output})
        if done.returncode != expected:
            said = done.stderr.decode(errors="replace").strip()
            raise DemoError(
                f"`ctr {words}` ended with {done.returncode}, not {expected}: {said}\n{self._containerd.log()}"
            )
        if expected:
            self._screen.output(self._screen.paint(f"(exit code {done.returncode})", "dim"))
        return output

    def until(self, words: str, wanted: str) -> None:
        """What a person does by being slow: ask again until the answer has this in it."""
        deadline = time.monotonic() + WAIT_TIMEOUT
        while wanted not in (said := self._containerd.ctr(*shlex.split(words)).stdout.decode(errors="replace")):
            if time.monotonic() > deadline:
                raise DemoError(f"`ctr {words}` says {said!r}, and never {wanted}")
            time.sleep(0.05)


class EventLog:
    """`ctr events`, read as it speaks."""

    def __init__(self, containerd: Containerd) -> None:
        self._process = containerd.follow_events()
        self.seen: list[tuple[str, str]] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self._wait_until_it_hears(containerd)

    def _wait_until_it_hears(self, containerd: Containerd) -> None:
        """Until a change made for the purpose has come through."""
        deadline = time.monotonic() + EVENTS_TIMEOUT
        containerd.ctr("namespaces", "create", NAMESPACE)
        attempt = 0
        while not self.seen:
            attempt += 1
            containerd.ctr("namespaces", "label", NAMESPACE, f"listening={attempt}")
            if time.monotonic() > deadline:
                self.close()
                raise DemoError(f"`ctr events` hears nothing:\n{containerd.log()}")
            time.sleep(0.05)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            head, brace, body = line.decode(errors="replace").partition("{")
            try:
                event = json.loads(brace + body)
            except ValueError:
                continue
            topic = next((word for word in head.split() if word.startswith("/")), "")
            self.seen.append((topic, str(event.get("container_id") or event.get("id") or "")))

    def of(self, id: str) -> list[str]:
        return [topic for topic, about in list(self.seen) if about == id]

    def expect(self, id: str, wanted: list[str]) -> None:
        deadline = time.monotonic() + EVENTS_TIMEOUT
        while len(self._tasks(id)) < len(wanted) and time.monotonic() < deadline:
            time.sleep(0.02)
        if self._tasks(id) != wanted:
            raise DemoError(f"containerd reported {', '.join(self._tasks(id))} of {id}, not {', '.join(wanted)}")

    def _tasks(self, id: str) -> list[str]:
        return [topic for topic in self.of(id) if topic.startswith("/tasks/")]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._thread.join(5)
        if self._process.stdout is not None:
            self._process.stdout.close()


SPEC = """\
{{
  "ociVersion": "1.1.0",
  "hostname": {hostname},
  "process": {process},
  "root": {{"path": ""}},
  "windows": {{"layerFolders": [
    {base},
    {scratch}
  ]}}
}}
"""


def write_spec(workspace: Workspace, name: str, process: dict[str, Any]) -> str:
    """A whole Windows spec, with its layers: read-only ones first, the scratch, which may be missing, last."""
    values = {
        "hostname": name.upper(),
        "process": process | {"cwd": "C:\\"},
        "base": str(workspace.base),
        "scratch": str(workspace.directory / "scratch" / name),
    }
    text = SPEC.format(**{key: json.dumps(value) for key, value in values.items()})
    (workspace.directory / f"{name}.json").write_text(text)
    return text


def run_with_ctr(workspace: Workspace, screen: Screen) -> dict[str, Any]:
    containerd = Containerd(workspace)
    workspace.containerd = containerd
    version = containerd.wait_until_it_answers()
    screen.head(f"containerd {version}", "private: own root, state and socket; your own is not touched")
    screen.command(f"cd {workspace.directory}")
    screen.command(f"export CONTAINERD_ADDRESS=$PWD/c.sock CONTAINERD_NAMESPACE={NAMESPACE}")
    text = write_spec(workspace, "hello", {"args": ["cmd", "/c", f"ver & type C:\\hello.txt & exit {EXIT_CODE}"]})
    write_spec(workspace, "web", {"args": ["cmd", "/c", "ping -t localhost"]})
    write_spec(workspace, "shell", {"args": ["cmd"], "terminal": True})
    screen.command("cat hello.json")
    screen.output(text)
    typist = Typist(containerd, screen)
    events = EventLog(containerd)
    try:
        _type(typist)
        screen.command("ctr events" + screen.paint("   # ran meanwhile; in short:", "dim"))
        events.expect("hello", TASK_EVENTS)
        events.expect("web", [*TASK_EVENTS[:2], *EXEC_EVENTS, *TASK_EVENTS[2:]])
    finally:
        events.close()
    told = {name: events.of(name) for name in ("hello", "web")}
    for name, topics in told.items():
        tasks = [topic.removeprefix("/tasks/") for topic in topics if topic.startswith("/tasks/")]
        screen.output(f"/tasks/… of {name + ':':<6} {', '.join(tasks)}")
    screen.line()
    screen.paragraph(
        "For your own containerd, `runhcs install` puts the shim where it finds it; "
        "docs/tutorial/first-containers.md goes on from here. "
        "With --keep this one stays, for you to try things."
    )
    return {"containerd": version, "commands": typist.commands, "events": told}


def _type(typist: Typist) -> None:
    said = typist.ctr(f"run --rm --runtime {RUNTIME} --config hello.json hello", expected=EXIT_CODE)
    if HELLO not in said:
        raise DemoError(f"hello printed {said!r}, not what it was told to")
    typist.ctr(f"run -d --null-io --runtime {RUNTIME} --config web.json web")
    typist.ctr('task exec --exec-id look web cmd /c "whoami & hostname"')
    if "RUNNING" not in typist.ctr("task ls"):
        raise DemoError("web should be running")
    typist.ctr("task ps web")
    typist.ctr("task metrics web", shown=lambda line: bool(line) and line.split()[-1] != "0")
    typist.ctr("task kill -s SIGKILL web")
    typist.until("task ls", "STOPPED")
    typist.ctr("task delete web")
    typist.ctr("container delete web")
