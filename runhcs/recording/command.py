r"""Record what shims do, in one file for a bug report: the requests of containerd, the calls of HCS with documents,
results and durations, messages to guests, spans and log lines. Containers need not be restarted.

  runhcs record ID -o FILE          the shim of a container or pod, until Ctrl+C
  runhcs record --new -o FILE       shims that start from now on: for a pod that fails to start
  runhcs record --all -o FILE       both
  runhcs record --all -o FILE --seconds 60 -n k8s.io
  runhcs record --new -o FILE --until-exit

The file contains no environment variables, no command lines (unless --command-lines is given), no credential specs, no
registry values and no output of containers. It contains ids, paths, image layers, host names and network settings.
`runhcs replay FILE` repeats it on the emulator, if it has a pod from its start.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time

from runhcs import console, shims
from runhcs.recording.receiver import Receiver, Selection
from runhcs.shims import INSPECT, QueryError, Shim
from shim.api.inspect import RecordRequest
from shim.platform import endpoint
from shim.ttrpc.client import Client
from shim.ttrpc.status import UNIMPLEMENTED, ClosedError, StatusError

DEFAULT_MEGABYTES = 64
# Shims send every fraction of a second.
LAST_SECONDS = 15.0
ANSWER_SECONDS = 10.0
POLL_SECONDS = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    shims.configure(parser)
    parser.add_argument(
        "id", metavar="ID", nargs="?", default="", help="id of a container or pod, or the beginning of it"
    )
    parser.add_argument("--all", action="store_true", help="all shims: those that run and those that start")
    parser.add_argument("--new", action="store_true", help="only shims that start from now on")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to create")
    parser.add_argument("--seconds", type=float, metavar="N", help="stop after N seconds (default: at Ctrl+C)")
    parser.add_argument("--until-exit", action="store_true", help="stop when every recorded shim has exited")
    parser.add_argument(
        "--max-size", type=int, default=DEFAULT_MEGABYTES, metavar="MB",
        help=f"stop when the file has this size (default: {DEFAULT_MEGABYTES})",
    )  # fmt: skip
    parser.add_argument("--command-lines", action="store_true", help="include command lines, which may hold secrets")


def record_address(args: argparse.Namespace) -> str:
    directories = shims.socket_directories(args)
    scheme = str(getattr(endpoint, "SCHEME", ""))
    return endpoint.record_address(f"{scheme}{directories[0]}/shim" if directories else "")


def run(args: argparse.Namespace) -> int:
    problem = _check(args)
    if problem:
        return _fail(problem)
    try:
        running = [] if args.new else _running(args)
    except QueryError as error:
        return _fail(str(error))
    address = record_address(args)
    if not (args.all or args.new):
        address += f"-{os.getpid()}"  # new shims do not look there
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    selection = Selection(args.namespace, args.command_lines)
    try:
        receiver = Receiver(address, args.output, args.max_size << 20, selection)
    except FileExistsError:
        return _fail(f"{args.output} exists: give another name, or remove it")
    except (OSError, endpoint.EndpointError) as error:
        return _fail(f"cannot record: {error}")
    is_refused = False
    try:
        refused = [text for shim in running if (text := _ask(shim, receiver.address))]
        for text in refused:
            console.show(f"runhcs record: {text}", to_stderr=True)
        if args.id and refused:
            is_refused = True
            return 1
        waiting = "" if args.id else "; shims that start are recorded"
        print(f"recording {len(running) - len(refused)} shims to {args.output}{waiting}; Ctrl+C stops", flush=True)
        _wait(stop, receiver, args)
    finally:
        receiver.close(LAST_SECONDS)
        if is_refused:
            os.unlink(args.output)
    return _summary(args, receiver)


def _check(args: argparse.Namespace) -> str:
    if bool(args.id) + args.all + args.new != 1:
        return "give one of ID, --all and --new; `runhcs ps` lists ids"
    if args.max_size < 1 or (args.seconds is not None and args.seconds <= 0):
        return "--max-size and --seconds are above zero"
    return ""


def _running(args: argparse.Namespace) -> list[Shim]:
    found = [shim for shim in shims.find(args) if not shim.is_dead]
    return [shims.pick(found, args.id)] if args.id else [shim for shim in found if shim.kind == "ours"]


def _ask(shim: Shim, address: str) -> str:
    """Why this shim is not recorded; "" if it is."""
    name = f"{shim.namespace}/{shim.id}"
    try:
        stream = endpoint.connect(endpoint.path_of(shim.address), ANSWER_SECONDS)
        stream.settimeout(None)
        with Client(stream) as client:
            client.call(INSPECT, "Record", RecordRequest(address=address).encode(), timeout=ANSWER_SECONDS)
    except StatusError as error:
        if error.code == UNIMPLEMENTED:
            return f"{name} cannot be recorded: it runs another version of the shim, or Microsoft's"
        return f"{name} is not recorded: {error.message}"
    except (OSError, ClosedError, endpoint.EndpointError, TimeoutError) as error:
        return f"{name} is not recorded: it does not answer ({error})"
    return ""


def _wait(stop: threading.Event, receiver: Receiver, args: argparse.Namespace) -> None:
    end = None if args.seconds is None else time.monotonic() + args.seconds
    while not stop.wait(POLL_SECONDS) and not receiver.full.is_set():
        if end is not None and time.monotonic() >= end:
            return
        if args.until_exit and receiver.sources and all(source.ended for source in receiver.sources):
            return


def _summary(args: argparse.Namespace, receiver: Receiver) -> int:
    entries = sum(source.entries for source in receiver.sources)
    print(f"{args.output}: {len(receiver.sources)} shims, {entries} entries, {receiver.size} bytes")
    if receiver.full.is_set():
        print(f"runhcs record: stopped at the size limit of {args.max_size} MB: see --max-size", file=sys.stderr)
    if not receiver.sources:
        print("runhcs record: no shim was recorded: start a container while it runs, or name one", file=sys.stderr)
        return 1
    return 0


def _fail(text: str) -> int:
    console.show(f"runhcs record: {text}", to_stderr=True)
    return 1
