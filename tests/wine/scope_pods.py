"""Pods that share a daemon under Wine, for scope_driver.py and scope_faults_driver.py."""

from __future__ import annotations

import _winapi
import ctypes
import os
import shutil
import signal
from typing import Any

from runhcs.task_client import TaskClient
from shim.commands import SHIM_SCOPE
from shim.platform.windows import daemon, endpoint, shared
from tests.support.eventually import eventually
from tests.wine.driver import Events, Shim
from tests.wine.shim_scenarios import boot_image, isolated
from tests.wine.standby_driver import Node
from tests.wine.start_driver import command_lines, daemon_of, dial, start, wait_process_exit

FOREVER = "cmd /c ping -n 600 127.0.0.1"


class Pods(Node):
    """A copy of the distribution, so that no other test shares its daemons."""

    def __init__(self, program: str, directory: str) -> None:
        super().__init__(program, directory)
        self.events = Events(os.path.basename(directory))
        self.environment: dict[str, str] = {}
        self._pids: set[int] = set()

    def pod(self, scope: str = "node", command: str = FOREVER, in_vm: bool = False) -> Pod:
        shim = self.new_shim(scope, command, in_vm)
        code, output = start(shim, **self.environment)
        assert code == 0 and output == shim.address, output
        pod = Pod(shim, in_vm)
        self._pids.add(pod.pid)
        return pod

    def close(self) -> None:
        """Terminate the daemons that are left."""
        for pid in filter(daemon.is_running, self._pids):
            terminate(pid)

    def new_shim(self, scope: str, command: str = FOREVER, in_vm: bool = False) -> Shim:
        self.count += 1
        name = f"{os.path.basename(self.directory)}-{self.count}"
        windows: dict[str, Any] = {"hyperv": {}} if in_vm else {}
        annotations = {SHIM_SCOPE: scope}
        shim = Shim(
            self.program, self.directory, name, command, self.events, annotations=annotations, windows=windows
        )  # fmt: skip
        if in_vm:
            boot_image(self.directory)
        return shim

    def crash_logs(self) -> list[str]:
        """Files of daemons beside the bundles."""
        return [name for name in os.listdir(self.directory) if name.startswith(shared.CRASH_LOG)]


class Pod:
    def __init__(self, shim: Shim, in_vm: bool = False) -> None:
        self.shim = shim
        self._options = isolated() if in_vm else None
        self.task: TaskClient = dial(shim)
        self.pid = self.task.connect().shim_pid
        assert self.pid == daemon_of(shim)
        #: Exit code and stderr of its `delete`.
        self.deleted = -1, ""

    @property
    def is_shared(self) -> bool:
        return os.path.exists(os.path.join(self.shim.bundle, "daemon-panic.log"))

    def is_served(self) -> bool:
        return dial(self.shim).connect().shim_pid == self.pid

    def create(self) -> None:
        self.task.create(options=self._options)

    def run(self) -> int:
        """A container until its end; returns its exit status."""
        self.create()
        self.task.start()
        status = self.task.wait().exit_status
        self.task.delete()
        return status

    def run_and_kill(self) -> None:
        """A container and an exec, both killed."""
        process = {"cwd": "C:\\", "commandLine": FOREVER, "args": [], "user": {}}
        self.create()
        self.task.start()
        self.task.exec("e1", process)
        self.task.start("e1")
        self.task.stats()
        self.task.pids()
        self.task.kill(9, "e1")
        self.task.wait("e1")
        self.task.delete("e1")
        self.task.kill(9)
        self.task.wait()
        self.task.delete()

    def end(self) -> bool:
        """Shutdown; containerd removes the bundle right after its response."""
        self.task.shutdown()
        shutil.rmtree(self.shim.bundle)
        log = rf"\\.\pipe\containerd-shim-wine-{self.shim.id}-log"
        eventually(lambda: not endpoint.exists(log), "the end of its log pipe")
        return self.shim.wait_exited()

    def control_pipe(self) -> str:
        """That of the daemon, which this pod has started."""
        (line,) = command_lines(self.shim.id)
        return line.split(" -socket ")[1].split()[0]


def terminate(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)  # TerminateProcess
    wait_process_exit(pid)


def crash(pid: int) -> None:
    """An access violation: a thread begins at an address without code."""
    process = _winapi.OpenProcess(0x1FFFFF, False, pid)
    create = ctypes.windll.kernel32.CreateRemoteThread
    create.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p,
                       ctypes.c_ulong, ctypes.c_void_p]  # fmt: skip
    assert create(process, None, 0, 16, None, 0, None)
    wait_process_exit(pid)


class HandleEntry(ctypes.Structure):
    """SYSTEM_HANDLE_TABLE_ENTRY_INFO_EX."""

    _fields_ = (("object", ctypes.c_void_p), ("pid", ctypes.c_size_t), ("handle", ctypes.c_size_t),
                ("access", ctypes.c_ulong), ("trace", ctypes.c_ushort), ("type", ctypes.c_ushort),
                ("attributes", ctypes.c_ulong), ("reserved", ctypes.c_ulong))  # fmt: skip


def count_handles(pid: int) -> int:
    """How many handles a process has. Wine does not count them for GetProcessHandleCount."""
    buffer = ctypes.create_string_buffer(8 << 20)
    assert ctypes.windll.ntdll.NtQuerySystemInformation(64, buffer, len(buffer), None) == 0
    count = ctypes.c_size_t.from_buffer(buffer).value
    return sum(entry.pid == pid for entry in (HandleEntry * count).from_buffer(buffer, 16))
