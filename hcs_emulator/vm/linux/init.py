"""Init of a Linux VM: what the kernel, /init and vsockexec do in a VM of Hyper-V.

The worker forks it into a new pid namespace. It creates the other namespaces and the root, tells the worker, waits
until the machine's devices are there, and runs the agent. When the agent exits it exits too, and with it the whole VM.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import sys
import termios
import traceback
from typing import Any, NoReturn

from hcs_emulator.service.virtual_machine.cgroups import Cgroups
from hcs_emulator.vm.linux import root, syscalls

READY, GO = b"R", b"G"
ENTROPY_BYTES = 512
_NAMESPACES = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWCGROUP
_ENVIRONMENT = {"PATH": "/sbin:/usr/sbin:/bin:/usr/bin", "HOME": "/", "TERM": "linux"}
_FILES_SOFT, _FILES_HARD = 1024, 1 << 20
_TIMEOUT = 30.0
PANIC = 1


def run(machine: dict[str, Any], cgroups: Cgroups, worker: socket.socket, console: int | None) -> NoReturn:
    """The life of the process. Never returns to the worker's code. `console` is the terminal of a shell."""
    status = PANIC
    try:
        _close_descriptors(worker.fileno(), console)
        _prepare(machine, cgroups, worker)
        status = _boot(machine, console)
    except BaseException as error:
        os.write(2, f"the Linux VM cannot boot: {type(error).__name__}: {error}\n".encode())
        try:
            worker.sendall(f"{type(error).__name__}: {error}".encode())
        except OSError:
            pass
    finally:
        os._exit(status)


def _close_descriptors(*kept: int | None) -> None:
    """Those of the worker: the guest must not keep its channel open."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # the one of this listing


def _prepare(machine: dict[str, Any], cgroups: Cgroups, worker: socket.socket) -> None:
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    cgroups.enter()
    syscalls.unshare(syscalls.CLONE_NEWNET)
    syscalls.unshare(_NAMESPACES)
    syscalls.set_hostname(root.HOSTNAME)
    mount_point = os.path.join(machine["directory"], "hvsock", machine["runtime_id"])
    root.build(mount_point, cgroups, machine["agent"], machine["host_directories"], machine["network_namespace"])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES_SOFT, hard), min(_FILES_HARD, hard)))
    worker.sendall(READY)
    worker.settimeout(_TIMEOUT)
    if worker.recv(1) != GO:
        raise ConnectionError("the worker has gone")
    worker.close()


def _boot(machine: dict[str, Any], console: int | None) -> int:
    boot = machine["boot"]
    _read_entropy(boot["entropy_port"])
    try:
        streams = _connect_streams(boot["ports"])
    except OSError as error:
        os.write(2, f"vsockexec: {error}\n".encode())
        return 1  # of vsockexec: the VM stops
    agent = os.fork()
    if agent == 0:
        _run_agent(machine, streams)
    for stream in streams.values():
        stream.close()
    # With a console the command is a shell that has started the agent: the VM ends with the shell.
    command = agent if console is None else _start_shell(console)
    while True:
        pid, status = os.wait()
        if pid == command:
            return os.waitstatus_to_exitcode(status) & 0xFF


def _start_shell(console: int) -> int:
    shell = os.fork()
    if shell == 0:
        try:
            os.setsid()
            fcntl.ioctl(console, termios.TIOCSCTTY, 0)
            for number in range(3):
                os.dup2(console, number)
            os.execve("/bin/sh", ["sh"], _ENVIRONMENT)
        finally:
            os._exit(PANIC)
    os.close(console)
    return shell


def _read_entropy(port: int) -> None:
    """A host without entropy does not stop the boot, as with Microsoft's init."""
    try:
        with dial(port) as connection:
            connection.settimeout(_TIMEOUT)
            received = 0
            while received < ENTROPY_BYTES and (data := connection.recv(ENTROPY_BYTES - received)):
                received += len(data)
            if received < ENTROPY_BYTES:
                os.write(2, f"init: {received} bytes of entropy instead of {ENTROPY_BYTES}\n".encode())
    except OSError as error:
        os.write(2, f"init: no entropy: {error}\n".encode())


def _connect_streams(ports: dict[str, int]) -> dict[str, socket.socket]:
    """Streams with the same port share a connection."""
    connections = {port: dial(port) for port in sorted(set(ports.values()))}
    return {stream: connections[port] for stream, port in ports.items()}


def _run_agent(machine: dict[str, Any], streams: dict[str, socket.socket]) -> NoReturn:
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            os.dup2(streams[name].fileno() if name in streams else null, number)
        environment = _ENVIRONMENT | {"HCS_EMULATOR_VSOCK": root.VSOCK}
        arguments = [*machine["boot"]["arguments"][1:], *machine["extra_arguments"]]
        if machine["module"]:
            _run_module(machine["module"], arguments, environment)
        os.execve(root.AGENT, [root.AGENT, *arguments], environment)
    except BaseException as error:
        os.write(2, f"the agent cannot be started: {error}\n".encode())
    finally:
        os._exit(PANIC)


def _run_module(name: str, arguments: list[str], environment: dict[str, str]) -> NoReturn:
    """An agent in Python, which the worker has imported: a new interpreter would double the time of a boot."""
    os.environ.clear()
    os.environ.update(environment)
    status = PANIC
    try:
        status = sys.modules[name].main(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def dial(port: int) -> socket.socket:
    """Connect to a port of the host, as an agent does."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(_TIMEOUT)
        link.connect(root.VSOCK)
        link.sendall(f"CONNECT {port}\n".encode())
        answer, descriptors, _, _ = socket.recv_fds(link, 4096, 1)
    if not descriptors:
        raise ConnectionRefusedError(answer.decode("utf-8", "replace").removeprefix("ERROR ").strip())
    return socket.socket(fileno=descriptors[0])
