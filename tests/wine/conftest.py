"""Fixtures of the tests under Wine: a machine per session, that is a Wine prefix with the unpacked distribution, the
DLLs of HCS, and the emulator."""

from __future__ import annotations

import atexit
import fcntl
import functools
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hcs_emulator.native.build import build_windows
from tests.wine import watchdog

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

if TYPE_CHECKING:
    from tests.wine.node import Node

import dist_windows  # noqa: E402
import windows_packages  # noqa: E402
from wine_prefix import Prefix, with_pdeathsig  # noqa: E402

TIMEOUT = 110
# Includes the setup of the machine, which the first test pays for.
TEST_TIMEOUT = 400
# Wine prefers its own programs to others of the same name in system32.
OVERRIDES = '\n[Software\\\\Wine\\\\DllOverrides]\n"ping.exe"="native"\n'


# Files that take more than half a minute, the slowest first: a worker has a whole file, and must not begin such a file
# when the others are about to finish.
SLOW_FILES = (
    "test_bench.py", "test_packaging.py", "test_findings.py", "test_selftest.py", "test_standby.py", "test_install.py",
    "test_microsoft_shim.py", "test_shim_scope.py", "test_soak.py", "test_distribution.py", "test_differential.py",
    "test_pip.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT))
    if all(here in item.path.parents for item in items):
        places = {name: place for place, name in enumerate(SLOW_FILES)}
        items.sort(key=lambda item: places.get(item.path.name, len(places)))


class Machine:
    """A Wine prefix and the emulator, and methods to run programs in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.wine = Prefix(directory / "prefix")
        self.wine.on_timeout = lambda: watchdog.report(self)
        self.prefix = self.wine.directory
        self.drive = self.wine.drive
        self.emulator = directory / "hcs"
        self.environment = self.wine.environment
        self.environment["HCS_EMULATOR_DIR"] = str(self.emulator)
        self._service: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)

    def set_up(self) -> None:
        self.wine.create()
        self.unpack(self.drive / "node")
        python = self.drive / "python"
        python.mkdir()
        published = windows_packages.requested_python()
        for name, data in published.files.items():
            (python / name).write_bytes(data)
        wheel = published.cffi_backend()
        (python / wheel[0]).write_bytes(wheel[1])
        for built in windows_programs():
            installed = self.drive / "windows" / "system32" / built.name
            installed.unlink(missing_ok=True)  # one of Wine's own is a link to the template's
            shutil.copy(built, installed)
        with open(self.prefix / "user.reg", "a") as registry:
            registry.write(OVERRIDES)
        self.wine.start()
        self.start_service()

    def unpack(self, directory: Path) -> None:
        with zipfile.ZipFile(distribution()) as archive:
            archive.extractall(directory)

    def start_service(self) -> None:
        self.emulator.mkdir(mode=0o700)
        command = with_pdeathsig([sys.executable, "-m", "hcs_emulator.service", "--directory", str(self.emulator)])
        command += ["--wine-prefix", str(self.prefix), "--wine-run", r"C:\windows\system32\wine-run.exe"]
        with open(self.directory / "service.log", "wb") as log:
            self._service = subprocess.Popen(command, cwd=ROOT, env=self.environment, stderr=log, stdout=log)
        deadline = time.monotonic() + 30
        while not (self.emulator / "loopback").exists():
            log_text = (self.directory / "service.log").read_text()
            assert self._service.poll() is None and time.monotonic() < deadline, log_text
            time.sleep(0.05)

    @property
    def service_pid(self) -> int:
        """The emulator."""
        assert self._service is not None
        return self._service.pid

    def base_layer(self) -> str:
        """An image for `runhcs selftest` and `runhcs soak`, from which a utility VM can boot."""
        base = self.drive / "selftest-base"
        (base / "Files").mkdir(parents=True, exist_ok=True)
        (base / "UtilityVM" / "Files").mkdir(parents=True, exist_ok=True)
        (base / "UtilityVM" / "SystemTemplate.vhdx").touch()
        return r"C:\selftest-base"

    def run(self, *command: str, input: bytes = b"", timeout: float = TIMEOUT) -> subprocess.CompletedProcess[bytes]:
        """Run a Windows program until it exits, with stdout and stderr in one."""
        return self.wine.run(r"C:\windows\system32\exit-code.exe", *command, input=input, timeout=timeout)

    def drive_shim(
        self, scenario: str, program: str = r"C:\node\containerd-shim-runhcs-v1.exe", script: str = "driver.py"
    ) -> Any:
        """Run a scenario of driver.py, or of another driver script, with the unpacked shim, or another one."""
        directory = self.drive / "work" / f"{scenario}-{next(self._numbers)}"
        directory.mkdir(parents=True)
        driver = "Z:" + str(ROOT / "tests" / "wine" / script).replace("/", "\\")
        done = self.run(r"C:\python\python.exe", driver, program, rf"C:\work\{directory.name}", scenario)
        logs = "".join(path.read_text(errors="replace") for path in directory.glob("*/panic.log"))
        service = (self.directory / "service.log").read_text()
        assert done.returncode == 0, f"{done.stdout.decode(errors='replace')}\n{logs}\n{service}"
        return json.loads((directory / "result.json").read_text())

    def tear_down(self) -> None:
        if self._service is not None:
            self._service.terminate()
            try:
                self._service.wait(30)
            except subprocess.TimeoutExpired:
                self._service.kill()
        self.wine.stop()


_building = threading.Lock()


def windows_programs() -> list[Path]:
    """The emulator's DLLs and the programs of the tests, compiled once for all machines of this process."""
    with _building:
        return _compile_windows_programs()


@functools.cache
def _compile_windows_programs() -> list[Path]:
    directory = Path(tempfile.mkdtemp(prefix="wine-programs-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    sources, compiler = ROOT / "tests" / "wine", ["x86_64-w64-mingw32-gcc", "-O2", "-s"]
    libraries = ["-ladvapi32", "-lntdll", "-lws2_32"]
    programs = {f"{name}.exe": [f"{name}.c", "-mconsole"] for name in ("cat", "ping", "tick")}
    programs |= {f"{name}.exe": [f"{name}.c", "-municode"] for name in ("logger", "service")}
    programs["exit-code.exe"] = ["exit_code.c", "-municode"]
    programs["etw-stub.dll"] = ["etw_stub.c", "-shared"]
    programs["bcryptprimitives.dll"] = ["corrections.c", "-shared", *libraries]
    programs["bindfltapi.dll"] = ["corrections.c", "-shared", "-DBIND_FILTER"]
    for name, (source, *options) in programs.items():
        subprocess.run([*compiler, str(sources / source), "-o", str(directory / name), *options], check=True)
    return [*build_windows(directory / "native"), *(directory / name for name in programs)]


def distribution() -> Path:
    """The zip of a release. `make test-wine` has built it; without that, build it from the tree if it is missing."""
    return _built(dist_windows.output())


def agent_distribution() -> Path:
    """The second zip, with the agent, which is built with the first."""
    return _built(dist_windows.agent_output())


def _built(output: Path) -> Path:
    output.parent.mkdir(exist_ok=True)
    with open(output.parent / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not output.exists():
            dist_windows.main()
    return output


def go_programs(version: str) -> Path:
    """The directory of containerd.exe and ctr.exe of a version, which are built from the published modules once."""
    command = [ROOT / "scripts" / "go-programs.sh", version]
    done = subprocess.run(command, env={**os.environ, "GOOS": "windows"}, check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.split()[1])


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    directory = Path(tempfile.mkdtemp(prefix="wine-"))
    machine = Machine(directory)
    try:
        machine.set_up()
        yield machine
    finally:
        machine.tear_down()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def nodes(machine: Machine) -> Iterator[dict[str, Node]]:
    """The containerds of this worker's machine, by version, each started at its first use."""
    nodes: dict[str, Node] = {}
    yield nodes
    for node in nodes.values():
        node.stop()


@pytest.fixture(params=["v2.3.4", "v1.7.34"])
def node(request: pytest.FixtureRequest, machine: Machine, nodes: dict[str, Node]) -> Node:
    from tests.wine.node import Node

    if request.param not in nodes:
        nodes[request.param] = Node(machine, request.param)
    nodes[request.param].begin()
    return nodes[request.param]
