"""The shims of this machine, found by their sockets and by containerd's bundles.

A shim is asked who it is (`runhcs.inspect.v1`); Microsoft's own answers only to ShimDiag, and is told apart. Shims of
other runtimes listen in the same directory and answer neither: they are not ours to show.

A bundle whose shim does not listen and does not run is a dead shim's. Its process id alone proves nothing, for ids are
used again: a process that is younger than the file with its id is somebody else.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shim.api import shimdiag
from shim.api.inspect import InspectRequest, InspectResponse
from shim.container.ledger import FILE as LEDGER
from shim.platform import daemon, endpoint, host
from shim.ttrpc import status
from shim.ttrpc.client import Client
from shim.ttrpc.status import ClosedError, StatusError

WINDOWS = not host.IS_EMULATED
SOCKETS = os.environ.get("RUNHCS_SOCKET_DIR") or "/run/containerd/s"
STATE = r"C:\ProgramData\containerd\state" if WINDOWS else "/run/containerd"
# Bundles are below the state of the plugin that made them: tasks', or sandboxes' where the shim is the sandboxer.
BUNDLES = "io.containerd.*/*/*"
PIPES = "\\\\.\\pipe\\"
PIPE_PREFIX = "ProtectedPrefix\\Administrators\\containerd-shim-"

INSPECT = "runhcs.inspect.v1.Inspect"
SHIM_DIAG = "containerd.runhcs.v1.diag.ShimDiag"
ANSWER_SECONDS = 5.0
CONNECT_SECONDS = 2.0
# How much younger than the file with its id a process may seem: clocks of files and processes differ in steps.
CLOCK_STEP = 2.0


class AskError(Exception):
    """A shim has not answered; the message says what to do."""


@dataclass
class Bundle:
    """A directory that containerd made for one container of this runtime."""

    path: str
    namespace: str
    id: str
    address: str
    pid: int
    made: float

    @property
    def is_served(self) -> bool:
        """Whether a shim is there for it, ready or not."""
        return (bool(self.address) and listens(self.address)) or self.runs

    @property
    def runs(self) -> bool:
        return daemon.is_running(self.pid) and not _is_younger(self.pid, self.made)


@dataclass
class Shim:
    """One that listens, or that a bundle says there was."""

    address: str
    namespace: str = ""
    id: str = ""
    pid: int = 0
    bundle: str = ""
    made: float = 0.0
    #: ours, microsoft
    kind: str = "ours"
    #: What it told, if it did.
    told: dict[str, Any] = field(default_factory=dict)
    #: Why not.
    problem: str = ""
    is_dead: bool = False

    def task_ids(self) -> list[str]:
        return [str(task["id"]) for task in self.told.get("tasks", [])] + list(self.told.get("creating", []))

    def serves(self, id: str) -> bool:
        return id == self.id or id in self.task_ids()


def configure(parser: argparse.ArgumentParser) -> None:
    """Where to look; every tool that looks for shims has these."""
    parser.add_argument(
        "--socket-dir", action="append", metavar="DIR",
        help=f"directory of the shims' sockets, repeatable (default: RUNHCS_SOCKET_DIR, now {SOCKETS})",
    )  # fmt: skip
    parser.add_argument(
        "--state", action="append", metavar="DIR",
        help=f"state directory of a containerd, repeatable (default: {STATE})",
    )  # fmt: skip
    parser.add_argument("-n", "--namespace", default="", help="only this namespace of containerd")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def socket_directories(args: argparse.Namespace) -> list[str]:
    return [os.path.abspath(path) for path in args.socket_dir or ([] if WINDOWS else [SOCKETS])]


def state_directories(args: argparse.Namespace) -> list[str]:
    return [os.path.abspath(path) for path in args.state or [STATE]]


def bundles(args: argparse.Namespace) -> list[Bundle]:
    """Those of this runtime, by what only its shim leaves in one."""
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
        made = path.stat().st_mtime
    except OSError:
        made = 0.0
    address = _read(directory / "address").strip()
    pid = int(text) if text.isdigit() else 0
    return Bundle(str(directory), directory.parent.name, directory.name, address, pid, made)


def find(args: argparse.Namespace, properties: bool = False) -> list[Shim]:
    """All shims, those that are dead and have left a bundle among them; by namespace and id."""
    known = bundles(args)
    addresses = {bundle.address for bundle in known if bundle.address and listens(bundle.address)}
    addresses |= {address for address in _sockets(args) if listens(address)}
    with ThreadPoolExecutor(8) as pool:
        asked = pool.map(lambda address: ask_who(address, properties), sorted(addresses))
        shims = [shim for shim in asked if shim is not None]
    by_address = {endpoint.name_of(shim.address): shim for shim in shims}
    for bundle in known:
        shim = by_address.get(endpoint.name_of(bundle.address)) if bundle.address else None
        if shim is None:
            gone = not bundle.is_served
            problem = "its process is gone" if gone else "its process runs and nobody listens: it may be ending"
            shim = Shim(bundle.address, is_dead=gone, problem=problem)
            shims.append(shim)
            by_address[endpoint.name_of(bundle.address) or bundle.path] = shim
        if not shim.id or shim.id == bundle.id:
            shim.namespace, shim.id = shim.namespace or bundle.namespace, bundle.id
            shim.bundle, shim.pid, shim.made = bundle.path, shim.pid or bundle.pid, bundle.made
    wanted = [shim for shim in shims if args.namespace in ("", shim.namespace)]
    return sorted(wanted, key=lambda shim: (shim.namespace, shim.id, shim.address))


def _sockets(args: argparse.Namespace) -> Iterator[str]:
    if WINDOWS:
        try:
            names = os.listdir(PIPES)
        except OSError:
            return  # Wine cannot list them: bundles tell of those that are known
        for name in names:
            if name.startswith(PIPE_PREFIX) and name.endswith("-pipe"):
                yield PIPES + name
        return
    for directory in socket_directories(args):
        for path in socket_files(directory):
            yield endpoint.SCHEME + path


def socket_files(directory: str) -> list[str]:
    """Files that are sockets and are named as shims name theirs."""
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


def _is_younger(pid: int, moment: float) -> bool:
    """Whether this process began after that moment."""
    if WINDOWS or not moment:
        return False
    try:
        ticks = int(_read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[19])
        uptime = float(_read(Path("/proc/uptime")).split()[0])
    except (IndexError, ValueError):
        return False
    begun = time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
    return begun > moment + CLOCK_STEP


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


# Asking.


def call(address: str, service: str, method: str, payload: bytes, timeout: float = ANSWER_SECONDS) -> bytes:
    """One question on a connection of its own. Raises AskError, and StatusError if that is the answer."""
    try:
        stream = endpoint.connect(endpoint.path_of(address), CONNECT_SECONDS)
    except (OSError, endpoint.EndpointError) as error:
        raise AskError(f"nobody listens on {address} ({error}): `runhcs gc` shows what is left of it") from None
    stream.settimeout(None)
    client = Client(stream)
    try:
        return client.call(service, method, payload, timeout=timeout)
    except ClosedError as error:
        raise AskError(f"the shim on {address} hung up ({error}): try again, it may have been ending") from None
    except StatusError as error:
        if error.code == status.DEADLINE_EXCEEDED:
            text = f"the shim on {address} has not answered within {timeout:.0f} s: `runhcs stacks` may show why"
            raise AskError(text) from None
        raise
    finally:
        client.close()


def ask_who(address: str, properties: bool = False) -> Shim | None:
    """The shim that listens there; None if it is of another runtime."""
    try:
        answer = call(address, INSPECT, "Shim", InspectRequest(properties=properties).encode())
    except AskError as error:
        return Shim(address, problem=str(error))
    except StatusError as error:
        return _ask_microsoft(address) if error.code == status.UNIMPLEMENTED else Shim(address, problem=str(error))
    told = json.loads(InspectResponse.decode(answer).json)
    return Shim(
        address, told["namespace"], told["id"], told["pid"], told["bundle"], _made(told["bundle"]), told=told
    )


def _made(bundle: str) -> float:
    try:
        return os.stat(os.path.join(bundle, "shim.pid")).st_mtime
    except OSError:
        return 0.0


def _ask_microsoft(address: str) -> Shim | None:
    try:
        pid = shimdiag.PidResponse.decode(call(address, SHIM_DIAG, "DiagPid", b"")).pid
        request = shimdiag.TasksRequest(execs=True).encode()
        tasks = shimdiag.TasksResponse.decode(call(address, SHIM_DIAG, "DiagTasks", request)).tasks
    except (AskError, StatusError):
        return None
    told = {"tasks": [{"id": task.id, "execs": [{"id": one.id, "state": one.state} for one in task.execs]}
                      for task in tasks]}  # fmt: skip
    return Shim(address, pid=pid, kind="microsoft", told=told)


def pick(found: list[Shim], id: str) -> Shim:
    """The one that serves this id. Raises AskError."""
    fitting = [shim for shim in found if shim.serves(id)]
    fitting = fitting or [shim for shim in found if shim.id.startswith(id) or any(
        task.startswith(id) for task in shim.task_ids())]  # fmt: skip
    if not fitting:
        raise AskError(f"no shim serves {id!r}: `runhcs ps` lists those that there are (--state, --socket-dir)")
    if len(fitting) > 1:
        names = ", ".join(f"{shim.namespace}/{shim.id}" for shim in fitting)
        raise AskError(f"{id!r} means several: {names}; say more of it, or the namespace (-n)")
    return fitting[0]
