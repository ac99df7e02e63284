"""`start` by the launcher and by Python, under Wine: run by Python for Windows, with the unpacked shim.

`python.exe start_driver.py EXE DIRECTORY SCENARIO`, as driver.py, whose client this uses.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from runhcs.task_client import TaskClient  # noqa: E402
from shim.api.runhcs_options import Options  # noqa: E402
from shim.api.runtimeoptions import Options as GenericOptions  # noqa: E402
from shim.api.wellknown import Any as PackedAny  # noqa: E402
from shim.commands import SHIM_SCOPE  # noqa: E402
from shim.platform.windows import daemon, endpoint  # noqa: E402
from shim.ttrpc.client import Client  # noqa: E402
from tests.wine.driver import TIMEOUT, Shim, main  # noqa: E402

FOREVER = "cmd /c ping -n 600 127.0.0.1"
CONTROLLER = "io.containerd.sandbox.controller.v1.shim"


def start(shim: Shim, stdin: bytes = b"", program: str = "", **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [program or shim.program, *shim.flags, "start"], cwd=shim.bundle, env=shim.environment | environment,
        input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    shim.address = endpoint.address_for("", "wine", shim.id)
    return done.returncode, done.stdout.decode()


def dial(shim: Shim) -> TaskClient:
    return TaskClient(Client(endpoint.connect(shim.address, None)), shim.id, shim.bundle)


def daemon_of(shim: Shim) -> int:
    with open(os.path.join(shim.bundle, "shim.pid")) as file:
        return int(file.read())


def command_lines(id: str) -> list[str]:
    """The command lines of the processes of this prefix that serve an id. Linux shows them, Wine does not."""
    found = []
    prefix = f"WINEPREFIX={os.environ['WINEPREFIX']}".encode()
    for pid in filter(str.isdigit, os.listdir(r"Z:\proc")):
        try:
            with open(rf"Z:\proc\{pid}\cmdline", "rb") as file:
                line = " ".join(word.decode("utf-8", "replace") for word in file.read().split(b"\0"))
            if "shim-runhcs-v1.exe" not in line or f"-id {id} " not in line or "serve" not in line:
                continue
            with open(rf"Z:\proc\{pid}\environ", "rb") as file:
                if prefix in file.read().split(b"\0"):
                    found.append(line)
        except OSError:
            continue
    return found


def stop(shim: Shim, task: TaskClient) -> bool:
    task.shutdown()
    return shim.wait_exited() and wait_process_exit(daemon_of(shim))


def wait_process_exit(pid: int) -> bool:
    deadline = time.monotonic() + TIMEOUT
    while daemon.is_running(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def launcher_equals_python(program: str, directory: str) -> Any:
    """By the launcher and by Python: the output, the files of the bundle, the daemon."""
    found = []
    for native in "10":
        shim = Shim(program, directory, f"equal{native}", FOREVER)
        shim.flags = [*shim.flags, "-debug"]
        output = start(shim, RUNHCS_NATIVE=native)
        task = dial(shim)
        pid = task.connect().shim_pid
        lines = command_lines(shim.id)
        files = sorted(os.listdir(shim.bundle))
        with open(os.path.join(shim.bundle, "address")) as file:
            address = file.read()
        task.create()
        task.start()
        task.kill(9)
        task.wait()
        task.delete()
        found.append({
            "output": output, "address": address, "files": files, "same": pid == daemon_of(shim),
            "native": ["-listener" in line for line in lines], "debug": ["-debug" in line for line in lines],
            "exited": stop(shim, task),
        })  # fmt: skip
    return found


def log_pipe(program: str, directory: str) -> Any:
    """The log pipe exists when `start` has returned: by the launcher, which passes it to the daemon, and by Python."""
    found = []
    for native in "10":
        shim = Shim(program, directory, f"log-pipe{native}", FOREVER)
        path = rf"\\.\pipe\containerd-shim-wine-{shim.id}-log"
        code, _ = start(shim, RUNHCS_NATIVE=native)
        is_there = endpoint.exists(path)
        words = command_lines(shim.id)[0].split()
        handle = words[words.index("-log-pipe") + 1] if "-log-pipe" in words else ""
        log = endpoint.connect(path, TIMEOUT)
        line = log.recv(65536).decode()
        task = dial(shim)
        task.connect()
        found.append({"code": code, "there": is_there, "handle": handle, "line": line, "exited": stop(shim, task)})
        log.close()
    return found


SCOPE = GenericOptions(config_body=b'ShimScope = "node"\n')
DEFAULT_SCOPE = Options(default_container_annotations={SHIM_SCOPE: "namespace"})


def options(program: str, directory: str) -> Any:
    """Runtime options on stdin: usual, unusual and invalid. Values: exit code, then the output and the files of the
    bundle, or whether the launcher started the daemon and whether it exited."""
    usual = Options(log_level="debug", vm_processor_count=2, GPUVHDPath="x" * 5000)
    generic = GenericOptions(type_url="containerd.runhcs.v1.Options").encode()
    given = {
        "usual": PackedAny(type_url=Options.FULL_NAME, value=usual.encode()).encode(),
        "generic": PackedAny(type_url="runtimeoptions.v1.Options", value=generic).encode(),
        "refused": PackedAny(type_url=Options.FULL_NAME, value=Options(debug_type=1).encode()).encode(),
        "scope": PackedAny(type_url="runtimeoptions.v1.Options", value=SCOPE.encode()).encode(),
        "default scope": PackedAny(type_url=Options.FULL_NAME, value=DEFAULT_SCOPE.encode()).encode(),
        "foreign": PackedAny(type_url="containerd.runc.v1.Options").encode(),
        "long": PackedAny(type_url=Options.FULL_NAME, value=Options(GPUVHDPath="y" * 200_000).encode()).encode(),
        "too long": b"\0" * (11 << 20),
    }
    found = {}
    for number, (name, data) in enumerate(given.items()):
        shim = Shim(program, directory, f"options{number}", FOREVER)
        code, output = start(shim, data)
        if code:
            found[name] = [code, output, sorted(os.listdir(shim.bundle))]
            continue
        task = dial(shim)
        task.connect()
        found[name] = [code, ["-listener" in line for line in command_lines(shim.id)], stop(shim, task)]
    return found


def taken_pipe_name(program: str, directory: str) -> Any:
    """Another process has the pipe name: the launcher falls back to Python, which gets all of the options."""
    shim = Shim(program, directory, "taken", FOREVER)
    held = endpoint.listen(endpoint.address_for("", "wine", "taken"))
    usual = PackedAny(type_url=Options.FULL_NAME, value=Options(log_level="debug").encode()).encode()
    output = start(shim, usual)
    held.close()
    refused = PackedAny(type_url=Options.FULL_NAME, value=Options(debug_type=1).encode()).encode()
    return [*output, sorted(os.listdir(shim.bundle)), *start(shim, refused)]


def closed_stdout(program: str, directory: str) -> Any:
    """stdout has no reader: no daemon, no files, an error."""
    shim = Shim(program, directory, "unheard", FOREVER)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [program, *shim.flags, "start"], cwd=shim.bundle, stdin=subprocess.DEVNULL, stdout=writing,
        stderr=subprocess.PIPE, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    os.close(writing)
    shim.address = endpoint.address_for("", "wine", "unheard")
    return [done.returncode, done.stderr.decode(), sorted(os.listdir(shim.bundle)), shim.wait_exited()]


def killed_start(program: str, directory: str) -> Any:
    """If a `start` is killed before it has printed the address, its daemon exits, too."""
    shim = Shim(program, directory, "orphaned", FOREVER)
    shim.address = endpoint.address_for("", "wine", "orphaned")
    pipe = endpoint.listen(shim.address)
    os.set_handle_inheritable(pipe.handle, True)
    startup = subprocess.STARTUPINFO(lpAttributeList={"handle_list": [pipe.handle]})
    flags = ["-bundle", shim.bundle, "-socket", shim.address, "-spawned", "-listener", str(pipe.handle), "serve"]
    child = subprocess.Popen(
        [program, *shim.flags, *flags], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        startupinfo=startup,
    )  # fmt: skip
    assert child.stdin is not None
    child.stdin.write(bytes(4))
    child.stdin.flush()
    pipe.close()
    connected = dial(shim).connect().shim_pid
    child.stdin.close()
    return [connected == child.pid, child.wait(TIMEOUT), shim.wait_exited()]


def service(program: str, directory: str) -> Any:
    """A sandbox of the Sandbox service: `start` prints JSON, by the launcher and by Python."""
    found = []
    for native in "10":
        shim = Shim(program, directory, f"service{native}", FOREVER)
        shim.bundle = os.path.join(directory, CONTROLLER, "wine", shim.id)
        os.makedirs(shim.bundle)
        code, output = start(shim, RUNHCS_NATIVE=native)
        line = command_lines(shim.id)
        task = dial(shim)
        task.connect()
        os.kill(daemon_of(shim), signal.SIGTERM)
        found.append([code, output.replace(shim.id, "ID"), ["-is-sandbox" in one for one in line], shim.wait_exited()])
    return found


def pod_member(program: str, directory: str) -> Any:
    """A member of a pod is started without Python: the copy of the program has none in its directory."""
    alone = r"C:\alone\containerd-shim-runhcs-v1.exe"
    names = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": "pod1"}
    sandbox = Shim(program, directory, "pod1", FOREVER, annotations=names)
    start(sandbox)
    task = dial(sandbox)
    task.connect()
    member = Shim(program, directory, "member1", FOREVER, annotations=names | {
        "io.kubernetes.cri.container-type": "container"})  # fmt: skip
    output = start(member, program=alone)
    files = sorted(os.listdir(member.bundle))
    same = daemon_of(member) == daemon_of(sandbox)
    exited = stop(sandbox, task)
    other = Shim(program, directory, "member2", FOREVER, annotations=names | {
        "io.kubernetes.cri.container-type": "container"})  # fmt: skip
    late = start(other)
    return {
        "output": output, "address": sandbox.address, "files": files, "same": same, "exited": exited, "late": late,
    }  # fmt: skip


if __name__ == "__main__":
    main(launcher_equals_python, log_pipe, options, taken_pipe_name, closed_stdout, killed_start, service, pod_member)
