"""Measure what the launcher's three accelerators save: the linked interpreter, stripped bytecode and the module bundle.

    python scripts/launcher_cost.py [ROUNDS]

Installs one launcher for each combination into a temporary directory and interleaves them in one run. For each it
measures, with 95 % bootstrap intervals of the medians:

- the time and CPU time from the exec of `start` to the answer to Connect;
- instructions of a daemon that answers Connect and Shutdown, counted by callgrind where valgrind is installed;
- PSS and private memory of ten idle shims.

launcher/README.md has the results.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from launcher.linux import bundle as modules
from launcher.linux.build import compile_launcher, with_settings
from runhcs.install.linux import python, write_interpreter
from runhcs.installation import NAME, ROOT, library
from shim.api import task as api
from shim.ttrpc.client import Client

TASK = "containerd.task.v2.Task"
IDLE_SHIMS = 10
# Worker threads of an idle shim exit after ten seconds.
IDLE_SECONDS = 13.0
MEMORY_ROUNDS = 3
INSTRUCTION_ROUNDS = 3
# name: linked interpreter, stripped bytecode, bundle
VARIANTS = {
    "all three": (True, True, True),
    "no linked interpreter": (False, True, True),
    "no stripped bytecode": (True, False, True),
    "no bundle, no stripped bytecode": (True, False, False),
    "none": (False, False, False),
}


def plain_code(modules: Sequence[tuple[Path, str]]) -> list[bytes]:
    """The bytecode that Python writes to __pycache__."""
    return [marshal.dumps(compile(path.read_bytes(), name, "exec", dont_inherit=True)) for path, name in modules]


def write_by_path(directory: Path, packages: str) -> Path:
    """A program that imports the shim by path, with bytecode from __pycache__."""
    text = f"import sys\nsys.path += [{str(ROOT)!r}, {packages!r}]\nfrom shim.__main__ import command\ncommand()\n"
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    program = directory / f"{NAME}.pyc"
    program.write_bytes(header + marshal.dumps(compile(text, NAME, "exec", dont_inherit=True)))
    return program


class Variant:
    def __init__(self, directory: Path, is_linked: bool, is_stripped: bool, is_bundled: bool) -> None:
        self.directory = directory
        bindir, files = directory / "bin", library(directory / "bin")
        bindir.mkdir(parents=True)
        files.mkdir(parents=True)
        packages = sysconfig.get_paths()["platlib"]
        if is_bundled:
            compiler = modules.compile_files if is_stripped else plain_code
            with mock.patch.object(modules, "compile_files", compiler), mock.patch.dict(modules._compiled, clear=True):
                self.program = modules.write_bundle(files, ROOT, packages)
        else:
            self.program = write_by_path(files, packages)
        linked = write_interpreter(files) if is_linked else ""
        if is_linked and not linked:
            sys.exit("this Python has no static library to link")
        self.interpreter = linked or python()
        self.launcher = bindir / NAME
        self.launcher.write_bytes(with_settings(compile_launcher(), python(), str(self.program), False, linked))
        self.launcher.chmod(0o755)
        self.sockets = directory / "s"
        self.environment = os.environ | {
            "RUNHCS_SOCKET_DIR": str(self.sockets),
            "HCS_EMULATOR_DIR": str(directory / "hcs"),
            "TTRPC_ADDRESS": str(directory / "events"),
        }
        self._count = 0
        self._daemons: list[int] = []  # pidfds

    def new_bundle(self) -> tuple[str, Path]:
        self._count += 1
        path = self.directory / "bundles" / f"c{self._count}"
        path.mkdir(parents=True)
        (path / "config.json").write_text("{}")
        return path.name, path

    def start(self) -> tuple[float, float, Client, int, str]:
        """Milliseconds and CPU milliseconds until Connect is answered, the connection, the shim's pid, the id."""
        container, bundle = self.new_bundle()
        begin = time.perf_counter()
        done = subprocess.run(
            [self.launcher, *flags(container), "start"], cwd=bundle, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, check=True, timeout=60,
        )  # fmt: skip
        client = dial(done.stdout.decode())
        pid = connect(client, container)
        elapsed = (time.perf_counter() - begin) * 1e3
        self._daemons.append(os.pidfd_open(pid))
        return elapsed, cpu_milliseconds(pid), client, pid, container

    def kill_daemons(self) -> None:
        """Those that an error left behind."""
        for daemon in self._daemons:
            try:
                signal.pidfd_send_signal(daemon, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.close(daemon)

    def instructions(self) -> float:
        """Millions, of a daemon from exec over Connect and Shutdown to its exit."""
        container, bundle = self.new_bundle()
        output = bundle / "callgrind"
        path = self.sockets / f"{container}.sock"
        self.sockets.mkdir(mode=0o700, exist_ok=True)
        listener, (ours, theirs) = socket.socket(socket.AF_UNIX), socket.socketpair()
        listener.bind(str(path))
        listener.listen()
        tool = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={output}"]
        command = [*tool, self.interpreter, "-IS", "-X", f"runhcs_daemon=00{bundle}", str(self.program)]
        moved = [os.dup2(one.fileno(), number) for one, number in ((listener, 203), (theirs, 204))]
        shell = 'exec 3<&203 4<&204 203<&- 204<&-; exec "$@"'
        process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command, *flags(container), "start"], env=self.environment, pass_fds=moved,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for number in moved:
            os.close(number)
        theirs.close()
        ours.send(b"D")
        client = dial(str(path))
        connect(client, container)
        shut_down(client, container)
        process.wait(120)
        listener.close()
        ours.close()
        line = next(line for line in output.read_text().splitlines() if line.startswith(("summary:", "totals:")))
        return int(line.split()[1]) / 1e6


def flags(id: str) -> list[str]:
    return ["-namespace", "cost", "-address", "/run/none.sock", "-publish-binary", "/bin/false", "-id", id]


def dial(address: str) -> Client:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address.removeprefix("unix://"))
    return Client(connection)


def connect(client: Client, id: str) -> int:
    answer = client.call(TASK, "Connect", api.ConnectRequest(id=id).encode(), timeout=120)
    return api.ConnectResponse.decode(answer).shim_pid


def shut_down(client: Client, id: str) -> None:
    client.call(TASK, "Shutdown", api.ShutdownRequest(id=id).encode(), timeout=120)
    client.close()


def cpu_milliseconds(pid: int) -> float:
    """Of all threads, by the CPU clock of the process (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2) * 1e3


def memory(pid: int) -> tuple[float, float]:
    """PSS and private memory, in kB."""
    rollup = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value, *_ = line.split()
        rollup[name.rstrip(":")] = float(value)
    return rollup["Pss"], rollup["Private_Dirty"] + rollup["Private_Clean"]


def idle_memory(variant: Variant) -> list[tuple[float, float]]:
    """Of ten shims at once, after their warm-up."""
    shims = [variant.start()[2:] for _ in range(IDLE_SHIMS)]
    time.sleep(IDLE_SECONDS)
    found = [memory(pid) for _, pid, _ in shims]
    for client, _, container in shims:
        shut_down(client, container)
    return found


def interval(values: Sequence[float]) -> str:
    """The median with the 95 % bootstrap interval."""
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(2000))
    return f"{statistics.median(values):.1f} [{medians[49]:.1f}, {medians[1949]:.1f}]"


@contextmanager
def variants() -> Iterator[dict[str, Variant]]:
    directory = Path(tempfile.mkdtemp(prefix="launcher-cost-"))
    try:
        installed = {
            name: Variant(directory / str(number), *parts) for number, (name, parts) in enumerate(VARIANTS.items())
        }
        try:
            yield installed
        finally:
            for variant in installed.values():
                variant.kill_daemons()
    finally:
        shutil.rmtree(directory)


def interleaved(names: Sequence[str], rounds: int, step: Callable[[str], None]) -> None:
    for number in range(rounds):
        print(f"\rround {number + 1} of {rounds} ", end="", file=sys.stderr, flush=True)
        for name in random.sample(names, len(names)):
            step(name)
    print(file=sys.stderr)


def main(rounds: int) -> None:
    columns: dict[str, dict[str, list[float]]] = {
        column: {name: [] for name in VARIANTS}
        for column in ("start to Connect, ms", "CPU, ms", "instructions, M", "idle PSS, kB", "idle private, kB")
    }
    times, cpu, instructions, pss, private = columns.values()
    with variants() as installed:

        def start(name: str) -> None:
            milliseconds, processor, client, _, container = installed[name].start()
            shut_down(client, container)
            times[name].append(milliseconds)
            cpu[name].append(processor)

        def count(name: str) -> None:
            instructions[name].append(installed[name].instructions())

        def sample_memory(name: str) -> None:
            for one, other in idle_memory(installed[name]):
                pss[name].append(one)
                private[name].append(other)

        interleaved(list(VARIANTS), 3, start)  # warms caches
        for column in (times, cpu):
            for values in column.values():
                values.clear()
        interleaved(list(VARIANTS), rounds, start)
        if shutil.which("valgrind"):
            interleaved(list(VARIANTS), INSTRUCTION_ROUNDS, count)
        interleaved(list(VARIANTS), MEMORY_ROUNDS, sample_memory)
    print(f"| variant | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 1)}")
    for name in VARIANTS:
        print(f"| {name} | {' | '.join(interval(column[name]) for column in columns.values() if column[name])} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
