"""Scenarios with Linux containers in utility VMs, for ours and Microsoft's shim: run under Wine as driver.py is.

`C:\\lcow` has the base layer and an empty, formatted scratch disk; the boot files are beside the shim.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from runhcs.task_client import TASK_V3, TaskClient
from shim.api import sandbox as api
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any as PackedAny
from shim.api.wire import Message
from shim.platform.windows import endpoint
from shim.task.sandbox_service import SANDBOX
from shim.ttrpc.client import Client
from tests.parity.lcow_specs import process, spec
from tests.wine.driver import TIMEOUT, Events, Pipe, Shim, main
from tests.wine.shim_scenarios import refused, shut_down, wait_event

BASE, SCRATCH = r"C:\lcow\base", r"C:\lcow\sandbox.vhdx"
SLEEP = ["/bin/sleep", "600"]
# Microsoft's guest agent needs a device mapper for several layers in one memory device.
ANNOTATIONS = {"io.microsoft.virtualmachine.lcow.vpmem.nomultimapping": "true"}


class LinuxShim(Shim):
    """One Linux container and its shim. `command` is not used; `members` are those of the spec, and `args`."""

    def write_spec(self, directory: str, command: str, members: dict[str, Any]) -> None:
        scratch = os.path.join(directory, f"scratch-{self.id}")
        os.makedirs(scratch)
        shutil.copy(SCRATCH, scratch)
        annotations = {**ANNOTATIONS, **members.pop("annotations", {})}
        args = members.pop("args")
        windows = {"layerFolders": [BASE, scratch]}
        document = spec(*args, annotations=annotations, windows=windows, **members)
        with open(os.path.join(self.bundle, "config.json"), "w") as file:
            json.dump(document, file)


def linux() -> PackedAny:
    values = Options(sandbox_isolation=Options.SandboxIsolation.HYPERVISOR, sandbox_platform="linux/amd64")
    return PackedAny(type_url=Options.FULL_NAME, value=values.encode())


def container(program: str, directory: str) -> Any:
    """A container in its own VM: stdio, execs, signals, and exit."""
    events = Events("lcow")
    shim = LinuxShim(program, directory, "lcow", "", events, args=["/bin/sh", "-c", "cat; echo end >&2; exit 7"])
    given, out, err = Pipe("lcow-in"), Pipe("lcow-out"), Pipe("lcow-err")
    task = shim.start()
    task.create(stdin=given.path, stdout=out.path, stderr=err.path, options=linux())
    pid = task.start()
    second = Pipe("lcow-second")
    task.exec("two", process("/bin/sh", "-c", "id -u; exit 5"), stdout=second.path)
    task.start("two")
    exec_status = task.wait("two").exit_status
    task.delete("two")
    task.exec("three", process(*SLEEP))
    task.start("three")
    task.kill(15, "three")
    killed = task.wait("three").exit_status
    task.delete("three")
    pids = [one.pid for one in task.pids()]
    stats = refused(task.stats)
    given.write(b"through the VM\n" * 1000)
    given.close()
    status = task.wait().exit_status
    deleted = task.delete().exit_status
    published = wait_event(events, "/tasks/delete", 3)
    shut_down(task)
    return {
        "pid": pid, "pids": pids, "second": [exec_status, second.text()], "killed": killed, "stats": stats,
        "lines": out.text().splitlines(), "stderr": err.text(), "status": status, "deleted": deleted,
        "published": published, "events": events.topics, "exited": shim.wait_exited(),
    }  # fmt: skip


def mounts(program: str, directory: str) -> Any:
    """A directory and a file of the host."""
    shared = os.path.join(directory, "shared")
    os.makedirs(shared)
    with open(os.path.join(shared, "file.txt"), "w", newline="\n") as file:
        file.write("of the host\n")
    bind = {"type": "bind", "options": ["rbind"]}
    given = [
        {**bind, "source": shared, "destination": "/shared"},
        {**bind, "source": os.path.join(shared, "file.txt"), "destination": "/one", "options": ["rbind", "ro"]},
    ]
    script = "cat /shared/file.txt /one; echo of the guest > /shared/new; echo x > /one || echo read-only"
    events = Events("lcow-mounts")
    shim = LinuxShim(program, directory, "lcow-mounts", "", events, args=["/bin/sh", "-c", script], mounts=given)
    out = Pipe("lcow-mounts-out")
    task = shim.start()
    task.create(stdout=out.path, options=linux())
    task.start()
    status = task.wait().exit_status
    task.delete()
    shut_down(task)
    with open(os.path.join(shared, "new")) as file:
        written = file.read()
    return {"status": status, "text": out.text(), "written": written, "exited": shim.wait_exited()}


def pod(program: str, directory: str) -> Any:
    """A sandbox, which is a container, and two containers in its VM."""
    events = Events("lcow-pod")

    def member(id: str, role: str, *args: str) -> LinuxShim:
        names = {"io.kubernetes.cri.container-type": role, "io.kubernetes.cri.sandbox-id": "lcow-pod"}
        names["io.microsoft.cri.skip-pod-networking"] = "true"
        return LinuxShim(program, directory, id, "", events, annotations=names, args=args)

    sandbox = member("lcow-pod", "sandbox", *SLEEP)
    task = sandbox.start()
    task.create(options=linux())
    pid = task.start()
    outputs, statuses, addresses = [], [], []
    for number in (1, 2):
        out = Pipe(f"lcow-pod-{number}-out")
        workload = member(f"lcow-pod-{number}", "container", "/bin/sh", "-c", f"echo from {number}; exit {number}")
        client = workload.start()
        addresses.append(workload.address)
        client.create(stdout=out.path, options=linux())
        client.start()
        statuses.append(client.wait().exit_status)
        outputs.append(out.text().strip())
        client.delete()
        workload.delete()
    state = task.state().status
    task.kill(9)
    status = task.wait().exit_status
    task.delete()
    published = wait_event(events, "/tasks/delete", 3)
    shut_down(task)
    exited = sandbox.wait_exited()
    sandbox.delete()
    return {
        "pid": pid, "outputs": outputs, "statuses": statuses, "same": set(addresses) == {sandbox.address},
        "state": state, "status": status, "published": published, "events": sorted(events.topics), "exited": exited,
    }  # fmt: skip


def missing_layer(program: str, directory: str) -> Any:
    """A container whose scratch disk does not exist leaks no VM."""
    shim = LinuxShim(program, directory, "lcow-missing", "", Events("lcow-missing"), args=["/bin/true"])
    shutil.rmtree(os.path.join(directory, "scratch-lcow-missing"))
    task = shim.start()
    code = refused(lambda: task.create(options=linux()))
    shut_down(task)
    shim.delete()
    return {"code": code, "exited": shim.wait_exited()}


class SandboxShim:
    """A pod of the Sandbox service, as containerd with `sandboxer = "shim"` creates it: without spec and image."""

    def __init__(self, program: str, directory: str, id: str) -> None:
        self.id = id
        self.bundle = os.path.join(directory, "io.containerd.sandbox.controller.v1.shim", "wine", id)
        os.makedirs(self.bundle)
        flags = ["-namespace", "wine", "-address", r"\\.\pipe\none", "-publish-binary", "none", "-id", id, "start"]
        environment = {**os.environ, "TTRPC_ADDRESS": Events(id).address, "MAX_SHIM_VERSION": "3"}
        done = subprocess.run(
            [program, *flags], cwd=self.bundle, env=environment, input=linux().encode(), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        self.client = Client(endpoint.connect(json.loads(done.stdout)["address"], None))
        self.task = TaskClient(self.client, id, self.bundle, TASK_V3)

    def ask(self, method: str, request: Message) -> bytes:
        return self.client.call(SANDBOX, method, request.encode(), timeout=TIMEOUT)


def sandbox_service(program: str, directory: str) -> Any:
    """The shim answers its platform, creates the sandbox container itself, and a workload joins its namespaces."""
    shim = SandboxShim(program, directory, "lcow-sandbox")
    asked = api.PlatformRequest(sandbox_id=shim.id)
    platform = api.PlatformResponse.decode(shim.ask("Platform", asked)).platform
    shim.ask("CreateSandbox", api.CreateSandboxRequest(sandbox_id=shim.id, bundle_path=shim.bundle))
    started = shim.ask("StartSandbox", api.StartSandboxRequest(sandbox_id=shim.id))
    pid = api.StartSandboxResponse.decode(started).pid
    joined = [{"type": name, "path": f"/proc/{pid}/ns/{kind}"} for name, kind in (("pid", "pid"), ("ipc", "ipc"))]
    out = Pipe("lcow-sandbox-out")
    members = {"args": ["/bin/cat", "/proc/1/cmdline"], "linux": {"namespaces": [*joined, {"type": "mount"}]}}
    workload = LinuxShim(program, directory, "lcow-workload", "", **members)
    shim.task.create(id=workload.id, bundle=workload.bundle, stdout=out.path, options=linux())
    shim.task.start(id=workload.id)
    status = shim.task.wait(id=workload.id).exit_status
    shim.task.delete(id=workload.id)
    shim.ask("StopSandbox", api.StopSandboxRequest(sandbox_id=shim.id, timeout_secs=20))
    shim.ask("ShutdownSandbox", api.ShutdownSandboxRequest(sandbox_id=shim.id))
    return {
        "platform": [platform.os, platform.architecture] if platform is not None else [], "pid": pid,
        "status": status, "init": out.text().strip("\0"),
    }  # fmt: skip


if __name__ == "__main__":
    main(container, mounts, pod, missing_layer, sandbox_service)
