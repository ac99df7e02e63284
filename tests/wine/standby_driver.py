"""Standbys inside Wine: run by Python for Windows, against a copy of the shim as unpacked.

`python.exe standby_driver.py EXE DIRECTORY SCENARIO`, as driver.py, whose client this uses. Wherever a standby stands
in the way of a start, it is one that the scenario plays: `python.exe standby_driver.py PIPE BEHAVIOUR`.
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
from tests.wine.driver import PATIENCE, Events, Pipe, Shim, main  # noqa: E402
from tests.wine.start_driver import command_lines, daemon_of, dial, end, has_ended, start  # noqa: E402

FOREVER = "cmd /c ping -n 600 127.0.0.1"
ON = {"RUNHCS_STANDBY": "1", "RUNHCS_STANDBY_IDLE": "60"}


class Node:
    """A copy of the distribution, so that its standbys are nobody else's."""

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
        """A start, which must succeed whatever there is of a standby."""
        code, said = start(shim, stdin, **ON | more)
        assert code == 0 and said == shim.address, said
        task = dial(shim)
        assert task.connect().shim_pid == daemon_of(shim)
        return task

    def start(self, **more: str) -> tuple[int, str]:
        """Begin and end: the daemon's pid, and the pipe of the standby that it was told to leave, "" by a spare."""
        shim = self.shim()
        task = self.begin(shim, **more)
        door = told(shim)
        pid = daemon_of(shim)
        if door:
            listens(door)
        assert end(shim, task)
        return pid, door

    def warm(self) -> tuple[int, str]:
        """A cold start, its end, and the standby that it leaves: its pid and pipe."""
        _, door = self.start()
        return server_of(door), door


def told(shim: Shim) -> str:
    """Where a daemon of a cold start was told to leave a standby; a spare's command line tells nothing of it."""
    return "".join(line.split(" -standby ")[1].split()[0] for line in command_lines(shim.id))


def listens(door: str) -> None:
    eventually(lambda: endpoint.exists(door), "a standby")


def gone(door: str) -> None:
    eventually(lambda: not endpoint.exists(door), "the standby's end")


def server_of(door: str) -> int:
    """The pid of who listens there, and does so again when this returns."""
    handle = dial_pipe(door, PATIENCE)
    pid = ctypes.c_ulong()
    assert ctypes.windll.kernel32.GetNamedPipeServerProcessId(ctypes.c_void_p(handle), ctypes.byref(pid))
    _winapi.CloseHandle(handle)
    _winapi.WaitNamedPipe(door, int(PATIENCE * 1000))
    return pid.value


class Text(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("room", ctypes.c_ushort), ("at", ctypes.c_void_p))


def shown(pid: int) -> str:
    """The command line of a process, from where all that list processes have it: its environment block."""
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


def alike(program: str, directory: str) -> Any:
    """A whole life by a cold start and by a spare: output, events, options, files."""
    node = Node(program, directory)
    options = PackedAny(type_url=Options.FULL_NAME, value=Options(log_level="debug").encode()).encode()
    found, door, spare = [], "", 0
    for _ in range(2):
        number = node.count + 1
        events = Events(f"{os.path.basename(directory)}-{number}")
        out = Pipe(f"standby-out-{number}")
        shim = node.shim("cmd /c echo %RUNHCS_STANDBY%& exit 7", events)
        task = node.begin(shim, options)
        by_spare = daemon_of(shim) == spare
        words = shown(daemon_of(shim)).split()
        task.create(stdout=out.path)
        task.start()
        status = task.wait().exit_status
        text = out.text()
        task.delete()
        listed = sorted(os.listdir(shim.bundle))
        door = door or told(shim)
        eventually(partial(events.topics.__contains__, "/tasks/delete"), "the events")
        listens(door)
        spare = server_of(door)
        found.append({
            "status": status, "text": text, "files": listed, "by_spare": by_spare, "gone": end(shim, task),
            "deleted": len(shim.delete()) > 0, "events": events.topics, "first": words[0] == node.program,
            "shown": [words[words.index("-id") + 1] == shim.id, words[words.index("-bundle") + 1] == shim.bundle],
            "last": words[-1],
        })  # fmt: skip
    return found


def switched(program: str, directory: str) -> Any:
    """Off unless asked for; and a start that Python does leaves a standby, too."""
    node = Node(program, directory)
    shim = node.shim()
    task = node.begin(shim, RUNHCS_STANDBY="")
    without = ["-standby" in line for line in command_lines(shim.id)]
    end(shim, task)
    _, door = node.start(RUNHCS_NATIVE="0")
    spare = server_of(door)
    return {"without": without, "by_spare": node.start() == (spare, "")}


def dead(program: str, directory: str) -> Any:
    node = Node(program, directory)
    spare, door = node.warm()
    os.kill(spare, signal.SIGTERM)
    gone(door)
    _, again = node.start()
    spare = server_of(door)
    return [again == door, node.start() == (spare, "")]


def looked_at(program: str, directory: str) -> Any:
    """Whoever dials and says nothing, or nonsense, leaves a standby that can still be used."""
    node = Node(program, directory)
    spare, door = node.warm()
    stream = PipeStream(dial_pipe(door, PATIENCE), PATIENCE)
    awake = stream.recv(1)
    stream.sendall(b"\x08\0\0\0nonsense")
    closed = stream.recv(1)
    stream.release()
    return [awake.decode(), closed.decode(), server_of(door) == spare, node.start() == (spare, "")]


def obstacles(program: str, directory: str) -> Any:
    """What is no standby, in its place: each start is cold, and rid of it."""
    node = Node(program, directory)
    spare, door = node.warm()
    found = {}
    for behaviour in ("silent", "wrong", "forgetful", "dying", "refusing"):
        os.kill(spare, signal.SIGTERM)
        gone(door)
        fake = subprocess.Popen([sys.executable, __file__, door, behaviour])
        listens(door)
        found[behaviour] = [node.start()[1] == door, fake.wait(PATIENCE) != 0]
        spare = server_of(door)  # the daemon of that start has made a true one
    return found


def play(door: str, behaviour: str) -> None:
    """A false standby."""
    stream = endpoint.Listener(endpoint.listen(door)).accept()
    if behaviour == "wrong":
        stream.sendall(b"X")
    elif behaviour != "silent":
        stream.sendall(b"A")
        stream.recv(1)
        if behaviour == "dying":
            os._exit(1)
        if behaviour == "refusing":
            stream.sendall(b"N")
    time.sleep(PATIENCE)
    os._exit(0)


def upgraded(program: str, directory: str) -> Any:
    """Another version in the place of the one that the standby has loaded."""
    node = Node(program, directory)
    _, door = node.warm()
    modules = os.path.join(node.folder, "containerd-shim-runhcs", "lib", "modules.bin")
    os.utime(modules, (1_700_000_000, 1_700_000_000))
    spare, other = node.warm()
    return [other != door, endpoint.exists(door), node.start() == (spare, "")]


def others(program: str, directory: str) -> Any:
    """A caller whose daemon would be another process than the standby is: it starts cold."""
    node = Node(program, directory)
    _, door = node.warm()
    kernel32 = ctypes.windll.kernel32
    kernel32.CreateJobObjectW.restype = ctypes.c_void_p
    job = ctypes.c_void_p(kernel32.CreateJobObjectW(None, None))
    assert kernel32.AssignProcessToJobObject(job, ctypes.c_void_p(-1))  # children inherit it
    _, other = node.start()
    return [other not in ("", door), endpoint.exists(door)]


def idle(program: str, directory: str) -> Any:
    """It goes when nobody has needed it."""
    node = Node(program, directory)
    shim = node.shim()
    task = node.begin(shim, RUNHCS_STANDBY_IDLE="3")
    door = told(shim)
    listens(door)
    gone(door)
    return end(shim, task)


def crowd(program: str, directory: str) -> Any:
    """Five starts at once: one has the spare at most, all succeed, and one standby is left."""
    node = Node(program, directory)
    spare, door = node.warm()
    shims = [node.shim() for _ in range(5)]
    codes: list[int] = []

    def run(shim: Shim) -> None:
        codes.append(start(shim, **ON)[0])

    threads = [threading.Thread(target=run, args=(shim,)) for shim in shims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    tasks = [dial(shim) for shim in shims]
    pids = [task.connect().shim_pid for task in tasks]
    listens(door)
    ends = [end(shim, task) for shim, task in zip(shims, tasks, strict=True)]
    return {"codes": codes, "pids": len(set(pids)), "spares": pids.count(spare), "gone": ends}


def orphaned(program: str, directory: str) -> Any:
    """A start that dies after the spare has taken everything takes the daemon with it."""
    node = Node(program, directory)
    _, door = node.warm()
    shim = node.shim()
    shim.address = endpoint.address_for("", "wine", shim.id)
    pipe = endpoint.listen(shim.address)
    log = open(os.path.join(shim.bundle, "panic.log"), "wb")  # noqa: SIM115  # the daemon's, too
    handle = dial_pipe(door, PATIENCE)
    stream = PipeStream(handle, PATIENCE)
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
    return [awake.decode(), taken.decode(), connected, has_ended(pid.value), shim.gone()]


def protected(program: str, directory: str) -> Any:
    """Who may open a standby's pipe."""
    node = Node(program, directory)
    _, door = node.warm()
    handle = dial_pipe(door, PATIENCE)
    text, found = ctypes.c_wchar_p(), ctypes.c_void_p()
    advapi32 = ctypes.windll.advapi32
    advapi32.GetSecurityInfo(ctypes.c_void_p(handle), 6, 4, None, None, None, None, ctypes.byref(found))
    advapi32.ConvertSecurityDescriptorToStringSecurityDescriptorW(found, 1, 4, ctypes.byref(text), None)
    _winapi.CloseHandle(handle)
    return [door.rpartition("\\")[0], text.value]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        play(sys.argv[1], sys.argv[2])
    main(alike, switched, dead, looked_at, obstacles, upgraded, others, idle, crowd, orphaned, protected)
