"""`start` in all its ways, inside Wine: run by Python for Windows, against the shim as unpacked.

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
from shim.platform.windows import daemon, endpoint  # noqa: E402
from shim.ttrpc.client import Client  # noqa: E402
from tests.wine.driver import PATIENCE, Shim, main  # noqa: E402

FOREVER = "cmd /c ping -n 600 127.0.0.1"
CONTROLLER = "io.containerd.sandbox.controller.v1.shim"


def start(shim: Shim, stdin: bytes = b"", program: str = "", **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [program or shim.program, *shim.flags, "start"], cwd=shim.bundle, env=shim.environment | environment,
        input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, check=False,
    )  # fmt: skip
    shim.address = endpoint.address_for("", "wine", shim.id)
    return done.returncode, done.stdout.decode()


def dial(shim: Shim) -> TaskClient:
    return TaskClient(Client(endpoint.connect(shim.address, None)), shim.id, shim.bundle)


def daemon_of(shim: Shim) -> int:
    with open(os.path.join(shim.bundle, "shim.pid")) as file:
        return int(file.read())


def command_lines(id: str) -> list[str]:
    """Of the processes of this prefix that serve an id: Linux shows them, Wine does not."""
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


def end(shim: Shim, task: TaskClient) -> bool:
    task.shutdown()
    return shim.gone() and has_ended(daemon_of(shim))


def has_ended(pid: int) -> bool:
    limit = time.monotonic() + PATIENCE
    while daemon.is_running(pid):
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


def alike(program: str, directory: str) -> Any:
    """By the launcher and by Python: what is printed, what is in the bundle, who answers."""
    found = []
    for native in "10":
        shim = Shim(program, directory, f"alike{native}", FOREVER)
        shim.flags = [*shim.flags, "-debug"]
        said = start(shim, RUNHCS_NATIVE=native)
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
            "said": said, "address": address, "files": files, "same": pid == daemon_of(shim),
            "native": ["-listener" in line for line in lines], "debug": ["-debug" in line for line in lines],
            "gone": end(shim, task),
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
        log = endpoint.connect(path, PATIENCE)
        line = log.recv(65536).decode()
        task = dial(shim)
        task.connect()
        found.append({"code": code, "there": is_there, "handle": handle, "line": line, "gone": end(shim, task)})
        log.close()
    return found


def options(program: str, directory: str) -> Any:
    """What comes on stdin: usual options, others, and what is none. [exit code, output or by whom it was started]."""
    usual = Options(log_level="debug", vm_processor_count=2, GPUVHDPath="x" * 5000)
    generic = GenericOptions(type_url="containerd.runhcs.v1.Options").encode()
    given = {
        "usual": PackedAny(type_url=Options.FULL_NAME, value=usual.encode()).encode(),
        "generic": PackedAny(type_url="runtimeoptions.v1.Options", value=generic).encode(),
        "refused": PackedAny(type_url=Options.FULL_NAME, value=Options(debug_type=1).encode()).encode(),
        "foreign": PackedAny(type_url="containerd.runc.v1.Options").encode(),
        "long": PackedAny(type_url=Options.FULL_NAME, value=Options(GPUVHDPath="y" * 200_000).encode()).encode(),
        "too long": b"\0" * (11 << 20),
    }
    found = {}
    for number, (name, data) in enumerate(given.items()):
        shim = Shim(program, directory, f"options{number}", FOREVER)
        code, said = start(shim, data)
        if code:
            found[name] = [code, said, sorted(os.listdir(shim.bundle))]
            continue
        task = dial(shim)
        task.connect()
        found[name] = [code, ["-listener" in line for line in command_lines(shim.id)], end(shim, task)]
    return found


def taken(program: str, directory: str) -> Any:
    """The name is somebody else's: Python, which is asked to say so, gets the options whole."""
    shim = Shim(program, directory, "taken", FOREVER)
    held = endpoint.listen(endpoint.address_for("", "wine", "taken"))
    usual = PackedAny(type_url=Options.FULL_NAME, value=Options(log_level="debug").encode()).encode()
    said = start(shim, usual)
    held.close()
    refused = PackedAny(type_url=Options.FULL_NAME, value=Options(debug_type=1).encode()).encode()
    return [*said, sorted(os.listdir(shim.bundle)), *start(shim, refused)]


def unheard(program: str, directory: str) -> Any:
    """Nobody reads the address: no daemon, no files, an error."""
    shim = Shim(program, directory, "unheard", FOREVER)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [program, *shim.flags, "start"], cwd=shim.bundle, stdin=subprocess.DEVNULL, stdout=writing,
        stderr=subprocess.PIPE, timeout=PATIENCE, check=False,
    )  # fmt: skip
    os.close(writing)
    shim.address = endpoint.address_for("", "wine", "unheard")
    return [done.returncode, done.stderr.decode(), sorted(os.listdir(shim.bundle)), shim.gone()]


def orphaned(program: str, directory: str) -> Any:
    """A start that dies before it has handed the address over takes its daemon with it."""
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
    return [connected == child.pid, child.wait(PATIENCE), shim.gone()]


def service(program: str, directory: str) -> Any:
    """A sandbox that the Sandbox service is to make: the answer is JSON, with or without Python."""
    found = []
    for native in "10":
        shim = Shim(program, directory, f"service{native}", FOREVER)
        shim.bundle = os.path.join(directory, CONTROLLER, "wine", shim.id)
        os.makedirs(shim.bundle)
        code, said = start(shim, RUNHCS_NATIVE=native)
        line = command_lines(shim.id)
        task = dial(shim)
        task.connect()
        os.kill(daemon_of(shim), signal.SIGTERM)
        found.append([code, said.replace(shim.id, "ID"), ["-is-sandbox" in one for one in line], shim.gone()])
    return found


def join(program: str, directory: str) -> Any:
    """A pod's member needs no Python: the program's copy has none beside it."""
    alone = r"C:\alone\containerd-shim-runhcs-v1.exe"
    names = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": "pod1"}
    sandbox = Shim(program, directory, "pod1", FOREVER, annotations=names)
    start(sandbox)
    task = dial(sandbox)
    task.connect()
    member = Shim(program, directory, "member1", FOREVER, annotations=names | {
        "io.kubernetes.cri.container-type": "container"})  # fmt: skip
    said = start(member, program=alone)
    files = sorted(os.listdir(member.bundle))
    same = daemon_of(member) == daemon_of(sandbox)
    gone = end(sandbox, task)
    other = Shim(program, directory, "member2", FOREVER, annotations=names | {
        "io.kubernetes.cri.container-type": "container"})  # fmt: skip
    return {"said": said, "address": sandbox.address, "files": files, "same": same, "gone": gone, "late": start(other)}


if __name__ == "__main__":
    main(alike, log_pipe, options, taken, unheard, orphaned, service, join)
