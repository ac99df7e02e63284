"""Processes of the VM itself, outside of containers. Their streams are the connections to the host."""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import termios
from typing import Any

from hcs_emulator.vm.linux.agent.errors import GuestError, panic, reason
from hcs_emulator.vm.linux.agent.process import VmProcess
from hcs_emulator.vm.linux.agent.relay import Connections, TtyRelay


def start(parameters: dict[str, Any], ports: dict[str, int | None]) -> VmProcess:
    connections = Connections.dial(ports)
    try:
        arguments = parameters["CommandArgs"] or _split(parameters["CommandLine"])
        if not arguments:
            panic("runtime error: index out of range [0] with length 0")
        if parameters["EmulateConsole"]:
            return _start_with_console(parameters, arguments, connections)
        process = _spawn(parameters, arguments, connections)
    except BaseException:
        connections.close()
        raise
    connections.close()
    return VmProcess(process.pid, None)


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise GuestError(f'failed to parse command line string "{line}": {error}') from error


def _spawn(parameters: dict[str, Any], arguments: list[str], connections: Connections) -> subprocess.Popen[bytes]:
    streams = (connections.stdin, connections.stdout, connections.stderr)
    stdin, stdout, stderr = (subprocess.DEVNULL if one is None else one.fileno() for one in streams)
    return _run(parameters, arguments, stdin=stdin, stdout=stdout, stderr=stderr)


def _run(parameters: dict[str, Any], arguments: list[str], **options: Any) -> subprocess.Popen[bytes]:
    try:
        process = subprocess.Popen(
            arguments,
            cwd=parameters["WorkingDirectory"] or None,
            env=parameters["Environment"] or {},
            executable=_find(arguments[0]),
            **options,
        )
    except OSError as error:
        text = reason(error)
        raise GuestError(f"failed to call Start for external process: fork/exec {arguments[0]}: {text}") from error
    process.returncode = 0  # the agent reaps it; Popen must not
    return process


def _find(name: str) -> str:
    """A program by the agent's own PATH, as Go finds it."""
    if "/" in name:
        return name
    for directory in os.environ.get("PATH", "/sbin:/usr/sbin:/bin:/usr/bin").split(":"):
        path = os.path.join(directory, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    text = f'exec: "{name}": executable file not found in $PATH'
    raise GuestError(f"failed to call Start for external process: {text}")


def _start_with_console(parameters: dict[str, Any], arguments: list[str], connections: Connections) -> VmProcess:
    master, console = os.openpty()
    try:
        # setsid and the first open of the terminal make it the controlling one.
        process = _run(
            parameters,
            arguments,
            stdin=console,
            stdout=console,
            stderr=console,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(console)
    relay = TtyRelay(master)
    relay.start(connections)
    return VmProcess(process.pid, relay)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
