"""Part 1: process-isolated containers, without containerd."""

from __future__ import annotations

from typing import Any

from runhcs.demo import DemoError
from runhcs.demo.calls import cells, summarise
from runhcs.demo.events import Events, status_text
from runhcs.demo.record import CALL, Record
from runhcs.demo.screen import Screen
from runhcs.demo.shim import Shim
from runhcs.demo.specs import layer_mount, windows_spec
from runhcs.demo.workspace import HELLO, Workspace
from shim.api import runhcs_stats
from shim.api import task as api
from shim.api.wellknown import Empty

EXIT_CODE = 3
SIGTERM = 15


def run_and_exit(workspace: Workspace, events: Events, screen: Screen) -> dict[str, Any]:
    """A container from its first moment to its last."""
    record = Record(screen)
    events.show_in(record)
    command = f"ver & type C:\\hello.txt & exit {EXIT_CODE}"
    screen.head("hello", f'runs cmd /c "{command}"')
    shim = Shim(workspace, record, "hello", windows_spec("cmd", "/c", command, hostname="HELLO"))
    try:
        shim.launch()
        shim.create(layer_mount(workspace, "hello"))
        record.note(CALL, "State", shim.state())
        shim.run_to_its_end()
        record.note(CALL, "State", shim.state())
        status = shim.delete()
        events.expect(["create", "start", "exit", "delete"])
    finally:
        shim.abandon()
    if status != EXIT_CODE or HELLO not in shim.text:
        raise DemoError(f"the container ended with {status} and printed {shim.text!r}: not what it was told to")
    screen.head("timeline", "of hello, as containerd sees it")
    screen.timeline(record.phases)
    calls = summarise(workspace.journal.new_calls())
    count = sum(entry["count"] for entry in calls)
    screen.head("HCS calls", f"{count} for this container, from the emulator's journal")
    screen.columns(cells(calls))
    return {"id": "hello", "exit_status": status, "output": shim.text, "calls": calls} | record.as_data()


def look_into(workspace: Workspace, events: Events, screen: Screen) -> dict[str, Any]:
    """A container that runs until it is killed, and what can be done to it meanwhile."""
    record = Record(screen)
    events.show_in(record)
    screen.head("web", "runs until it is killed; a second process looks around in it")
    shim = Shim(workspace, record, "web", windows_spec("cmd", "/c", "ping -t localhost > nul", hostname="WEB"))
    try:
        shim.launch()
        shim.create(layer_mount(workspace, "web"))
        shim.start()
        record.note(CALL, "State", shim.state())
        exec_status = shim.exec("look", "cmd", "/c", "echo %USERNAME% on %COMPUTERNAME% & exit 7")
        pids = [process.pid for process in shim.call("Pids", api.PidsRequest(id="web"), api.PidsResponse).processes]
        record.note(CALL, "Pids", ", ".join(map(str, pids)))
        record.note(CALL, "Stats", _stats(shim))
        shim.call("Kill", api.KillRequest(id="web", signal=SIGTERM), Empty)
        record.note(CALL, "Kill", "SIGTERM, which Windows knows as Ctrl-Shutdown")
        status = shim.wait()
        record.note(CALL, "Wait", f"exit status {status_text(status)}", exit_status=status)
        shim.delete()
        execs = ["exec-added", "exec-started", "exit", "delete"]
        events.expect(["create", "start", *execs, "exit", "delete"])
    finally:
        shim.abandon()
    calls = summarise(workspace.journal.new_calls())
    return {
        "id": "web", "exit_status": status, "exec_exit_status": exec_status, "pids": pids, "calls": calls
    } | record.as_data()  # fmt: skip


def _stats(shim: Shim) -> str:
    packed = shim.call("Stats", api.StatsRequest(id=shim.id), api.StatsResponse).stats
    if packed is None or not packed.type_url.endswith(runhcs_stats.Statistics.FULL_NAME):
        return packed.type_url if packed is not None else "none"
    windows = runhcs_stats.Statistics.decode(packed.value).windows
    if windows is None or windows.memory is None or windows.processor is None:
        return "no figures"
    memory = windows.memory.memory_usage_commit_bytes / (1 << 20)
    processor = windows.processor.total_runtime_ns / 1e6
    return f"memory {memory:.1f} MiB, processor {processor:.1f} ms, up {windows.uptime_ns / 1e9:.2f} s"
