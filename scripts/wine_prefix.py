"""A private Wine prefix: a copy of the template of scripts/wine-setup.sh, its wineserver, and programs in it.

Four properties of Wine shape this module:

- Wine's services keep the standard streams of the process that started them. A pipe that Wine inherited therefore
  never reaches end of file. So `start` starts the services first, with null streams, and `run` reads the output of
  a program until the program exits, not until end of file.
- A wineserver that stays behind keeps every program of its prefix alive. So it is a child of this process, in the
  foreground, and gets a signal when this process exits; it then terminates all programs of the prefix. A second child,
  the reaper, waits for end of file on its stdin and kills what remains.
- Wine's 64-bit loader is linked to a fixed address, 0x7d000000, shortly below the page that Windows shares with every
  program, 0x7ffe0000. Since Linux 6.9 the heap of such a program begins anywhere in the gigabyte above it. If the heap
  covers that page, which happens once in 7,500 starts, the program exits with code 1 and no output, and a parent under
  Wine gets ERROR_INTERNAL_ERROR. So Wine runs without address space layout randomization (ASLR): `create` writes
  a wrapper script `wine`, which is first on the PATH of `environment`.
- A program may deadlock at its exit. `wine_exits` explains why, and kills it.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from wine_exits import ExitWatch, belongs_to, live_threads

SETUP = Path(__file__).with_name("wine-setup.sh")
SETUP_TIMEOUT = 600.0  # the script may have to install Wine
BOOT_TIMEOUT = 110.0
RUN_TIMEOUT = 110.0
STOP_TIMEOUT = 15.0
# At this signal only, wineserver terminates its programs before it exits. At others they stay and wait forever.
STOP_SIGNAL = signal.SIGINT
# A program that exits closes its connection to wineserver before its last threads have exited, and one of them may
# still use it. The only effect is this line in the output.
CLIENT_ERROR = re.compile(rb"wine client error:[0-9a-f]+: sendmsg: Bad file descriptor\r?\n")
NULL_STREAMS = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Prefix:
    """Call `create`, `start` and `stop` once each, in this order."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.drive = directory / "drive_c"
        self._programs = directory / "bin"
        path = f"{self._programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        self.environment = {**os.environ, "WINEPREFIX": str(directory), "WINEDEBUG": "-all", "PATH": path}
        #: What a program that does not exit in time is doing, in words; called before the program is killed.
        self.on_timeout: Callable[[], str] = str
        self._server: subprocess.Popen[bytes] | None = None
        self._reaper: subprocess.Popen[bytes] | None = None
        self._exits: ExitWatch | None = None

    def create(self) -> None:
        """Create the files only, so that the caller can add DLLs before anything runs."""
        done = subprocess.run(
            [SETUP, self.directory], check=False, timeout=SETUP_TIMEOUT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode:
            raise OSError(f"{SETUP} failed ({done.returncode}):\n{done.stdout.decode(errors='replace')}")
        self._programs.mkdir()
        for name in ("wine", "wineboot"):
            script = self._programs / name
            script.write_text(f'#!/bin/sh\nexec {" ".join([*without_aslr(), str(shutil.which(name))])} "$@"\n')
            script.chmod(0o755)

    def start(self) -> None:
        """Start the wineserver and Wine's services."""
        reaper = [sys.executable, __file__, str(self.directory)]
        streams = {**NULL_STREAMS, "stdin": subprocess.PIPE}
        self._reaper = subprocess.Popen(reaper, start_new_session=True, **streams)
        foreground = with_pdeathsig(["wineserver", "-f", "-p"], "INT")
        self._server = subprocess.Popen(foreground, env=self.environment, **NULL_STREAMS)
        subprocess.run(["wineboot"], env=self.environment, check=True, timeout=BOOT_TIMEOUT, **NULL_STREAMS)
        self._exits = ExitWatch(self.directory)

    def run(
        self, *command: str, input: bytes = b"", timeout: float = RUN_TIMEOUT, is_watched: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a Windows program until it exits, with stdout and stderr in one. At the timeout kill it: code -9, and if
        it `is_watched`, what `on_timeout` reports at the end of the output."""
        reading, writing = os.pipe()
        try:
            running = subprocess.Popen(
                ["wine", *command], env=self.environment, stdin=subprocess.PIPE if input else subprocess.DEVNULL,
                stdout=writing, stderr=writing,
            )  # fmt: skip
        finally:
            os.close(writing)
        if running.stdin is not None:
            threading.Thread(target=_feed, args=(running, input), daemon=True).start()
        output = []
        report = ""
        deadline = time.monotonic() + timeout
        exited = os.pidfd_open(running.pid)
        try:
            while True:
                ready = select.select([reading, exited], [], [], max(deadline - time.monotonic(), 0))[0]
                if not ready:
                    report = report or (self.on_timeout() if is_watched else "")
                    running.kill()
                elif reading in ready and (data := os.read(reading, 1 << 16)):
                    output.append(data)
                elif exited in ready:
                    break
                else:  # the program closed its output and still runs
                    if not select.select([exited], [], [], max(deadline - time.monotonic(), 0))[0] and is_watched:
                        report = report or self.on_timeout()
                    running.kill()
            code = running.wait(STOP_TIMEOUT)
        finally:
            os.close(exited)
            os.close(reading)
        if time.monotonic() >= deadline:
            output.append(b"\nkilled after %.0f s\n" % timeout + report.encode())
        return subprocess.CompletedProcess(command, code, CLIENT_ERROR.sub(b"", b"".join(output)))

    def stop(self) -> None:
        """Stop the wineserver, which terminates the programs of the prefix, and kill what remains."""
        server, self._server = self._server, None
        if server is None:
            return
        if self._exits is not None:
            self._exits.close()
        server.send_signal(STOP_SIGNAL)
        try:
            server.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(STOP_TIMEOUT)
        self.kill_remaining()
        if self._reaper is not None:
            self._reaper.communicate(timeout=2 * STOP_TIMEOUT)

    @property
    def server_pid(self) -> int:
        """The pid of the wineserver, between `start` and `stop`."""
        assert self._server is not None
        return self._server.pid

    def kill_remaining(self) -> None:
        """Kill the processes that still run, with or without their wineserver."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def processes(self) -> list[int]:
        """The pids of all processes in this prefix. A process that holds a lock of Wine may outlive the wineserver."""
        pids = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if any(belongs_to(thread, self.directory) for thread in live_threads(int(name))[:1]):
                    pids.append(int(name))
            except OSError:
                pass  # it exited, or belongs to another user
        return [pid for pid in pids if pid != os.getpid()]


def with_pdeathsig(command: list[str], signal_name: str = "TERM") -> list[str]:
    """The command such that it gets the signal when the thread that started it exits, for whatever reason."""
    return ["setpriv", "--pdeathsig", signal_name, *command] if shutil.which("setpriv") else command


def without_aslr() -> list[str]:
    """The prefix of a command line that disables ASLR for the command and its children. Empty if the system forbids
    that, as many containers do."""
    try:
        done = subprocess.run(["setarch", "-R", "true"], check=False, timeout=STOP_TIMEOUT, **NULL_STREAMS)
    except FileNotFoundError:
        return []
    return [] if done.returncode else ["setarch", "-R"]


def _feed(running: subprocess.Popen[bytes], data: bytes) -> None:
    assert running.stdin is not None
    try:
        running.stdin.write(data)
        running.stdin.close()
    except OSError:
        pass  # the program closed its stdin


def reap(prefix: Prefix) -> None:
    """Wait until the parent exits, then kill what remains. The wineserver has its signal by then:
    `with_pdeathsig`."""
    sys.stdin.buffer.read()
    deadline = time.monotonic() + STOP_TIMEOUT
    while prefix.processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    prefix.kill_remaining()


if __name__ == "__main__":
    reap(Prefix(Path(sys.argv[1])))
