"""Standbys under Wine: run by Python for Windows, with a copy of the shim of the unpacked distribution.

`python.exe standby_driver.py EXE DIRECTORY SCENARIO`, as driver.py, whose client this uses. A faulty standby is a
process of this script: `python.exe standby_driver.py PIPE BEHAVIOUR`.
"""

from __future__ import annotations

import ctypes
import msvcrt
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import _winapi  # noqa: E402

from runhcs.task_client import TaskClient  # noqa: E402
from shim.api.runhcs_options import Options  # noqa: E402
from shim.api.wellknown import Any as PackedAny  # noqa: E402
from shim.platform.windows import endpoint  # noqa: E402
from shim.platform.windows.pipe import PipeStream  # noqa: E402
from shim.platform.windows.pipe import dial as dial_pipe  # noqa: E402
from shim.platform.windows.standby import PROTOCOL  # noqa: E402
from tests.support.eventually import eventually  # noqa: E402
from tests.wine.driver import TIMEOUT, Events, Pipe, Shim, main  # noqa: E402
from tests.wine.start_driver import command_lines, daemon_of, dial, start, stop, wait_process_exit  # noqa: E402

FOREVER = "cmd /c ping -n 600 127.0.0.1"
STANDBY_ON = {"RUNHCS_STANDBY": "1", "RUNHCS_STANDBY_IDLE": "60"}


class Node:
    """A copy of the distribution, so that no other test shares its standbys."""

    def __init__(self, program: str, directory: str) -> None:
        self.directory = directory
        self.folder = os.path.join(directory, "node")
        # Wine has no CopyFile2, which Python would use.
        shutil.copytree(os.path.dirname(program), self.folder, copy_function=shutil.copyfile)
        self.program = os.path.join(self.folder, os.path.basename(program))
        self.count = 0

    def shim(self, command: str = FOREVER, events: Events | None = None) -> Shim:
        self.count += 1
        name = f"{os.path.basename(self.directory)}-{self.count}"
        return Shim(self.program, self.directory, name, command, events)

    def begin(self, shim: Shim, stdin: bytes = b"", **more: str) -> TaskClient:
        """Run `start`, which must succeed in any state of the standby."""
        code, output = start(shim, stdin, **STANDBY_ON | more)
        assert code == 0 and output == shim.address, output
        task = dial(shim)
        assert task.connect().shim_pid == daemon_of(shim)
        return task

    def start(self, **more: str) -> tuple[int, str]:
        """Start and stop a shim. Returns the pid of the daemon and the pipe of the standby that it creates, which is
        "" if the daemon is a spare."""
        shim = self.shim()
        task = self.begin(shim, **more)
        path = standby_pipe(shim)
        pid = daemon_of(shim)
        if path:
            wait_listening(path)
        assert stop(shim, task)
        return pid, path

    def warm(self) -> tuple[int, str]:
        """Run a cold start and stop it. Returns the pid and the pipe of the standby that it creates."""
        _, path = self.start()
        return server_of(path), path


def standby_pipe(shim: Shim) -> str:
    """The pipe of the standby that the daemon of a cold start creates; the command line of a spare has none."""
    return "".join(line.split(" -standby ")[1].split()[0] for line in command_lines(shim.id))


def wait_listening(path: str) -> None:
    eventually(lambda: endpoint.exists(path), "a standby")


def wait_closed(path: str) -> None:
    eventually(lambda: not endpoint.exists(path), "the exit of the standby")


def server_of(path: str) -> int:
    """The pid of the process that listens on the pipe. It listens again when this returns."""
    handle = dial_pipe(path, TIMEOUT)
    pid = ctypes.c_ulong()
    assert ctypes.windll.kernel32.GetNamedPipeServerProcessId(ctypes.c_void_p(handle), ctypes.byref(pid))
    _winapi.CloseHandle(handle)
    _winapi.WaitNamedPipe(path, int(TIMEOUT * 1000))
    return pid.value


class Text(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("capacity", ctypes.c_ushort), ("at", ctypes.c_void_p))


def command_line(pid: int) -> str:
    """The command line of a process, from its process environment block, where all process lists read it."""
    kernel32 = ctypes.windll.kernel32
    kernel32.ReadProcessMemory.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_size_t, ctypes.c_void_p]
    process = _winapi.OpenProcess(0x410, False, pid)  # to query and to read
    basic = (ctypes.c_void_p * 6)()
    ctypes.windll.ntdll.NtQueryInformationProcess(ctypes.c_void_p(process), 0, basic, ctypes.sizeof(basic), None)
    parameters, line = ctypes.c_void_p(), Text()
    kernel32.ReadProcessMemory(process, basic[1] + 0x20, ctypes.byref(parameters), 8, None)
    kernel32.ReadProcessMemory(process, parameters.value + 0x70, ctypes.byref(line), ctypes.sizeof(line), None)
    text = ctypes.create_unicode_buffer(line.length // 2)
    kernel32.ReadProcessMemory(process, line.at, text, line.length, None)
    _winapi.CloseHandle(process)
    return text[: line.length // 2]


def equals_cold_start(program: str, directory: str) -> Any:
    """A lifecycle by a cold start and by a spare: output, events, options, files."""
    node = Node(program, directory)
    options = PackedAny(type_url=Options.FULL_NAME, value=Options(log_level="debug").encode()).encode()
    found, path, spare = [], "", 0
    for _ in range(2):
        number = node.count + 1
        events = Events(f"{os.path.basename(directory)}-{number}")
        out = Pipe(f"standby-out-{number}")
        shim = node.shim("cmd /c echo %RUNHCS_STANDBY%& exit 7", events)
        task = node.begin(shim, options)
        by_spare = daemon_of(shim) == spare
        words = command_line(daemon_of(shim)).split()
        task.create(stdout=out.path)
        task.start()
        status = task.wait().exit_status
        text = out.text()
        task.delete()
        listed = sorted(os.listdir(shim.bundle))
        path = path or standby_pipe(shim)
        eventually(partial(events.topics.__contains__, "/tasks/delete"), "the events")
        wait_listening(path)
        spare = server_of(path)
        found.append({
            "status": status, "text": text, "files": listed, "by_spare": by_spare, "exited": stop(shim, task),
            "deleted": len(shim.delete()) > 0, "events": events.topics, "first": words[0] == node.program,
            "shown": [words[words.index("-id") + 1] == shim.id, words[words.index("-bundle") + 1] == shim.bundle],
            "last": words[-1],
        })  # fmt: skip
    return found


def disabled_by_default(program: str, directory: str) -> Any:
    """No standby by default; and a `start` by Python creates a standby, too."""
    node = Node(program, directory)
    shim = node.shim()
    task = node.begin(shim, RUNHCS_STANDBY="")
    without = ["-standby" in line for line in command_lines(shim.id)]
    stop(shim, task)
    _, path = node.start(RUNHCS_NATIVE="0")
    spare = server_of(path)
    return {"without": without, "by_spare": node.start() == (spare, "")}


def dead_standby(program: str, directory: str) -> Any:
    node = Node(program, directory)
    spare, path = node.warm()
    os.kill(spare, signal.SIGTERM)
    wait_closed(path)
    _, again = node.start()
    spare = server_of(path)
    return [again == path, node.start() == (spare, "")]


def connect_without_claim(program: str, directory: str) -> Any:
    """A client that connects and sends nothing, or an invalid claim, does not use up the standby."""
    node = Node(program, directory)
    spare, path = node.warm()
    stream = PipeStream(dial_pipe(path, TIMEOUT), TIMEOUT)
    awake = stream.recv(1)
    stream.sendall(b"\x08\0\0\0nonsense")
    closed = stream.recv(1)
    stream.release()
    return [awake.decode(), closed.decode(), server_of(path) == spare, node.start() == (spare, "")]


def wrong_servers(program: str, directory: str) -> Any:
    """Another process listens on the standby's pipe: each start is cold, and terminates that process."""
    node = Node(program, directory)
    spare, path = node.warm()
    found = {}
    for behaviour in ("silent", "wrong", "forgetful", "dying", "refusing"):
        os.kill(spare, signal.SIGTERM)
        wait_closed(path)
        fake = subprocess.Popen([sys.executable, __file__, path, behaviour])
        wait_listening(path)
        found[behaviour] = [node.start()[1] == path, fake.wait(TIMEOUT) != 0]
        spare = server_of(path)  # the daemon of that start has created a real standby
    return found


def run_fake_standby(path: str, behaviour: str) -> None:
    """A faulty standby."""
    stream = endpoint.Listener(endpoint.listen(path)).accept()
    if behaviour == "wrong":
        stream.sendall(b"X")
    elif behaviour != "silent":
        stream.sendall(b"A")
        stream.recv(1)
        if behaviour == "dying":
            os._exit(1)
        if behaviour == "refusing":
            stream.sendall(b"N")
    time.sleep(TIMEOUT)
    os._exit(0)


def upgraded(program: str, directory: str) -> Any:
    """An upgrade replaces the version that the standby has loaded."""
    node = Node(program, directory)
    _, path = node.warm()
    modules = os.path.join(node.folder, "containerd-shim-runhcs", "lib", "modules.bin")
    os.utime(modules, (1_700_000_000, 1_700_000_000))
    spare, other = node.warm()
    return [other != path, endpoint.exists(path), node.start() == (spare, "")]


def other_environment(program: str, directory: str) -> Any:
    """A caller with another environment than that of the standby: it starts cold."""
    node = Node(program, directory)
    _, path = node.warm()
    kernel32 = ctypes.windll.kernel32
    kernel32.CreateJobObjectW.restype = ctypes.c_void_p
    job = ctypes.c_void_p(kernel32.CreateJobObjectW(None, None))
    assert kernel32.AssignProcessToJobObject(job, ctypes.c_void_p(-1))  # children inherit it
    _, other = node.start()
    return [other not in ("", path), endpoint.exists(path)]


def idle(program: str, directory: str) -> Any:
    """An unused standby exits after its idle time."""
    node = Node(program, directory)
    shim = node.shim()
    task = node.begin(shim, RUNHCS_STANDBY_IDLE="3")
    path = standby_pipe(shim)
    wait_listening(path)
    wait_closed(path)
    return stop(shim, task)


def concurrent_starts(program: str, directory: str) -> Any:
    """Five concurrent starts: at most one uses the spare, all succeed, and one standby remains."""
    node = Node(program, directory)
    spare, path = node.warm()
    shims = [node.shim() for _ in range(5)]
    codes: list[int] = []

    def run(shim: Shim) -> None:
        codes.append(start(shim, **STANDBY_ON)[0])

    threads = [threading.Thread(target=run, args=(shim,)) for shim in shims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    tasks = [dial(shim) for shim in shims]
    pids = [task.connect().shim_pid for task in tasks]
    wait_listening(path)
    exits = [stop(shim, task) for shim, task in zip(shims, tasks, strict=True)]
    return {"codes": codes, "pids": len(set(pids)), "spares": pids.count(spare), "exited": exits}


def killed_start(program: str, directory: str) -> Any:
    """If a `start` is killed after the spare has accepted the claim, the daemon exits, too."""
    node = Node(program, directory)
    _, path = node.warm()
    shim = node.shim()
    shim.address = endpoint.address_for("", "wine", shim.id)
    pipe = endpoint.listen(shim.address)
    log = open(os.path.join(shim.bundle, "panic.log"), "wb")  # noqa: SIM115  # the daemon's, too
    handle = dial_pipe(path, TIMEOUT)
    stream = PipeStream(handle, TIMEOUT)
    awake = stream.recv(1)
    pid = ctypes.c_ulong()
    ctypes.windll.kernel32.GetNamedPipeServerProcessId(ctypes.c_void_p(handle), ctypes.byref(pid))
    spare = _winapi.OpenProcess(0x40, False, pid.value)
    mine = _winapi.GetCurrentProcess()
    given = [
        _winapi.DuplicateHandle(mine, one, spare, 0, False, _winapi.DUPLICATE_SAME_ACCESS)
        for one in (pipe.handle, msvcrt.get_osfhandle(log.fileno()))
    ]
    words = [*shim.flags, "-bundle", shim.bundle, "-socket", shim.address, "-spawned", "-listener", str(given[0])]
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    texts = [PROTOCOL, str(given[1]), str(len(words) + 1), *words, "serve", *variables]
    claim = "".join(f"{text}\0" for text in texts).encode()
    stream.sendall(len(claim).to_bytes(4, "little") + claim + bytes(4))
    taken = stream.recv(1)
    pipe.close()
    connected = dial(shim).connect().shim_pid == pid.value
    stream.release()
    return [awake.decode(), taken.decode(), connected, wait_process_exit(pid.value), shim.wait_exited()]


def protected(program: str, directory: str) -> Any:
    """The security descriptor of the standby's pipe."""
    node = Node(program, directory)
    _, path = node.warm()
    handle = dial_pipe(path, TIMEOUT)
    text, found = ctypes.c_wchar_p(), ctypes.c_void_p()
    advapi32 = ctypes.windll.advapi32
    advapi32.GetSecurityInfo(ctypes.c_void_p(handle), 6, 4, None, None, None, None, ctypes.byref(found))
    advapi32.ConvertSecurityDescriptorToStringSecurityDescriptorW(found, 1, 4, ctypes.byref(text), None)
    _winapi.CloseHandle(handle)
    return [path.rpartition("\\")[0], text.value]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        run_fake_standby(sys.argv[1], sys.argv[2])
    main(
        equals_cold_start, disabled_by_default, dead_standby, connect_without_claim, wrong_servers, upgraded,
        other_environment, idle, concurrent_starts, killed_start, protected,
    )  # fmt: skip
