"""The command line of runc, as gcs calls it, and the meaning of its errors."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from typing import Any

from hcs_emulator.vm.linux.agent import errors, log, mounts
from hcs_emulator.vm.linux.agent.errors import GuestError, reason, with_code
from hcs_emulator.vm.linux.agent.relay import PipeRelay, TtyRelay

STATE = "/var/run/gcsrunc"
_PTY_TIMEOUT = 10.0

# Words of runc's errors, and what gcs makes of them.
_MEANINGS = (
    ("container with id exists", errors.SYSTEM_ALREADY_EXISTS, "container already exist"),
    ("container with given ID already exists", errors.SYSTEM_ALREADY_EXISTS, "container already exist"),
    ("invalid id format", errors.INVALID_ARGUMENT, "invalid container ID"),
    ("invalid container ID format", errors.INVALID_ARGUMENT, "invalid container ID"),
    ("that is not stopped", errors.INVALID_STATE, "container not stopped"),
    ("container still running", errors.INVALID_STATE, "container still running"),
    ("container not running", errors.SYSTEM_ALREADY_STOPPED, "container not running"),
)


def meaning(text: str) -> GuestError:
    stripped = text.strip()
    if stripped.startswith("container") and stripped.endswith("does not exist"):
        return with_code(errors.SYSTEM_NOT_FOUND, "container does not exist")
    for words, hresult, name in _MEANINGS:
        if words in text:
            return with_code(hresult, name)
    return GuestError(text)


def last_error(path: str) -> GuestError | None:
    """The last error that runc wrote to its log."""
    found = None
    try:
        with open(path) as file:
            for line in file:
                entry = json.loads(line)
                if entry.get("level") in ("error", "fatal", "panic"):
                    found = meaning(str(entry.get("msg", "")))
    except (OSError, ValueError):
        pass
    return found


def _exit_text(code: int) -> str:
    return f"exit status {code}" if code >= 0 else f"signal: {-code}"


def _run(arguments: list[str], given: bytes = b"") -> tuple[int, str]:
    result = subprocess.run(["runc", *arguments], input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return result.returncode, result.stdout.decode(errors="replace")


def _checked(arguments: list[str], name: str, given: bytes = b"") -> str:
    code, output = _run(arguments, given)
    if code:
        raise meaning(output).within(f"{name} failed with {_exit_text(code)}: {output}")
    return output


class Started:
    """A process that runc started."""

    def __init__(self, pid: int, relay: PipeRelay | TtyRelay) -> None:
        self.pid = pid
        self.relay = relay


class Runtime:
    """One container of runc. `bundle` has its config.json and gets runc's log."""

    def __init__(self, identifier: str, bundle: str) -> None:
        self.id = identifier
        self._bundle = bundle
        self._log = os.path.join(bundle, "runc.log")
        self._directory = os.path.join(STATE, identifier)

    def create(self, terminal: bool) -> Started:
        mounts.make_directory(self._directory, 0o700)
        temporary = tempfile.mkdtemp(prefix=self.id, dir=STATE)
        started = self._start(temporary, terminal, None, ["create", "-b", self._bundle, "--no-pivot"])
        with open(os.path.join(self._directory, "initpid"), "w") as file:
            file.write(str(started.pid))
        return started

    def execute(self, process: dict[str, Any], wanted: list[str]) -> Started:
        temporary = tempfile.mkdtemp(prefix=self.id, dir=STATE)
        path = os.path.join(temporary, "process.json")
        with open(path, "w") as file:
            json.dump(process, file)
        return self._start(temporary, bool(process.get("terminal")), wanted, ["exec", "-d", "--process", path])

    def _start(self, temporary: str, terminal: bool, wanted: list[str] | None, arguments: list[str]) -> Started:
        """Run `runc create` or `runc exec`; `wanted` are the streams with pipes, all by default."""
        os.makedirs(self._bundle, exist_ok=True)
        command = ["runc", "--log", self._log, "--log-format", "json", *arguments]
        command += ["--pid-file", os.path.join(temporary, "pid")]
        listener: socket.socket | None = None
        relay: PipeRelay | TtyRelay | None = None
        streams: dict[str, int | None] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        try:
            if terminal:
                path = os.path.join(temporary, "master.sock")
                listener = socket.socket(socket.AF_UNIX)
                listener.bind(path)
                listener.listen(1)
                command += ["--console-socket", path]
            else:
                relay = PipeRelay(("stdin", "stdout", "stderr") if wanted is None else wanted)
                streams.update({name: relay.inner(name) or subprocess.DEVNULL for name in streams})
            code = subprocess.Popen([*command, self.id], **streams).wait()  # type: ignore[call-overload]
            if code:
                context = f"runc create/exec call for container {self.id} failed: {_exit_text(code)}"
                known = last_error(self._log)
                raise known.within(context) if known is not None else GuestError(context)
            if listener is not None:
                relay = TtyRelay(_receive_master(listener))
            assert relay is not None
            pid = self._keep(temporary)
        except BaseException:
            if relay is not None:
                relay.close()
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        finally:
            if listener is not None:
                listener.close()
            if isinstance(relay, PipeRelay):
                relay.close_inner()
        return Started(pid, relay)

    def _keep(self, temporary: str) -> int:
        """Rename the directory of a process to its pid."""
        with open(os.path.join(temporary, "pid")) as file:
            pid = int(file.read())
        os.rename(temporary, os.path.join(self._directory, str(pid)))
        return pid

    def start(self) -> None:
        code, output = _run(["--log", self._log, "--log-format", "json", "start", self.id])
        if code:
            known = last_error(self._log)
            mounts.try_remove_tree(self._directory)
            if known is not None:
                raise known.within(f"runc start failed with {_exit_text(code)}: {output}")
            raise GuestError(f"runc start failed: {output}: {_exit_text(code)}")

    def kill(self, signal: int, everything: bool = False) -> None:
        _checked(["kill", *(["--all"] if everything else []), self.id, str(signal)], "runc kill")

    def delete(self) -> None:
        _checked(["delete", self.id], "runc delete")
        mounts.remove_tree(self._directory)

    def forget_process(self, pid: int) -> None:
        mounts.try_remove_tree(os.path.join(self._directory, str(pid)))

    def update(self, resources: dict[str, Any]) -> None:
        text = json.dumps(resources, separators=(",", ":"))
        _checked(["update", "--resources", "-", self.id], f"runc update request {text}", text.encode())

    def processes(self) -> list[int]:
        """The container's processes, and those that the agent started and nobody waited for yet."""
        output = _checked(["ps", "-f", "json", self.id], "runc ps")
        try:
            pids = set(json.loads(output) or ())
        except ValueError as error:
            raise GuestError(f"failed to unmarshal pids for container {self.id}: {error}") from error
        try:
            names = os.listdir(self._directory)
        except OSError as error:
            text = f"failed to read the contents of container directory {self._directory}: open {self._directory}"
            raise GuestError(f"{text}: {reason(error)}") from error
        pids |= {int(name) for name in names if name.isdecimal()}
        return sorted(pid for pid in pids if os.path.exists(f"/proc/{pid}"))


def _receive_master(listener: socket.socket) -> int:
    listener.settimeout(_PTY_TIMEOUT)
    try:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(_PTY_TIMEOUT)
            _, descriptors, _, _ = socket.recv_fds(connection, 4096, 1)
    except OSError as error:
        raise GuestError(f"failed to get pty master for process: {error}") from error
    if not descriptors:
        raise GuestError("failed to get pty master for process: did not receive any file descriptors")
    os.set_inheritable(descriptors[0], False)
    log.debug("received pty master")
    return descriptors[0]
