"""The calls into Linux that `runhcs install` makes: permissions, processes, and containerd's service."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import struct
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from runhcs.doctor import checks
from runhcs.install import containerd_config
from runhcs.install.interfaces import InstallError

ADDRESS = "/run/containerd/containerd.sock"
DEFAULT_RESTART = ("systemctl", "restart")
RESTART_SECONDS = 120.0
CONNECT_SECONDS = 5.0
POLL_SECONDS = 0.2
_WRITABLE_BY_OTHERS = 0o022
_PEER = struct.Struct("3i")


class LinuxSystem:
    def __init__(self, config: Path, restart_command: Sequence[str] = ()) -> None:
        self._config = config
        self._restart_command = restart_command

    def is_administrator(self) -> bool:
        return os.geteuid() == 0

    def is_protected(self, path: Path) -> bool:
        found = path.stat()
        return found.st_uid == 0 and not stat.S_IMODE(found.st_mode) & _WRITABLE_BY_OTHERS

    def protect(self, path: Path) -> None:
        os.chown(path, 0, 0)
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_WRITABLE_BY_OTHERS)

    def is_in_use(self, path: Path) -> bool:
        """Whether another process executes or maps a file below the path, or was started with one."""
        below = os.fsencode(path) + b"/"
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                for name in ("cmdline", "maps"):
                    with suppress(OSError):  # it has just exited
                        if below in Path("/proc", entry, name).read_bytes():
                            return True
        return False

    def has_event_source(self) -> bool:
        """Linux has no event log."""
        return True

    def add_event_source(self) -> None: ...
    def remove_event_source(self) -> None: ...

    def containerd_major(self, config: Path) -> int:
        program = shutil.which("containerd")
        match = re.search(r"v?(\d+)\.\d+\.\d+", checks.output(program, "--version") or "") if program else None
        return int(match[1]) if match else 0

    def service_pid(self, service: str) -> int | None:
        """The process that listens on containerd's socket, whatever started it."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(CONNECT_SECONDS)
            try:
                connection.connect(self._address())
                peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            except OSError:
                return 0
        return int(_PEER.unpack(peer)[0])

    def restart(self, service: str) -> None:
        """Pods keep running: their shims are processes of their own, which systemd's unit leaves alone."""
        before = self.service_pid(service)
        command = [*(self._restart_command or (*DEFAULT_RESTART, service))]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RESTART_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InstallError(f"{service} cannot be restarted: {error}; see --service and --restart-command") from None
        if done.returncode:
            text = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
            raise InstallError(f"{service} cannot be restarted: {' '.join(command)}: {text}")
        deadline = time.monotonic() + RESTART_SECONDS
        while self.service_pid(service) in (0, before):
            if time.monotonic() > deadline:
                step = f"its log has the reason (journalctl -u {service})"
                raise InstallError(f"{service} did not serve requests within {RESTART_SECONDS:.0f} s: {step}")
            time.sleep(POLL_SECONDS)

    def _address(self) -> str:
        try:
            files = containerd_config.load(self._config)
        except (OSError, ValueError):
            files = []
        found = [one["grpc"]["address"] for one in files if one.get("grpc", {}).get("address")]
        return str(found[-1]) if found else ADDRESS
