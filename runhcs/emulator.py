"""Control the HCS emulator: start and stop it, show its state, inject faults and latency.

  runhcs emulator start                     start the service (the native library also starts it on demand)
  runhcs emulator status                    its compute systems
  runhcs emulator journal -f                every HCS call as it happens, one JSON object per line
  runhcs emulator fault add --call HcsStartComputeSystem --nth 2 --error 0x80370109
  runhcs emulator fault add --call '*' --nth 7 --kill-client before
  runhcs emulator fault list | clear [ID]
  runhcs emulator profile set FILE.toml | show | clear
  runhcs emulator stop

The instance is the one in HCS_EMULATOR_DIR (default /run/hcs-emulator), or --directory.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from runhcs import console

DEFAULT_DIRECTORY = "/run/hcs-emulator"
START_TIMEOUT = 20.0
STOP_TIMEOUT = 60.0


class ControlError(Exception):
    """A request to the service failed; the message names the next step."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--directory",
        default=os.environ.get("HCS_EMULATOR_DIR") or DEFAULT_DIRECTORY,
        help=f"directory of the instance (default: HCS_EMULATOR_DIR, else {DEFAULT_DIRECTORY})",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, function: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        child = actions.add_parser(name, help=text, description=text)
        child.set_defaults(function=function)
        return child

    start = action("start", _start, "start the service and wait until it answers")
    start.add_argument("--journal", metavar="FILE", help="log every HCS call to this file")
    start.add_argument("--profile", metavar="FILE", help="latency profile (TOML)")
    start.add_argument("--build", type=int, help="the Windows build to emulate")
    start.add_argument("--quirk", action="append", default=[], help="a behaviour of some builds, may be repeated")
    start.add_argument(
        "--linux-guest",
        choices=("emulated", "gcs"),
        help="the guest agent of Linux VMs: the emulator's own, or Microsoft's gcs, which is built from its Go module",
    )
    start.add_argument("--foreground", action="store_true", help="do not detach")
    action("stop", _stop, "stop the service and all its compute systems")
    status = action("status", _status, "show the service and its compute systems")
    status.add_argument("--json", action="store_true", help="print everything, as JSON")
    journal = action("journal", _journal, "print the journal")
    journal.add_argument("-f", "--follow", action="store_true", help="wait for new lines")
    _configure_fault(actions.add_parser("fault", help="inject faults: errors, delays, crashes"))
    _configure_profile(actions.add_parser("profile", help="set or show the latency profile"))


def _configure_fault(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    add = verbs.add_parser("add", help="add a fault")
    add.add_argument(
        "--call",
        required=True,
        help="the export, e.g. HcsStartComputeSystem, or * for any; a request to a Linux guest, e.g. guest:Create, or "
        "guest:* for any",
    )
    add.add_argument("--nth", type=_count, help="only the nth call from now (default: every call)")
    add.add_argument("--error", type=_hresult, help="fail with this HRESULT, e.g. 0x80370109")
    add.add_argument("--delay", type=_seconds, default=0.0, metavar="SECONDS", help="delay the call")
    add.add_argument("--crash-vm", action="store_true", help="kill the worker process of the VM of this call")
    add.add_argument("--disconnect", action="store_true", help="drop the caller's connection")
    add.add_argument(
        "--kill-client", choices=("before", "after"), help="SIGKILL the calling process before or after the response"
    )
    add.add_argument("--no-answer", action="store_true", help="the guest never answers the request")
    add.set_defaults(function=_fault_add)
    verbs.add_parser("list", help="list the faults").set_defaults(function=_fault_list)
    clear = verbs.add_parser("clear", help="remove one fault, or all")
    clear.add_argument("id", nargs="?", type=int, help="the id that `list` shows")
    clear.set_defaults(function=_fault_clear)


def _configure_profile(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    verbs.add_parser("show", help="show the current profile").set_defaults(function=_profile_show)
    verbs.add_parser("clear", help="add no latency").set_defaults(function=_profile_clear)
    change = verbs.add_parser("set", help="use the latencies in a TOML file")
    change.add_argument("file", metavar="FILE")
    change.set_defaults(function=_profile_set)


def _hresult(text: str) -> int:
    try:
        return int(text, 16) & 0xFFFFFFFF
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not an HRESULT such as 0x80370109") from None


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a count: give 1 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a duration: give seconds, such as 0.5")
    return value


def run(args: argparse.Namespace) -> int:
    try:
        return int(args.function(args))
    except ControlError as error:
        print(f"runhcs emulator: {error}", file=sys.stderr)
        return 1


# Requests to the service.


def connect(directory: str) -> socket.socket:
    path = os.path.join(directory, "control.sock")
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(10)
        connection.connect(path)
    except OSError as error:
        connection.close()
        if isinstance(error, PermissionError):
            raise ControlError(f"{path} belongs to another user") from None
        raise ControlError(f"no emulator is running in {directory}: start it with `runhcs emulator start`") from None
    return connection


def command(directory: str, name: str, **arguments: Any) -> dict[str, Any]:
    with connect(directory) as connection:
        return _ask(connection, name, arguments)


def _ask(connection: socket.socket, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    connection.sendall(json.dumps({"command": name, **arguments}).encode() + b"\n")
    received = b""
    while not received.endswith(b"\n"):
        try:
            data = connection.recv(1 << 16)
        except OSError as error:
            raise ControlError(f"the emulator does not answer: {error}") from None
        if not data:
            raise ControlError("the emulator stopped before it answered")
        received += data
        if b"\n" in received:
            break
    answer: dict[str, Any] = json.loads(received.partition(b"\n")[0])
    if not answer["ok"]:
        raise ControlError(answer["error"])
    return answer


# Actions.


def _start(args: argparse.Namespace) -> int:
    try:
        command(args.directory, "status")
    except ControlError:
        pass
    else:
        print(f"the emulator is already running in {args.directory}")
        return 0
    arguments = [sys.executable, "-m", "hcs_emulator.service", "--directory", args.directory]
    for option in ("journal", "profile", "build"):
        value = getattr(args, option)
        if value is not None:
            arguments += [f"--{option}", os.path.abspath(value) if option != "build" else str(value)]
    for quirk in args.quirk:
        arguments += ["--quirk", quirk]
    if args.linux_guest is not None:
        arguments += ["--linux-guest", args.linux_guest]
    if args.linux_guest == "gcs":
        _build_gcs()
    if args.foreground:
        return subprocess.call(arguments)
    from hcs_emulator.service.directory import DirectoryError, prepare

    try:
        prepare(args.directory)
    except (DirectoryError, OSError) as error:
        raise ControlError(f"the emulator's directory: {error}") from None
    log = os.path.join(args.directory, "service.log")
    with open(log, "a", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, 0o600)) as output:
        service = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        try:
            command(args.directory, "status")
        except ControlError:
            if service.poll() is not None:
                raise ControlError(f"the service exited with code {service.returncode}: see {log}") from None
            time.sleep(0.01)
        else:
            print(f"the emulator is running in {args.directory} (pid {service.pid})")
            return 0
    raise ControlError(f"the service does not answer: see {log}")


def _build_gcs() -> None:
    """Now, where the user sees what happens, and not when the first VM starts."""
    from hcs_emulator.vm.linux.gcs import build

    try:
        build.find_or_build()
    except (build.BuildError, OSError) as error:
        raise ControlError(str(error)) from None


def _stop(args: argparse.Namespace) -> int:
    with connect(args.directory) as connection:
        _ask(connection, "stop", {})
        connection.settimeout(STOP_TIMEOUT)
        try:
            while connection.recv(1 << 16):
                pass
        except OSError:
            pass
    deadline = time.monotonic() + STOP_TIMEOUT
    while os.path.exists(os.path.join(args.directory, "hcs.sock")):
        if time.monotonic() > deadline:
            raise ControlError(f"the service for {args.directory} has not stopped after {STOP_TIMEOUT:.0f} s")
        time.sleep(0.01)
    print("stopped")
    return 0


def _status(args: argparse.Namespace) -> int:
    answer = command(args.directory, "status")
    if args.json:
        print(json.dumps(answer, indent=2))
        return 0
    print(f"directory  {answer['directory']}")
    print(f"build      {answer['build']}; {answer['calls']} calls so far, {answer['handles']} open handles")
    print(f"journal    {answer['journal'] or 'off (`journal -f` shows calls as they happen)'}")
    print(f"faults     {len(answer['faults'])}; latency profile {answer['profile']['name']}")
    if answer["systems"]:
        rows = [(one["Id"], one["SystemType"], one["State"], len(one["Processes"])) for one in answer["systems"]]
        console.print_table(("SYSTEM", "TYPE", "STATE", "PROCESSES"), rows)
    return 0


def _journal(args: argparse.Namespace) -> int:
    with connect(args.directory) as connection:
        if not args.follow:
            path = _ask(connection, "journal", {})["path"]
            if path is None:
                raise ControlError("the journal is off: start the service with --journal FILE, or follow it with -f")
            with open(path) as file:
                for line in file:
                    sys.stdout.write(line)
            return 0
        connection.sendall(b'{"command": "journal", "follow": true}\n')
        connection.settimeout(None)
        lines = connection.makefile()
        lines.readline()
        for line in lines:
            sys.stdout.write(line)
            sys.stdout.flush()
    return 0


def _fault_add(args: argparse.Namespace) -> int:
    members = ("call", "nth", "error", "delay", "crash_vm", "disconnect", "kill_client", "no_answer")
    fault = {name: getattr(args, name) for name in members}
    print(f"fault {command(args.directory, 'fault-add', **fault)['fault']['id']} added")
    return 0


def _fault_list(args: argparse.Namespace) -> int:
    for fault in command(args.directory, "fault-list")["faults"]:
        print(json.dumps(fault))
    return 0


def _fault_clear(args: argparse.Namespace) -> int:
    print(f"{command(args.directory, 'fault-clear', id=args.id)['removed']} removed")
    return 0


def _profile_show(args: argparse.Namespace) -> int:
    print(json.dumps(command(args.directory, "profile")["profile"], indent=2))
    return 0


def _profile_clear(args: argparse.Namespace) -> int:
    command(args.directory, "profile", clear=True)
    return 0


def _profile_set(args: argparse.Namespace) -> int:
    print(json.dumps(command(args.directory, "profile", path=os.path.abspath(args.file))["profile"], indent=2))
    return 0
