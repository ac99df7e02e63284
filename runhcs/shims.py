"""The shims of this machine, found by their sockets and by containerd's bundles.

Every shim is queried over ttrpc (`runhcs.inspect.v1`). Microsoft's shim implements only ShimDiag and is listed as such.
Shims of other runtimes listen in the same directory and implement neither: they are skipped.

A bundle whose shim neither listens nor runs belongs to a dead shim. A process id alone proves nothing, because ids are
reused: a process that started after its pid file was written is another process.
"""

from __future__ import annotations

import argparse
import os
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attrs import define, field, frozen
from attrs.validators import ge, in_, instance_of

from runhcs.reports import ExecReport, ReportError, ShimReport, TaskReport, read_shim_report
from shim.api import shimdiag
from shim.api.inspect import InspectRequest, InspectResponse
from shim.commands.shared import DAEMON_PANIC_LOG
from shim.container.ledger import FILE as LEDGER
from shim.platform import daemon, endpoint, host
from shim.ttrpc import status
from shim.ttrpc.client import Client
from shim.ttrpc.status import ClosedError, StatusError

WINDOWS = not host.IS_EMULATED
SOCKETS = os.environ.get("RUNHCS_SOCKET_DIR") or "/run/containerd/s"
STATE = r"C:\ProgramData\containerd\state" if WINDOWS else "/run/containerd"
# Bundles are below the state directory of the plugin that created them: the task plugin, or the sandbox controller.
BUNDLES = "io.containerd.*/*/*"
PIPES = "\\\\.\\pipe\\"
PIPE_PREFIX = "ProtectedPrefix\\Administrators\\containerd-shim-"

INSPECT = "runhcs.inspect.v1.Inspect"
SHIM_DIAG = "containerd.runhcs.v1.diag.ShimDiag"
ANSWER_SECONDS = 5.0
CONNECT_SECONDS = 2.0
# Tolerance between the clocks of files and of processes, which tick in different steps.
CLOCK_STEP = 2.0


class QueryError(Exception):
    """A shim did not answer a query; the message names the next step."""


@frozen
class Bundle:
    """A directory that containerd created for one container of this runtime."""

    path: str
    namespace: str
    id: str
    address: str
    pid: int = field(validator=[instance_of(int), ge(0)])
    #: When the shim wrote its pid file; 0.0 if there is none.
    created: float

    @property
    def is_served(self) -> bool:
        """Whether a shim listens or runs for it. A process that serves several pods runs for the others, too."""
        if self.address and listens(self.address):
            return True
        return self.runs and not os.path.exists(os.path.join(self.path, DAEMON_PANIC_LOG))

    @property
    def runs(self) -> bool:
        return daemon.is_running(self.pid) and not _started_after(self.pid, self.created)


@define
class Shim:
    """A shim that listens, or a dead one that left a bundle."""

    address: str
    namespace: str = ""
    id: str = ""
    pid: int = field(default=0, validator=[instance_of(int), ge(0)])
    bundle: str = ""
    created: float = 0.0
    kind: str = field(default="ours", validator=in_(("ours", "microsoft")))
    #: Its answer to the query; None if there was none, see `problem`.
    report: ShimReport | None = None
    problem: str = ""
    is_dead: bool = False

    @property
    def tasks(self) -> list[TaskReport]:
        return [] if self.report is None else self.report.tasks

    def task_ids(self) -> list[str]:
        creating = [] if self.report is None else self.report.creating
        return [task.id for task in self.tasks] + creating

    def serves(self, id: str) -> bool:
        return id == self.id or id in self.task_ids()


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of every command that looks for shims."""
    parser.add_argument(
        "--socket-dir", action="append", metavar="DIR",
        help="directory of the shims' sockets, may be repeated (default: RUNHCS_SOCKET_DIR, else /run/containerd/s)",
    )  # fmt: skip
    parser.add_argument(
        "--state", action="append", metavar="DIR",
        help=f"state directory of a containerd, may be repeated (default: {STATE})",
    )  # fmt: skip
    parser.add_argument("-n", "--namespace", default="", help="only this containerd namespace")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def socket_directories(args: argparse.Namespace) -> list[str]:
    return [os.path.abspath(path) for path in args.socket_dir or ([] if WINDOWS else [SOCKETS])]


def state_directories(args: argparse.Namespace) -> list[str]:
    return [os.path.abspath(path) for path in args.state or [STATE]]


def bundles(args: argparse.Namespace) -> list[Bundle]:
    """The bundles of this runtime, recognized by files that only its shim writes."""
    found = []
    for state in state_directories(args):
        for directory in sorted(Path(state).glob(BUNDLES)):
            if not (directory / "panic.log").exists() and not (directory / LEDGER).exists():
                continue
            if args.namespace in ("", directory.parent.name):
                found.append(_bundle(directory))
    return found


def _bundle(directory: Path) -> Bundle:
    path = directory / "shim.pid"
    text = _read(path).strip()
    try:
        created = path.stat().st_mtime
    except OSError:
        created = 0.0
    address = _read(directory / "address").strip()
    pid = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
    return Bundle(str(directory), directory.parent.name, directory.name, address, pid, created)


def find(args: argparse.Namespace, properties: bool = False, stats: bool = False) -> list[Shim]:
    """All shims, including dead ones that left a bundle, sorted by namespace and id; with the HCS properties, or the
    stats, of their tasks and VMs."""
    known = bundles(args)
    addresses = {bundle.address for bundle in known if bundle.address and listens(bundle.address)}
    addresses |= {address for address in _sockets(args) if listens(address)}
    with ThreadPoolExecutor(8) as pool:
        queried = pool.map(lambda address: query(address, properties, stats), sorted(addresses))
        shims = [shim for shim in queried if shim is not None]
    by_address = {endpoint.name_of(shim.address): shim for shim in shims}
    for bundle in known:
        shim = by_address.get(endpoint.name_of(bundle.address)) if bundle.address else None
        if shim is None:
            dead = not bundle.is_served
            problem = "its process has exited" if dead else "its process runs but does not listen: it may be exiting"
            shim = Shim(bundle.address, is_dead=dead, problem=problem)
            shims.append(shim)
            by_address[endpoint.name_of(bundle.address) or bundle.path] = shim
        if not shim.id or shim.id == bundle.id:
            shim.namespace, shim.id = shim.namespace or bundle.namespace, bundle.id
            shim.bundle, shim.pid, shim.created = bundle.path, shim.pid or bundle.pid, bundle.created
    selected = [shim for shim in shims if args.namespace in ("", shim.namespace)]
    return sorted(selected, key=lambda shim: (shim.namespace, shim.id, shim.address))


def _sockets(args: argparse.Namespace) -> Iterator[str]:
    if WINDOWS:
        try:
            names = os.listdir(PIPES)
        except OSError:
            return  # Wine cannot list pipes; bundles name those of known shims
        for name in names:
            if name.startswith(PIPE_PREFIX) and name.endswith("-pipe"):
                yield PIPES + name
        return
    for directory in socket_directories(args):
        for path in socket_files(directory):
            yield endpoint.SCHEME + path


def socket_files(directory: str) -> list[str]:
    """Sockets whose names have the form of a shim's."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    paths = [os.path.join(directory, name) for name in names if len(name) == 64]
    return sorted(path for path in paths if _is_socket(path))


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def listens(address: str) -> bool:
    try:
        return endpoint.is_alive(endpoint.path_of(address))
    except endpoint.EndpointError:
        return False


def _started_after(pid: int, moment: float) -> bool:
    if WINDOWS or not moment:
        return False
    try:
        ticks = int(_read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[19])
        uptime = float(_read(Path("/proc/uptime")).split()[0])
    except (IndexError, ValueError):
        return False
    started = time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
    return started > moment + CLOCK_STEP


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


# Queries.


def call(address: str, service: str, method: str, payload: bytes, timeout: float = ANSWER_SECONDS) -> bytes:
    """One ttrpc call on a connection of its own. Raises QueryError, or StatusError if the shim returns one."""
    try:
        stream = endpoint.connect(endpoint.path_of(address), CONNECT_SECONDS)
    except (OSError, endpoint.EndpointError) as error:
        raise QueryError(f"no shim listens on {address} ({error}): `runhcs gc` finds what it leaked") from None
    stream.settimeout(None)
    client = Client(stream)
    try:
        return client.call(service, method, payload, timeout=timeout)
    except ClosedError as error:
        raise QueryError(f"the shim on {address} closed the connection ({error}): it may be exiting, retry") from None
    except StatusError as error:
        if error.code == status.DEADLINE_EXCEEDED:
            text = f"the shim on {address} did not answer within {timeout:.0f} s: `runhcs stacks` may show why"
            raise QueryError(text) from None
        raise
    finally:
        client.close()


def query(address: str, properties: bool = False, stats: bool = False) -> Shim | None:
    """The shim that listens there; None if it is of another runtime."""
    try:
        answer = call(address, INSPECT, "Shim", InspectRequest(properties=properties, stats=stats).encode())
        report = read_shim_report(InspectResponse.decode(answer).json)
    except QueryError as error:
        return Shim(address, problem=str(error))
    except ReportError as error:
        return Shim(address, problem=f"its report cannot be read ({error}): is it a shim of another version?")
    except StatusError as error:
        return _query_microsoft(address) if error.code == status.UNIMPLEMENTED else Shim(address, problem=str(error))
    created = _created(report.bundle)
    return Shim(address, report.namespace, report.id, report.pid, report.bundle, created, report=report)


def _created(bundle: str) -> float:
    try:
        return os.stat(os.path.join(bundle, "shim.pid")).st_mtime
    except OSError:
        return 0.0


def _query_microsoft(address: str) -> Shim | None:
    try:
        pid = shimdiag.PidResponse.decode(call(address, SHIM_DIAG, "DiagPid", b"")).pid
        request = shimdiag.TasksRequest(execs=True).encode()
        answer = shimdiag.TasksResponse.decode(call(address, SHIM_DIAG, "DiagTasks", request))
    except (QueryError, StatusError):
        return None
    tasks = [TaskReport(task.id, execs=[ExecReport(one.id, one.state) for one in task.execs]) for task in answer.tasks]
    raw = {"tasks": [{"id": task.id, "execs": [{"id": one.id, "state": one.state} for one in task.execs]}
                     for task in answer.tasks]}  # fmt: skip
    return Shim(address, pid=pid, kind="microsoft", report=ShimReport(pid, tasks=tasks, raw=raw))


def pick(found: list[Shim], id: str) -> Shim:
    """The shim that serves this id, or the only one whose id or task begins with it. Raises QueryError."""
    matching = [shim for shim in found if shim.serves(id)]
    matching = matching or [shim for shim in found if shim.id.startswith(id) or any(
        task.startswith(id) for task in shim.task_ids())]  # fmt: skip
    if not matching:
        raise QueryError(f"no shim serves {id!r}: `runhcs ps` lists all (see --state and --socket-dir)")
    if len(matching) > 1:
        names = ", ".join(f"{shim.namespace}/{shim.id}" for shim in matching)
        raise QueryError(f"{id!r} matches several shims: {names}; give more of the id, or the namespace (-n)")
    return matching[0]
