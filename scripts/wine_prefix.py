"""A Wine prefix of one's own: a copy of the template that scripts/wine-setup.sh made, its server, programs in it.

Three things about Wine make this a page of its own. Its services live on with the streams of whatever started them, so
nobody may wait for the end of a pipe that was given to Wine: the services are started first, with streams that lead
nowhere, and `run` reads a program's output until the program ends, not until the pipe does. And a server that is left
behind keeps every program of its prefix alive: so it is our child, in the foreground, told to go when we do, and
everything in the prefix goes with it. A keeper, a second child that sees the end of its stdin, ends whoever stays.

And Wine's 64-bit loader is linked to a fixed address, 0x7d000000, not far below the page that Windows shares with every
program, 0x7ffe0000. Since Linux 6.9 the heap of such a program begins anywhere in the gigabyte above it. Where it takes
the place of that page, one time in 7,500, the program ends before it has begun, with code 1 and without a word, and
a parent under Wine is told ERROR_INTERNAL_ERROR. So Wine runs without randomised addresses: by a `wine` of our own,
which comes first on the PATH of `environment`.
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
from pathlib import Path

SETUP = Path(__file__).with_name("wine-setup.sh")
SETUP_TIME = 600.0  # it may have to install Wine
BOOT_TIME = 110.0
RUN_TIME = 110.0
END_TIME = 15.0
# The one signal at which Wine's server ends its programs before itself; at others they stay, and wait for ever.
END_SIGNAL = signal.SIGINT
# A program that ends closes its way to Wine's server before its last threads are gone, and one of them may just want to
# use it. That is of no consequence but for this line in the output.
LAST_WORDS = re.compile(rb"wine client error:[0-9a-f]+: sendmsg: Bad file descriptor\r?\n")
NOWHERE = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Prefix:
    """`start` and `end` are once in a life."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.drive = directory / "drive_c"
        self._programs = directory / "bin"
        path = f"{self._programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        self.environment = {**os.environ, "WINEPREFIX": str(directory), "WINEDEBUG": "-all", "PATH": path}
        self._server: subprocess.Popen[bytes] | None = None
        self._keeper: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """The files alone, so that DLLs can be put among them before anything runs."""
        done = subprocess.run(
            [SETUP, self.directory], check=False, timeout=SETUP_TIME, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode:
            raise OSError(f"{SETUP} failed ({done.returncode}):\n{done.stdout.decode(errors='replace')}")
        self._programs.mkdir()
        for name in ("wine", "wineboot"):
            script = self._programs / name
            script.write_text(f'#!/bin/sh\nexec {" ".join([*not_randomised(), str(shutil.which(name))])} "$@"\n')
            script.chmod(0o755)

    def start(self) -> None:
        """The server and Wine's services."""
        keeper = [sys.executable, __file__, str(self.directory)]
        streams = {**NOWHERE, "stdin": subprocess.PIPE}
        self._keeper = subprocess.Popen(keeper, start_new_session=True, **streams)
        foreground = tied_to_us(["wineserver", "-f", "-p"], "INT")
        self._server = subprocess.Popen(foreground, env=self.environment, **NOWHERE)
        subprocess.run(["wineboot"], env=self.environment, check=True, timeout=BOOT_TIME, **NOWHERE)

    def run(self, *command: str, input: bytes = b"", timeout: float = RUN_TIME) -> subprocess.CompletedProcess[bytes]:
        """A Windows program to its end; both outputs together in stdout. One that takes too long is killed: code -9."""
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
        end = time.monotonic() + timeout
        exited = os.pidfd_open(running.pid)
        try:
            while True:
                ready = select.select([reading, exited], [], [], max(end - time.monotonic(), 0))[0]
                if not ready:
                    running.kill()
                elif reading in ready and (data := os.read(reading, 1 << 16)):
                    output.append(data)
                elif exited in ready:
                    break
                else:  # its end is closed, and it runs on
                    select.select([exited], [], [], max(end - time.monotonic(), 0))
                    running.kill()
            code = running.wait(END_TIME)
        finally:
            os.close(exited)
            os.close(reading)
        if time.monotonic() >= end:
            output.append(b"\nkilled after %.0f s\n" % timeout)
        return subprocess.CompletedProcess(command, code, LAST_WORDS.sub(b"", b"".join(output)))

    def end(self) -> None:
        """Every program of the prefix, by its server; then the server; then who did not hear of it."""
        server, self._server = self._server, None
        if server is None:
            return
        server.send_signal(END_SIGNAL)
        try:
            server.wait(END_TIME)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(END_TIME)
        self.sweep()
        if self._keeper is not None:
            self._keeper.communicate(timeout=2 * END_TIME)

    def sweep(self) -> None:
        """End what is left without, or despite, its server."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def processes(self) -> list[int]:
        """All that run in this prefix; without their server, too, as one that holds a lock of Wine's may do."""
        ours = f"WINEPREFIX={self.directory}".encode()
        left = []
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and ours in (process / "environ").read_bytes().split(b"\0"):
                    left.append(int(process.name))
            except OSError:
                pass  # gone, or another user's
        return [pid for pid in left if pid != os.getpid()]


def tied_to_us(command: list[str], signal_name: str = "TERM") -> list[str]:
    """The command that ends when the thread that starts it does, however that ends."""
    return ["setpriv", "--pdeathsig", signal_name, *command] if shutil.which("setpriv") else command


def not_randomised() -> list[str]:
    """In front of a command: its addresses, and those of all that it starts, are the same every time. Nothing where
    that is forbidden, as it is in many containers."""
    try:
        done = subprocess.run(["setarch", "-R", "true"], check=False, timeout=END_TIME, **NOWHERE)
    except FileNotFoundError:
        return []
    return [] if done.returncode else ["setarch", "-R"]


def _feed(running: subprocess.Popen[bytes], data: bytes) -> None:
    assert running.stdin is not None
    try:
        running.stdin.write(data)
        running.stdin.close()
    except OSError:
        pass  # it does not want more


def keep(prefix: Prefix) -> None:
    """Until our owner is gone. Its server has been told by then: `tied_to_us`."""
    sys.stdin.buffer.read()
    end = time.monotonic() + END_TIME
    while prefix.processes() and time.monotonic() < end:
        time.sleep(0.1)
    prefix.sweep()


if __name__ == "__main__":
    keep(Prefix(Path(sys.argv[1])))
