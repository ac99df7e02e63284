"""Hypervisor isolation: a container with a utility VM of its own, and a pod of two containers that share one."""

from __future__ import annotations

from typing import Any

from runhcs.demo import DemoError
from runhcs.demo.calls import summarise
from runhcs.demo.events import Events
from runhcs.demo.record import CALL, Record
from runhcs.demo.screen import Screen
from runhcs.demo.shim import Shim
from runhcs.demo.specs import isolated_spec, layer_mount, vm_options
from runhcs.demo.workspace import HELLO, Workspace
from shim.api import task as api
from shim.api.wellknown import Empty

EXIT_CODE = 5
MEGABYTES = 2048
PROCESSORS = 2
SIGKILL = 9
GUEST = "guest:"  # how the journal marks messages on the bridge


def run_isolated(workspace: Workspace, events: Events, screen: Screen) -> dict[str, Any]:
    record = Record(screen)
    events.show_in(record)
    command = f"type C:\\hello.txt & exit {EXIT_CODE}"
    screen.head("isolated", f'runs cmd /c "{command}" in a utility VM of its own')
    spec = isolated_spec("cmd", "/c", command, hostname="ISOLATED")
    shim = Shim(workspace, record, "isolated", spec, vm_options(PROCESSORS, MEGABYTES))
    try:
        shim.launch()
        shim.create(layer_mount(workspace, "isolated"), "the VM has booted, its guest has been connected")
        calls = workspace.journal.new_calls()
        size = _size(calls)
        record.note(CALL, "HCS says", _describe(workspace, size))
        shim.run_to_its_end()
        status = shim.delete()
        events.expect(["create", "start", "exit", "delete"])
    finally:
        shim.abandon()
    if status != EXIT_CODE or HELLO not in shim.text:
        raise DemoError(f"the container ended with {status} and printed {shim.text!r}: not what it was told to")
    calls += workspace.journal.new_calls()
    screen.head("timeline", "create boots the VM; delete comes when it has ended")
    screen.timeline(record.phases)
    screen.line()
    messages = [call["call"].removeprefix(GUEST) for call in calls if call["call"].startswith(GUEST)]
    count = f"{len(calls) - len(messages)} HCS calls, and {len(messages)} messages to the VM's guest"
    screen.paragraph(f"{count}: {', '.join(messages)}.")
    return {"exit_status": status, "vm": size, "output": shim.text, "calls": summarise(calls)} | record.as_data()


def run_pod(workspace: Workspace, events: Events, screen: Screen) -> dict[str, Any]:
    record = Record(screen, of_several=True)
    events.show_in(record)
    screen.head("pod", "two containers in one utility VM, served by one shim, as Kubernetes has them")
    options = vm_options(PROCESSORS, MEGABYTES)
    pod = Shim(workspace, record, "pod", isolated_spec("pause", hostname="POD", pod="pod", role="sandbox"), options)
    members: list[Shim] = []
    try:
        pod.launch()
        pod.create(layer_mount(workspace, "pod"), "the sandbox: a VM without a container")
        calls = workspace.journal.new_calls()
        size = _size(calls)
        record.note(CALL, "HCS says", _describe(workspace, size), about="pod")
        pod.start()
        for name in ("front", "back"):
            script = "echo Hello from %COMPUTERNAME% & ping -t localhost > nul"
            spec = isolated_spec("cmd", "/c", script, hostname=name.upper(), pod="pod", role="container")
            member = Shim(workspace, record, name, spec, options, pod=pod)
            members.append(member)
            member.launch()
            member.create(layer_mount(workspace, name), "hosted in the pod's VM")
            member.start()
        exec_status = members[0].exec("look", "cmd", "/c", "hostname")
        pod.call("Kill", api.KillRequest(id="pod", signal=SIGKILL), Empty)
        record.note(CALL, "Kill", "SIGKILL ends the VM and all that is in it", about="pod")
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
            shim.abandon()
    calls += workspace.journal.new_calls()
    result = {"exit_statuses": statuses, "exec_exit_status": exec_status, "vm": size, "calls": summarise(calls)}
    return result | record.as_data()


def _size(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the VM that these calls created, as the document of HCS has it."""
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
    raise DemoError("no utility VM was created for a container that asks for one")


def _describe(workspace: Workspace, size: dict[str, Any]) -> str:
    found = [system for system in workspace.status()["systems"] if system["SystemType"] == "VirtualMachine"]
    if len(found) != 1:
        raise DemoError(f"there should be one utility VM and there are {len(found)}")
    return f"VM {found[0]['Id']}, {found[0]['State']}: {size['processors']} processors, {size['memory_mb']} MB"
