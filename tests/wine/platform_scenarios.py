"""Scenarios of `shim/platform/windows` besides the lifecycle of a container; run like driver.py, under Wine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from runhcs.selftest.client_pipe import ClientPipe  # noqa: E402
from runhcs.shim_driver import REMOVE_SECONDS, remove_tree  # noqa: E402
from runhcs.task_client import TaskClient  # noqa: E402
from shim.api.task import DeleteResponse  # noqa: E402
from shim.platform.windows import endpoint  # noqa: E402
from shim.platform.windows.files import native  # noqa: E402
from shim.ttrpc.status import StatusError  # noqa: E402
from tests.wine.driver import TIMEOUT, Pipe, Shim, main, security_descriptor  # noqa: E402

BOTH = "cmd /c echo to the output& echo to the errors 1>&2"
FOREVER = "cmd /c ping -n 600 127.0.0.1 >nul"
LINES = "tick"
PROCESS_ALL_ACCESS = 0x1FFFFF
SEM_FAILCRITICALERRORS = 1
MEM_COMMIT, PAGE_READWRITE = 0x1000, 4
# Longer than MAX_PATH.
LONG = [letter * 60 for letter in "abcdef"]


def _read(path: str) -> str:
    with open(native(path), encoding="utf-8") as file:
        return file.read()


def _eventually(condition: Any) -> bool:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _end(shim: Shim, task: TaskClient) -> bool:
    """Delete the task and shut down the shim. Returns whether it exited."""
    task.delete()
    task.shutdown()
    return shim.wait_exited()


def _kill(shim: Shim, task: TaskClient) -> bool:
    task.kill(9)
    task.wait()
    return _end(shim, task)


def file_log(program: str, directory: str) -> Any:
    """`file` log URIs: the shim creates the files and their directories."""
    shim = Shim(program, directory, "file-log", BOTH)
    path = os.path.join(directory, "logs", "deep", "out put.log")
    uri = "file:///" + path.replace("\\", "/").replace(" ", "%20")
    task = shim.start()
    task.create(stdout=uri, stderr=uri + ".err")
    task.start()
    status = task.wait().exit_status
    gone = _end(shim, task)
    return {"status": status, "out": _read(path), "err": _read(path + ".err"), "gone": gone}


def binary_log(program: str, directory: str) -> Any:
    """`binary` log URIs: a program of the client reads both streams."""
    shim = Shim(program, directory, "binary-log", BOTH)
    path = os.path.join(directory, "logged")
    uri = "binary:///C:/windows/system32/logger.exe?to=" + path.replace("\\", "%5C")
    task = shim.start()
    task.create(stdout=uri, stderr=uri)
    task.start()
    status = task.wait().exit_status
    written = _eventually(lambda: os.path.exists(path + ".err") and _read(path) and _read(path + ".err"))
    return {
        "status": status, "written": written, "out": _read(path), "err": _read(path + ".err"), "gone": _end(shim, task),
    }  # fmt: skip


def binary_log_missing(program: str, directory: str) -> Any:
    """A missing logger, and one that exits without opening its pipes: Create fails, and the shim exits."""
    answers = []
    for name, uri in (
        ("missing", "binary:///C:/nowhere/logger.exe"),
        ("mute", "binary:///C:/windows/system32/whoami.exe"),
    ):
        shim = Shim(program, directory, f"logger-{name}", BOTH)
        task = shim.start()
        try:
            task.create(stdout=uri)
            answers.append("created")
        except StatusError as error:
            answers.append(error.message)
        task.shutdown()
        answers.append(str(shim.wait_exited()))
    return answers


def long_paths(program: str, directory: str) -> Any:
    """Layers and a log whose paths are longer than MAX_PATH."""
    shim = Shim(program, directory, "long", BOTH)
    deep = os.path.join(directory, *LONG)
    layers = [os.path.join(deep, "base"), os.path.join(deep, "scratch")]
    os.makedirs(native(os.path.join(layers[0], "Files")))
    os.makedirs(native(os.path.join(layers[1], "sandbox.vhdx.d")))
    with open(native(os.path.join(layers[1], "sandbox.vhdx")), "w") as file:
        file.write('{"Size": 1073741824}')
    config = os.path.join(shim.bundle, "config.json")
    with open(config, encoding="utf-8") as file:
        spec = json.load(file)
    spec["windows"]["layerFolders"] = layers
    with open(config, "w", encoding="utf-8") as file:
        json.dump(spec, file)
    log = os.path.join(deep, "log", "out.log")
    task = shim.start()
    task.create(stdout="file:///" + log.replace("\\", "/"))
    task.start()
    status = task.wait().exit_status
    gone = _end(shim, task)
    return {"status": status, "length": len(log), "out": _read(log), "gone": gone}


def long_bundle(program: str, directory: str) -> Any:
    """A bundle whose own path is longer than MAX_PATH, in Create and in `delete`; one task exits, one shim is killed.

    `start` runs in a short directory: CreateProcess takes no longer one.
    """
    found = []
    for name, command in (("long-bundle", "cmd /c exit 9"), ("long-killed", FOREVER)):
        shim = Shim(program, directory, name, command)
        deep = os.path.join(directory, *LONG, name)
        os.makedirs(native(deep))
        shutil.copy(os.path.join(shim.bundle, "config.json"), native(os.path.join(deep, "config.json")))
        task = shim.start()
        with open(os.path.join(shim.bundle, "shim.pid")) as file:
            pid = int(file.read())
        task.bundle = shim.bundle = deep
        task.create()
        task.start()
        if command == FOREVER:
            os.kill(pid, signal.SIGTERM)
        else:
            task.wait()
            _end(shim, task)
        gone = shim.wait_exited()
        files = sorted(os.listdir(native(deep)))
        status = DeleteResponse.decode(shim.delete()).exit_status
        found.append({"length": len(deep), "files": files, "status": status, "gone": gone, "ledger": _ledger(deep)})
    return found


def _ledger(bundle: str) -> int:
    """How many resources the ledger lists."""
    from shim.container.ledger import Ledger

    return len(Ledger(bundle).entries())


def _call_in(pid: int, function: str, text: str = "") -> int:
    """The result (32 bits) of a function of kernel32 in another process, with a string as its argument. kernel32 is at
    the same address in all processes."""
    import ctypes
    from ctypes import wintypes

    kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
    for one in ("OpenProcess", "GetProcAddress", "CreateRemoteThread", "GetModuleHandleW", "VirtualAllocEx"):
        getattr(kernel32, one).restype = ctypes.c_void_p
    address = kernel32.GetProcAddress(ctypes.c_void_p(kernel32.GetModuleHandleW("kernel32")), function.encode())
    process = ctypes.c_void_p(kernel32.OpenProcess(PROCESS_ALL_ACCESS, False, pid))
    data = (text + "\0").encode("utf-16-le")
    size = ctypes.c_size_t(len(data))
    place = ctypes.c_void_p(kernel32.VirtualAllocEx(process, None, size, MEM_COMMIT, PAGE_READWRITE))
    assert kernel32.WriteProcessMemory(process, place, data, size, None), ctypes.get_last_error()
    thread = kernel32.CreateRemoteThread(process, None, 0, ctypes.c_void_p(address), place, 0, None)
    assert thread, ctypes.get_last_error()
    result = wintypes.DWORD()
    kernel32.WaitForSingleObject(ctypes.c_void_p(thread), int(TIMEOUT * 1000))
    kernel32.GetExitCodeThread(ctypes.c_void_p(thread), ctypes.byref(result))
    return result.value


def error_mode(program: str, directory: str) -> Any:
    """The error mode of the daemon. CPython changes that of the process while it loads an extension module
    (`SetErrorMode` in Python/dynload_win.c), and a daemon still imports some when it is connected."""
    shim = Shim(program, directory, "error-mode", FOREVER)
    task = shim.start()
    daemon = task.connect().shim_pid
    mode, deadline = _call_in(daemon, "GetErrorMode"), time.monotonic() + TIMEOUT
    while mode == SEM_FAILCRITICALERRORS and time.monotonic() < deadline:
        time.sleep(0.1)
        mode = _call_in(daemon, "GetErrorMode")
    task.shutdown()
    return {"daemon": mode, "driver": _call_in(os.getpid(), "GetErrorMode"), "gone": shim.wait_exited()}


def restored_error_mode(program: str, directory: str) -> Any:
    """The mode after what two threads can leave that load extension modules at the same time."""
    import msvcrt

    from shim.platform.windows import daemon

    before = msvcrt.GetErrorMode()
    msvcrt.SetErrorMode(SEM_FAILCRITICALERRORS)
    try:
        daemon.restore_error_mode()
        return msvcrt.GetErrorMode()
    finally:
        msvcrt.SetErrorMode(before)


def planted_library(program: str, directory: str) -> Any:
    """Whether the daemon loads a DLL of its current directory, or of PATH, by its name; and by its path."""
    shim = Shim(program, directory, "planted", FOREVER)
    in_path = os.path.join(directory, "in-path")
    os.makedirs(in_path)
    library = os.path.join(os.environ["SYSTEMROOT"], "system32", "etw-stub.dll")
    shutil.copy(library, os.path.join(shim.bundle, "planted.dll"))
    shutil.copy(library, os.path.join(in_path, "in-path.dll"))
    shim.environment["PATH"] = f"{in_path};{os.environ['PATH']}"
    task = shim.start()
    names = ("planted.dll", "in-path.dll", os.path.join(shim.bundle, "planted.dll"))
    loaded = [bool(_call_in(task.connect().shim_pid, "LoadLibraryW", name)) for name in names]
    task.shutdown()
    return {"loaded": loaded, "gone": shim.wait_exited()}


def read_directory(program: str, directory: str) -> Any:
    """Whether a directory is removed that another thread reads, and one that stays in use."""
    found = {}
    for name, seconds in (("read", 0.5), ("in use", 2 * REMOVE_SECONDS)):
        path = Path(directory) / name
        (path / "below" / "deeper").mkdir(parents=True)
        entries = os.scandir(path / "below")
        next(entries)
        timer = threading.Timer(seconds, entries.close)
        timer.start()
        found[name] = remove_tree(path)
        timer.cancel()
        entries.close()
    return found


def other_libraries(program: str, directory: str) -> Any:
    """The variable that names other HCS libraries on Linux, and a file in its directory that is no DLL."""
    other = os.path.join(directory, "other")
    os.makedirs(other)
    for name in ("computecore.dll", "libcomputecore.so"):
        with open(os.path.join(other, name), "w") as file:
            file.write("no library")
    shim = Shim(program, directory, "libraries", "cmd /c exit 5")
    shim.environment["HCS_LIBRARY_PATH"] = other
    task = shim.start()
    task.create()
    task.start()
    return {"status": task.wait().exit_status, "gone": _end(shim, task)}


def job_pipes(program: str, directory: str) -> Any:
    """The security descriptors of the pipes for the stdio of a host process, in both directions."""
    import _winapi

    from shim.platform.windows import job_pipes

    found = []
    for reads in (True, False):
        ours, theirs = job_pipes.create(reads)
        found.append([security_descriptor(ours), security_descriptor(theirs)])
        _winapi.CloseHandle(ours)
        _winapi.CloseHandle(theirs)
    return found


def log_pipe(program: str, directory: str) -> Any:
    """containerd reads the log, goes, and comes back: what is logged then reaches the new reader, in whole lines."""
    shim = Shim(program, directory, "log-pipe", FOREVER)
    shim.flags.append("-debug")
    task = shim.start()
    path = r"\\.\pipe\containerd-shim-wine-log-pipe-log"
    _eventually(lambda: endpoint.exists(path))  # it is created a moment after `start` prints the address
    first = endpoint.connect(path, TIMEOUT)
    before = first.recv(65536)
    first.release()
    task.create()
    task.start()
    second = endpoint.connect(path, TIMEOUT)
    after: list[bytes] = []

    def read() -> None:
        try:
            while data := second.recv(65536):
                after.append(data)
        except OSError:
            pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    gone = _kill(shim, task)
    reader.join(TIMEOUT)
    return {"before": before.decode(), "after": b"".join(after).decode(), "gone": gone}


def redialled(program: str, directory: str) -> Any:
    """The client's pipe breaks and is created again under its name: output continues, and no line is lost."""
    shim = Shim(program, directory, "redialled", LINES)
    first = Pipe("redialled-stdout")
    task = shim.start()
    task.create(stdout=first.path)
    task.start()
    heard = _eventually(lambda: b"line 2" in first.data)
    first.close()
    first._listener.release()  # no process has the name now
    second = Pipe("redialled-stdout")
    again = _eventually(lambda: second.data.count(b"\n") >= 3)
    gone = _kill(shim, task)
    return {"heard": heard, "again": again, "first": first.data.decode(), "second": second.text(), "gone": gone}


def squatted_log(program: str, directory: str) -> Any:
    """Another process has the name of the log pipe: it reads nothing, and the shim works."""
    path = r"\\.\pipe\containerd-shim-wine-squatted-log-log"
    held = endpoint.create(path, first=True)
    shim = Shim(program, directory, "squatted-log", "cmd /c exit 4")
    task = shim.start()
    task.create()
    task.start()
    status = task.wait().exit_status
    gone = _end(shim, task)
    endpoint.ListeningPipe(path, held).close()
    return {"status": status, "gone": gone}


def departed_clients(program: str, directory: str) -> Any:
    """Two shims that leave before their connection is accepted: one has written, the other was to read."""
    written, unread = ClientPipe("departed-output"), ClientPipe("departed-input")
    shim = endpoint.connect(written.path, TIMEOUT)
    shim.sendall(b"the last words")
    shim.release()
    endpoint.connect(unread.path, TIMEOUT).release()
    stream = written.accept()
    found = [stream.recv(100).decode(), stream.recv(100).decode()]
    try:
        unread.accept().sendall(b"input")
        failed = False
    except OSError:
        failed = True
    for pipe in (written, unread):
        pipe.close()
    return {"read": found, "failed": failed}


def stopped_accept(program: str, directory: str) -> Any:
    """A pipe that is stopped while it waits for a shim, and before."""
    errors: list[str] = []
    pipe, early = ClientPipe("stopped"), ClientPipe("stopped-early")

    def accept(one: ClientPipe) -> None:
        try:
            one.accept()
        except OSError as error:
            errors.append(str(error))

    waiting = threading.Thread(target=accept, args=(pipe,), daemon=True)
    waiting.start()
    _eventually(lambda: pipe._waiting is not None)
    pipe.stop()
    waiting.join(TIMEOUT)
    ended = not waiting.is_alive()
    early.stop()
    accept(early)
    for one in (pipe, early):
        one.close()
    return {"ended": ended, "errors": errors}


def variables(program: str, directory: str) -> Any:
    """Lookup of environment variables in several spellings."""
    code = "from shim.platform.windows import files; print(*map(files.environment, ('SYSTEMROOT', 'oTHER', 'NONE')))"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {ROOT!r}); {code}"]
    environment = {key: value for key, value in os.environ.items() if key != "SYSTEMROOT"}
    environment |= {"SystemRoot": os.environ["SYSTEMROOT"], "Other": "found"}
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=TIMEOUT)
    return {"found": done.stdout.decode().split(), "system": os.environ["SYSTEMROOT"]}


class _Lines:
    """A log channel that keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: bytes) -> None:
        self.lines.append(line.decode())

    def close(self) -> None:
        """Nothing to close."""


def etw_events(program: str, directory: str) -> Any:
    """Log entries and a capture-state, through the real calling convention, to a DLL that records them."""
    from shim.logs import DEBUG, Log
    from shim.platform.windows._etw_cffi import ffi
    from shim.platform.windows.log_events import EtwSink

    recording = os.path.join(directory, "events.bin")
    os.environ["ETW_STUB_FILE"] = recording
    library: Any = ffi.dlopen("etw-stub.dll")
    captured = threading.Event()
    channel = _Lines()
    log = Log(channel, DEBUG).bind(tid="c1")

    def capture() -> None:
        log.info("goroutine stack dump", stack="thread 1")
        captured.set()

    sink = EtwSink.register("1.2.3", ["shim.exe", "serve"], capture, library)
    assert sink is not None
    log.add_sink(sink)
    log.info("task created", pid=42, rootfs="C:\\layers", terminal=True)
    log.error("failed to publish exit", error=OSError("r\u00e9seau"), attempt=3)
    log.debug("rpc", method="State", duration=0.25)
    import ctypes

    ctypes.WinDLL("etw-stub.dll").CaptureState()
    return {"recording": recording, "lines": channel.lines, "captured": captured.wait(TIMEOUT)}


if __name__ == "__main__":
    main(
        file_log, binary_log, binary_log_missing, long_paths, long_bundle, error_mode, restored_error_mode,
        planted_library, read_directory, other_libraries, job_pipes, log_pipe, redialled, squatted_log,
        departed_clients, stopped_accept, variables, etw_events,
    )  # fmt: skip
