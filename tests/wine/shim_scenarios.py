"""Scenarios for any shim for HCS, ours and Microsoft's: run by driver.py, under Wine."""

from __future__ import annotations

import _winapi
import os
import threading
import time
from typing import Any

from runhcs.shim_driver import wait_until
from runhcs.task_client import TaskClient
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any as PackedAny
from shim.ttrpc.status import ClosedError, StatusError
from tests.wine.driver import TIMEOUT, Events, Pipe, Shim

FOREVER = "cmd /c ping -n 600 127.0.0.1 >nul"
SHORT = 20.0
SHARE_ALL = 7
OPEN = 3
STOPPED = 3


def _process(command: str) -> dict[str, Any]:
    return {"cwd": "C:\\", "commandLine": command, "args": [], "user": {}}


def refused(call: Any, *arguments: Any) -> int:
    """The status code of the error of a call; 0 if it succeeds."""
    try:
        call(*arguments)
    except StatusError as error:
        return error.code
    return 0


def shut_down(task: TaskClient, id: str | None = None) -> None:
    """Microsoft's shim exits before it has sent the response."""
    try:
        task.shutdown(id=id)
    except (ClosedError, OSError):
        pass


def wait_event(events: Events, topic: str, count: int = 1) -> bool:
    """Wait for an event, which may arrive after the response. Returns whether it did."""
    deadline = time.monotonic() + SHORT
    while events.topics.count(topic) < count:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def steps(program: str, directory: str) -> Any:
    """Every call in order, with the state after each."""
    events = Events("steps")
    shim = Shim(program, directory, "steps", FOREVER, events)
    task = shim.start()
    connected = task.connect()
    task.create()
    states = [task.state().status]
    pid = task.start()
    states.append(task.state().status)
    pids = [process.pid for process in task.pids()]
    stats = task.stats()
    again = [refused(task.create), refused(task.start), refused(task.delete)]
    task.kill(15)
    status = task.wait().exit_status
    states.append(task.state().status)
    deleted = task.delete()
    published = wait_event(events, "/tasks/delete")
    shut_down(task)
    return {
        "shim_pid": connected.shim_pid, "states": states, "pid": pid, "pids": pids, "stats": stats.type_url,
        "again": again, "status": status, "deleted": [deleted.pid, deleted.exit_status], "published": published,
        "events": events.topics, "exited": shim.wait_exited(),
    }  # fmt: skip


def delete_without_start(program: str, directory: str) -> Any:
    """A container that is created and deleted without a Start."""
    shim = Shim(program, directory, "delete_without_start", FOREVER, Events("delete_without_start"))
    task = shim.start()
    task.create()
    deleted = refused(task.delete)
    shut_down(task)
    return {"refused": deleted, "exited": shim.wait_exited()}


def missing_program_and_layers(program: str, directory: str) -> Any:
    """A container whose program does not exist, and one whose layers do not: neither leaks a shim."""
    events = Events("missing_program_and_layers")
    shim = Shim(program, directory, "missing_program_and_layers", "no-such-program.exe", events)
    task = shim.start()
    task.create()
    started = refused(task.start)
    deleted = refused(task.delete)
    shut_down(task)
    missing = [os.path.join(directory, "no-base"), os.path.join(directory, "no-scratch")]
    other = Shim(program, directory, "layerless", "cmd /c exit 0", events, windows={"layerFolders": missing})
    client = other.start()
    created = refused(client.create)
    shut_down(client)
    other.delete()
    exited = [shim.wait_exited(), other.wait_exited()]
    return {"started": started, "deleted": deleted, "created": created, "exited": exited}


def execs(program: str, directory: str) -> Any:
    """Processes in a running container: output, exit codes, Kill, and a Delete before the exit."""
    shim = Shim(program, directory, "execs2", FOREVER, Events("execs2"))
    task = shim.start()
    task.create()
    task.start()
    found = []
    for number in range(3):
        out, err = Pipe(f"execs2-out{number}"), Pipe(f"execs2-err{number}")
        name = f"exec{number}"
        process = _process(f"cmd /c echo out {number}& echo err>&2& exit {number}")
        task.exec(name, process, stdout=out.path, stderr=err.path)
        task.start(name)
        status = task.wait(name).exit_status
        found.append([status, out.text().strip(), err.text().strip(), task.delete(name).exit_status])
    task.exec("lasting", _process(FOREVER))
    task.start("lasting")
    early = refused(task.delete, "lasting")
    task.kill(9, "lasting")
    killed = task.wait("lasting").exit_status
    state = task.state("lasting").status
    task.delete("lasting")
    deleted_exec = refused(task.state, "lasting")
    running = task.state().status
    task.kill(9)
    task.wait()
    task.delete()
    shut_down(task)
    return {
        "found": found, "early": early, "killed": killed, "state": state, "deleted_exec": deleted_exec,
        "running": running, "exited": shim.wait_exited(),
    }  # fmt: skip


def client_without_cpu(program: str, directory: str) -> Any:
    """A client that reads nothing for some seconds after the exit, and one that reads slowly."""

    def received(name: str, lines: int, pipe: Pipe) -> list[int]:
        shim = Shim(program, directory, name, f"cmd /c for /L %i in (1,1,{lines}) do @echo {'x' * 62}", Events(name))
        task = shim.start()
        task.create(stdout=pipe.path)
        task.start()
        assert wait_until(lambda: task.state().status == STOPPED, TIMEOUT)
        waiting = threading.Thread(target=task.wait, daemon=True)
        waiting.start()
        waiting.join(5)  # the exit of Microsoft's shim does not wait for the client
        pipe.read()
        waiting.join(TIMEOUT)
        size = len(pipe.text())
        task.delete()
        shut_down(task)
        shim.wait_exited()
        return [size, lines * 64]

    return [
        # The client's pipe holds 64 KiB and that of HCS the rest.
        received("paused", 1500, Pipe("paused-out", reads=False)),
        received("slow", 32000, Pipe("slow-out", pause=0.06)),
    ]


def pod(program: str, directory: str) -> Any:
    """A sandbox and two containers, one shim for all of them."""
    return _pod(program, directory, "pod", {})


def _pod(program: str, directory: str, name: str, windows: dict[str, Any], **fields: Any) -> Any:
    events = Events(name)

    def member(id: str, role: str, command: str) -> Shim:
        names = {"io.kubernetes.cri.container-type": role, "io.kubernetes.cri.sandbox-id": name}
        return Shim(program, directory, id, command, events, annotations=names, windows=windows)

    sandbox = member(name, "sandbox", FOREVER)
    if windows:
        boot_image(directory)
    task = sandbox.start()
    task.create(**fields)
    sandbox_pid = task.start()
    outputs, statuses, addresses = [], [], []
    for number in (1, 2):
        out = Pipe(f"{name}-{number}-out")
        workload = member(f"{name}-{number}", "container", f"cmd /c echo from {number}& exit {number}")
        client = workload.start()
        addresses.append(workload.address)
        client.create(stdout=out.path, **fields)
        client.start()
        statuses.append(client.wait().exit_status)
        outputs.append(out.text().strip())
        client.delete()
        workload.delete()
    state = task.state().status
    task.kill(9)
    task.wait()
    task.delete()
    published = wait_event(events, "/tasks/delete", 3)
    shut_down(task)
    exited = sandbox.wait_exited()
    sandbox.delete()
    return {
        "pid": sandbox_pid, "outputs": outputs, "statuses": statuses, "same": set(addresses) == {sandbox.address},
        "state": state, "published": published, "events": sorted(events.topics), "exited": exited,
    }  # fmt: skip


def boot_image(directory: str) -> None:
    """Create the boot files of a utility VM in the base layer."""
    utility = os.path.join(directory, "base", "UtilityVM")
    os.makedirs(os.path.join(utility, "Files", "EFI", "Microsoft", "Boot"), exist_ok=True)
    with open(os.path.join(utility, "SystemTemplate.vhdx"), "w") as file:
        file.write("template")


def isolated(**fields: Any) -> PackedAny:
    values = Options(
        sandbox_isolation=Options.SandboxIsolation.HYPERVISOR, sandbox_platform="windows/amd64", **fields
    )  # fmt: skip
    return PackedAny(type_url=Options.FULL_NAME, value=values.encode())


def address_entries() -> list[list[str]]:
    """Entries of the driver for Hyper-V socket addresses (corrections.c): name and data."""
    directory = "Z:" + os.environ["HCS_EMULATOR_DIR"]
    entries = []
    for name in os.listdir(directory):
        if name.startswith("address-info-"):
            # It is deleted with its handle, so that others must permit that.
            handle = _winapi.CreateFile(os.path.join(directory, name), _winapi.GENERIC_READ, SHARE_ALL, 0, OPEN, 0, 0)
            entries.append([name.removeprefix("address-info-"), _winapi.ReadFile(handle, 100)[0].hex()])
            _winapi.CloseHandle(handle)
    return entries


def hypervisor(program: str, directory: str) -> Any:
    """A container in its own utility VM: stdio, an exec, exit, and the address of its Hyper-V sockets."""
    events = Events("hypervisor")
    shim = Shim(program, directory, "hypervisor", "cmd /c more& exit 7", events, windows={"hyperv": {}})
    boot_image(directory)
    given, out, err = Pipe("hypervisor-in"), Pipe("hypervisor-out"), Pipe("hypervisor-err")
    task = shim.start()
    task.create(stdin=given.path, stdout=out.path, stderr=err.path, options=isolated())
    pid = task.start()
    second = Pipe("hypervisor-second")
    task.exec("two", _process("cmd /c echo second& exit 5"), stdout=second.path)
    task.start("two")
    exec_status = task.wait("two").exit_status
    task.delete("two")
    pids = [process.pid for process in task.pids()]
    addresses = address_entries()
    vms = os.listdir("Z:" + os.environ["HCS_EMULATOR_DIR"] + "/hvsock")
    given.write(b"through the VM\r\n")
    given.close()
    status = task.wait().exit_status
    text = out.text()
    deleted = task.delete().exit_status
    published = wait_event(events, "/tasks/delete")
    shut_down(task)
    return {
        "pid": pid, "second": [exec_status, second.text().strip()], "pids": pids, "status": status,
        "text": text.strip(), "deleted": deleted, "published": published, "events": events.topics,
        "exited": shim.wait_exited(), "addresses": addresses, "vms": vms, "addresses left": address_entries(),
    }  # fmt: skip


def hypervisor_pod(program: str, directory: str) -> Any:
    """A sandbox that is a utility VM, and two containers in it."""
    return _pod(program, directory, "vmpod", {"hyperv": {}}, options=isolated())


ALL = (
    steps, delete_without_start, missing_program_and_layers, execs, client_without_cpu, pod, hypervisor, hypervisor_pod,
)  # fmt: skip
