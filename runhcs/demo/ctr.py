"""Part 5: the same with `ctr` on a real containerd, which is private: the containerd of the machine is not touched.

Every command is shown as a user would type it, with its output.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runhcs.demo import DemoError
from runhcs.demo.containers import EXIT_CODE
from runhcs.demo.output import Screen
from runhcs.demo.workspace import HELLO, NAMESPACE, Workspace, run_command

RUNTIME = "io.containerd.runhcs.v1"
START_TIMEOUT = 60.0
STOP_TIMEOUT = 20.0
COMMAND_TIMEOUT = 60.0
EVENTS_TIMEOUT = 10.0
WAIT_TIMEOUT = 10.0
TASK_EVENTS = ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]
EXEC_EVENTS = ["/tasks/exec-added", "/tasks/exec-started", "/tasks/exit", "/tasks/delete"]
# Plugins that access other places of the machine, or that no container of the demo needs. Names of 1.x and of 2.x.
_DISABLED = [
    "io.containerd.cri.v1.images",
    "io.containerd.cri.v1.runtime",
    "io.containerd.grpc.v1.cri",
    "io.containerd.internal.v1.opt",
    "io.containerd.internal.v1.tracing",
    "io.containerd.nri.v1.nri",
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.erofs",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.tracing.processor.v1.otlp",
]


def is_installed() -> bool:
    return shutil.which("containerd") is not None and shutil.which("ctr") is not None


class Containerd:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.address = workspace.directory / "c.sock"
        self.state = workspace.directory / "state"
        self._log = workspace.directory / "containerd.log"
        # The launcher is first in the path, so that this containerd runs this shim.
        self.env = workspace.env | {
            "PATH": f"{workspace.directory / 'bin'}:{os.environ.get('PATH', os.defpath)}",
            "CONTAINERD_ADDRESS": str(self.address),
            "CONTAINERD_NAMESPACE": NAMESPACE,
        }
        config = workspace.directory / "containerd.toml"
        config.write_text(
            f'version = 2\nroot = "{workspace.directory / "root"}"\nstate = "{self.state}"\n'
            f"disabled_plugins = {_DISABLED}\n"
            f'[grpc]\naddress = "{self.address}"\n[debug]\naddress = "{workspace.directory / "debug.sock"}"\n'
        )
        with self._log.open("wb") as log:
            self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
                ["containerd", "--config", str(config)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, cwd=workspace.directory,
                start_new_session=True,
            )  # fmt: skip

    def wait_until_ready(self) -> str:
        """Wait until it answers; returns its version."""
        deadline = time.monotonic() + START_TIMEOUT
        while self._process is not None and self._process.poll() is None and time.monotonic() < deadline:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(self.address)) == 0:
                    done = self.ctr("version")
                    if done.returncode == 0:
                        server = done.stdout.decode().partition("Server:")[2]
                        return server.partition("Version:")[2].split()[0]
            time.sleep(0.02)
        raise DemoError(f"containerd did not start:\n{self.log()}")

    def ctr(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return run_command(
            ["ctr", *arguments], cwd=self._workspace.directory, env=self.env, timeout=COMMAND_TIMEOUT
        )

    def follow_events(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["ctr", "events"], env=self.env, cwd=self._workspace.directory, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def log(self, lines: int = 10) -> str:
        try:
            return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"

    def tasks(self) -> list[Path]:
        """The bundles of all tasks."""
        return list(self.state.glob("io.containerd.runtime.v2.task/*/*"))

    def remove_containers(self) -> None:
        """Remove containers that a user created during --keep."""
        for namespace in self._words("namespaces", "ls", "-q"):
            for task in self._words("-n", namespace, "task", "ls", "-q"):
                self._words("-n", namespace, "task", "delete", "-f", task)
            for container in self._words("-n", namespace, "container", "ls", "-q"):
                self._words("-n", namespace, "container", "delete", container)

    def _words(self, *arguments: str) -> list[str]:
        try:
            return self.ctr(*arguments).stdout.decode().split()
        except (OSError, subprocess.SubprocessError):
            return []

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            self.remove_containers()
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for path in (self.address, Path(f"{self.address}.ttrpc"), self._workspace.directory / "debug.sock"):
            path.unlink(missing_ok=True)  # some versions do not remove their sockets


class Ctr:
    """Runs ctr, shows each command with its output, and records both."""

    def __init__(self, containerd: Containerd, screen: Screen) -> None:
        self._containerd = containerd
        self._screen = screen
        self.commands: list[dict[str, Any]] = []

    def run(self, words: str, expected: int = 0, shown: Callable[[str], bool] = bool) -> str:
        """The whole output; only lines for which `shown` is true are shown."""
        self._screen.command(f"ctr {words}")
        try:
            done = self._containerd.ctr(*shlex.split(words))
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"`ctr {words}` timed out after {error.timeout:.0f} s") from None
        output = done.stdout.decode(errors="replace")
        self._screen.output("\n".join(line for line in output.expandtabs().splitlines() if shown(line)))
        self.commands.append({"command": f"ctr {words}", "exit_code": done.returncode, "output": output})
        if done.returncode != expected:
            message = done.stderr.decode(errors="replace").strip()
            raise DemoError(
                f"`ctr {words}` exited with {done.returncode}, not {expected}: {message}\n{self._containerd.log()}"
            )
        if expected:
            self._screen.output(f"(exit code {done.returncode})", "dim")
        return output

    def wait_for(self, words: str, expected: str) -> None:
        """Repeat a command, without showing it, until its output contains this."""
        deadline = time.monotonic() + WAIT_TIMEOUT
        while expected not in (output := self._containerd.ctr(*shlex.split(words)).stdout.decode(errors="replace")):
            if time.monotonic() > deadline:
                raise DemoError(f"`ctr {words}` printed {output!r}, not {expected}")
            time.sleep(0.05)


class EventLog:
    """Reads `ctr events`."""

    def __init__(self, containerd: Containerd) -> None:
        self._process = containerd.follow_events()
        self.seen: list[tuple[str, str]] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self._wait_until_subscribed(containerd)

    def _wait_until_subscribed(self, containerd: Containerd) -> None:
        """Change a label until the event of the change arrives."""
        deadline = time.monotonic() + EVENTS_TIMEOUT
        containerd.ctr("namespaces", "create", NAMESPACE)
        attempt = 0
        while not self.seen:
            attempt += 1
            containerd.ctr("namespaces", "label", NAMESPACE, f"attempt={attempt}")
            if time.monotonic() > deadline:
                self.close()
                raise DemoError(f"`ctr events` receives no events:\n{containerd.log()}")
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

    def expect(self, id: str, expected: list[str]) -> None:
        deadline = time.monotonic() + EVENTS_TIMEOUT
        while len(self._tasks(id)) < len(expected) and time.monotonic() < deadline:
            time.sleep(0.02)
        if self._tasks(id) != expected:
            raise DemoError(f"containerd reported {', '.join(self._tasks(id))} of {id}, not {', '.join(expected)}")

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
    """A complete Windows spec. Its layers are the read-only ones, then the scratch layer, which need not exist."""
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
    version = containerd.wait_until_ready()
    screen.head(f"containerd {version}", "private: own root, state and socket")
    screen.command(f"cd {workspace.directory}")
    screen.command(f"export CONTAINERD_ADDRESS=$PWD/c.sock CONTAINERD_NAMESPACE={NAMESPACE}")
    text = write_spec(workspace, "hello", {"args": ["cmd", "/c", f"ver & type C:\\hello.txt & exit {EXIT_CODE}"]})
    write_spec(workspace, "web", {"args": ["cmd", "/c", "ping -t localhost"]})
    write_spec(workspace, "shell", {"args": ["cmd"], "terminal": True})
    screen.command("cat hello.json")
    screen.output(text)
    ctr = Ctr(containerd, screen)
    events = EventLog(containerd)
    try:
        _run_commands(ctr)
        screen.command("ctr events", "   # in the background; in short:")
        events.expect("hello", TASK_EVENTS)
        events.expect("web", [*TASK_EVENTS[:2], *EXEC_EVENTS, *TASK_EVENTS[2:]])
    finally:
        events.close()
    topics_of = {name: events.of(name) for name in ("hello", "web")}
    for name, topics in topics_of.items():
        tasks = [topic.removeprefix("/tasks/") for topic in topics if topic.startswith("/tasks/")]
        screen.output(f"/tasks/… of {name + ':':<6} {', '.join(tasks)}")
    screen.line()
    screen.paragraph(
        "For another containerd, `runhcs install` installs the shim where it finds it; "
        "docs/tutorial/first-containers.md continues from here. "
        "With --keep this one stays until Ctrl-C."
    )
    return {"containerd": version, "commands": ctr.commands, "events": topics_of}


def _run_commands(ctr: Ctr) -> None:
    output = ctr.run(f"run --rm --runtime {RUNTIME} --config hello.json hello", expected=EXIT_CODE)
    if HELLO not in output:
        raise DemoError(f"hello printed {output!r}, which its command does not do")
    ctr.run(f"run -d --null-io --runtime {RUNTIME} --config web.json web")
    ctr.run('task exec --exec-id look web cmd /c "whoami & hostname"')
    if "RUNNING" not in ctr.run("task ls"):
        raise DemoError("web is not running")
    ctr.run("task ps web")
    ctr.run("task metrics web", shown=lambda line: bool(line) and line.split()[-1] != "0")
    ctr.run("task kill -s SIGKILL web")
    ctr.wait_for("task ls", "STOPPED")
    ctr.run("task delete web")
    ctr.run("container delete web")
