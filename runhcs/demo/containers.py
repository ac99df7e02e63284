"""Parts 1 to 4: containers and pods, with the shim driven as containerd drives it."""

from __future__ import annotations

from typing import Any

from runhcs.demo import DemoError
from runhcs.demo.containerd_stub import (
    EventsEndpoint,
    isolated_spec,
    layer_mount,
    status_text,
    vm_options,
    windows_spec,
)
from runhcs.demo.output import CALL, Record, Screen
from runhcs.demo.shim_client import Shim
from runhcs.demo.workspace import HELLO, Workspace, summarize_calls
from shim.api import runhcs_stats
from shim.api import task as api
from shim.api.wellknown import Empty

EXIT_CODE = 3
VM_EXIT_CODE = 5
MEGABYTES = 2048
PROCESSORS = 2
SIGKILL, SIGTERM = 9, 15
GUEST = "guest:"  # the prefix of messages to the guest in the journal


# Process isolation.


def run_until_exit(workspace: Workspace, events: EventsEndpoint, screen: Screen) -> dict[str, Any]:
    """The whole lifecycle of a container."""
    record = Record(screen)
    events.record_in(record)
    command = f"ver & type C:\\hello.txt & exit {EXIT_CODE}"
    screen.head("hello", f'runs cmd /c "{command}"')
    shim = Shim(workspace, record, "hello", windows_spec("cmd", "/c", command, hostname="HELLO"))
    try:
        shim.launch()
        shim.create(layer_mount(workspace, "hello"))
        record.add(CALL, "State", shim.state())
        shim.run_until_exit()
        record.add(CALL, "State", shim.state())
        status = shim.delete()
        events.expect(["create", "start", "exit", "delete"])
    finally:
        shim.kill()
    if status != EXIT_CODE or HELLO not in shim.text:
        raise DemoError(f"the container exited with {status} and printed {shim.text!r}, which its command does not do")
    screen.head("timeline", "of hello, as containerd sees it")
    screen.timeline(record.phases)
    calls = summarize_calls(workspace.journal.new_calls())
    count = sum(entry["count"] for entry in calls)
    screen.head("HCS calls", f"{count} for this container, from the emulator's journal")
    screen.columns([_call_text(entry) for entry in calls])
    return {"id": "hello", "exit_status": status, "output": shim.text, "calls": calls} | record.as_data()


def run_exec_and_kill(workspace: Workspace, events: EventsEndpoint, screen: Screen) -> dict[str, Any]:
    """A container that runs until it is killed: exec, pids, stats, kill."""
    record = Record(screen)
    events.record_in(record)
    screen.head("web", "runs until it is killed; an exec prints its user and host name")
    shim = Shim(workspace, record, "web", windows_spec("cmd", "/c", "ping -t localhost > nul", hostname="WEB"))
    try:
        shim.launch()
        shim.create(layer_mount(workspace, "web"))
        shim.start()
        record.add(CALL, "State", shim.state())
        exec_status = shim.exec("look", "cmd", "/c", "echo %USERNAME% on %COMPUTERNAME% & exit 7")
        pids = [process.pid for process in shim.call("Pids", api.PidsRequest(id="web"), api.PidsResponse).processes]
        record.add(CALL, "Pids", ", ".join(map(str, pids)))
        record.add(CALL, "Stats", _stats(shim))
        shim.call("Kill", api.KillRequest(id="web", signal=SIGTERM), Empty)
        record.add(CALL, "Kill", "SIGTERM, which is CTRL_SHUTDOWN_EVENT on Windows")
        status = shim.wait()
        record.add(CALL, "Wait", f"exit status {status_text(status)}", exit_status=status)
        shim.delete()
        execs = ["exec-added", "exec-started", "exit", "delete"]
        events.expect(["create", "start", *execs, "exit", "delete"])
    finally:
        shim.kill()
    calls = summarize_calls(workspace.journal.new_calls())
    return {
        "id": "web", "exit_status": status, "exec_exit_status": exec_status, "pids": pids, "calls": calls
    } | record.as_data()  # fmt: skip


def _call_text(entry: dict[str, Any]) -> str:
    times = f"{entry['count']} x" if entry["count"] > 1 else ""
    failure = f"  {entry['failed'][0]}" if entry["failed"] else ""
    return f"{times:>4} {entry['call']:<29} {entry['ms']:6.1f} ms{failure}"


def _stats(shim: Shim) -> str:
    packed = shim.call("Stats", api.StatsRequest(id=shim.id), api.StatsResponse).stats
    if packed is None or not packed.type_url.endswith(runhcs_stats.Statistics.FULL_NAME):
        return packed.type_url if packed is not None else "none"
    windows = runhcs_stats.Statistics.decode(packed.value).windows
    if windows is None or windows.memory is None or windows.processor is None:
        return "none"
    memory = windows.memory.memory_usage_commit_bytes / (1 << 20)
    processor = windows.processor.total_runtime_ns / 1e6
    return f"memory {memory:.1f} MiB, processor {processor:.1f} ms, up {windows.uptime_ns / 1e9:.2f} s"


# Hypervisor isolation.


def run_isolated(workspace: Workspace, events: EventsEndpoint, screen: Screen) -> dict[str, Any]:
    record = Record(screen)
    events.record_in(record)
    command = f"type C:\\hello.txt & exit {VM_EXIT_CODE}"
    screen.head("isolated", f'runs cmd /c "{command}" in a utility VM of its own')
    spec = isolated_spec("cmd", "/c", command, hostname="ISOLATED")
    shim = Shim(workspace, record, "isolated", spec, vm_options(PROCESSORS, MEGABYTES))
    try:
        shim.launch()
        shim.create(layer_mount(workspace, "isolated"), "the VM has booted and its guest is connected")
        calls = workspace.journal.new_calls()
        size = _vm_size(calls)
        record.add(CALL, "HCS says", _vm_text(workspace, size))
        shim.run_until_exit()
        status = shim.delete()
        events.expect(["create", "start", "exit", "delete"])
    finally:
        shim.kill()
    if status != VM_EXIT_CODE or HELLO not in shim.text:
        raise DemoError(f"the container exited with {status} and printed {shim.text!r}, which its command does not do")
    calls += workspace.journal.new_calls()
    screen.head("timeline", "create boots the VM; delete returns after it has stopped")
    screen.timeline(record.phases)
    screen.line()
    messages = [call["call"].removeprefix(GUEST) for call in calls if call["call"].startswith(GUEST)]
    count = f"{len(calls) - len(messages)} HCS calls, and {len(messages)} messages to the VM's guest"
    screen.paragraph(f"{count}: {', '.join(messages)}.")
    return {"exit_status": status, "vm": size, "output": shim.text, "calls": summarize_calls(calls)} | record.as_data()


def run_pod(workspace: Workspace, events: EventsEndpoint, screen: Screen) -> dict[str, Any]:
    record = Record(screen, of_several=True)
    events.record_in(record)
    screen.head("pod", "two containers in one utility VM, served by one shim, as in Kubernetes")
    options = vm_options(PROCESSORS, MEGABYTES)
    pod = Shim(workspace, record, "pod", isolated_spec("pause", hostname="POD", pod="pod", role="sandbox"), options)
    members: list[Shim] = []
    try:
        pod.launch()
        pod.create(layer_mount(workspace, "pod"), "the sandbox: a VM without a container")
        calls = workspace.journal.new_calls()
        size = _vm_size(calls)
        record.add(CALL, "HCS says", _vm_text(workspace, size), about="pod")
        pod.start()
        for name in ("front", "back"):
            script = "echo Hello from %COMPUTERNAME% & ping -t localhost > nul"
            spec = isolated_spec("cmd", "/c", script, hostname=name.upper(), pod="pod", role="container")
            member = Shim(workspace, record, name, spec, options, pod=pod)
            members.append(member)
            member.launch()
            member.create(layer_mount(workspace, name), "in the pod's VM")
            member.start()
        exec_status = members[0].exec("look", "cmd", "/c", "hostname")
        pod.call("Kill", api.KillRequest(id="pod", signal=SIGKILL), Empty)
        record.add(CALL, "Kill", "SIGKILL terminates the VM and everything in it", about="pod")
        statuses = {member.id: member.wait() for member in members}
        statuses["pod"] = pod.wait()
        for shim in (*members, pod):
            shim.delete()
        for member in members:
            execs = ["exec-added", "exec-started", "exit", "delete"] if member is members[0] else []
            events.expect(["create", "start", *execs, "exit", "delete"], about=member.id)
        events.expect(["create", "start", "exit", "delete"], about="pod")
    finally:
        for shim in (*members, pod):
            shim.kill()
    calls += workspace.journal.new_calls()
    result = {"exit_statuses": statuses, "exec_exit_status": exec_status, "vm": size, "calls": summarize_calls(calls)}
    return result | record.as_data()


def _vm_size(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The size of the VM that these calls created, from its HCS document."""
    for call in calls:
        if call["call"] == "HcsCreateComputeSystem":
            for argument in call["arguments"].values():
                if isinstance(argument, dict) and "VirtualMachine" in argument:
                    topology = argument["VirtualMachine"]["ComputeTopology"]
                    return {
                        "id": call["arguments"].get("id", ""),
                        "processors": topology["Processor"]["Count"],
                        "memory_mb": topology["Memory"]["SizeInMB"],
                    }
    raise DemoError("no utility VM was created for a hypervisor-isolated container")


def _vm_text(workspace: Workspace, size: dict[str, Any]) -> str:
    found = [system for system in workspace.status()["systems"] if system["SystemType"] == "VirtualMachine"]
    if len(found) != 1:
        raise DemoError(f"expected one utility VM, found {len(found)}")
    return f"VM {found[0]['Id']}, {found[0]['State']}: {size['processors']} processors, {size['memory_mb']} MB"
