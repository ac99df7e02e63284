"""Arguments, startup and shutdown of the service. It runs in the foreground until SIGTERM, SIGINT or a stop request.

The native library starts it when no service listens; `runhcs emulator start` starts it from the command line. There is
one service per directory: a second one prints an error and exits with code 3. A directory that others could use to
attack it is refused with code 4.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import signal
import sys

from hcs_emulator.service.control import Control
from hcs_emulator.service.directory import DirectoryError, prepare
from hcs_emulator.service.dispatch import Dispatcher
from hcs_emulator.service.host import DEFAULT_BUILD, QUIRKS, Host, Options
from hcs_emulator.service.journal import Journal, default_path
from hcs_emulator.service.latency import Profile
from hcs_emulator.service.silo.cgroup import remove_stale
from hcs_emulator.service.transport.server import Client, serve
from hcs_emulator.service.transport.wire import Reply, Request
from hcs_emulator.service.virtual_machine.cgroups import remove_stale as remove_stale_vms
from hcs_emulator.service.virtual_machine.linux_boot import DEFAULT_GUEST, GUESTS

DEFAULT_DIRECTORY = "/run/hcs-emulator"
ALREADY_RUNNING = 3
BAD_DIRECTORY = 4


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hcs-emulator-service", description="The Host Compute Service emulator.")
    parser.add_argument(
        "--directory", default=os.environ.get("HCS_EMULATOR_DIR") or DEFAULT_DIRECTORY, help="the instance's directory"
    )
    parser.add_argument(
        "--journal", default=default_path(), metavar="FILE", help="write every call to this file (JSON lines)"
    )
    parser.add_argument("--profile", metavar="FILE", help="latency profile (TOML)")
    parser.add_argument(
        "--build",
        type=int,
        default=os.environ.get("HCS_EMULATOR_BUILD") or DEFAULT_BUILD,
        help=f"the Windows build to emulate (default: HCS_EMULATOR_BUILD, else {DEFAULT_BUILD})",
    )
    parser.add_argument(
        "--quirk", action="append", default=[], choices=sorted(QUIRKS), help="a behaviour of some builds to emulate"
    )
    parser.add_argument(
        "--linux-guest",
        choices=GUESTS,
        default=os.environ.get("HCS_EMULATOR_LINUX_GUEST") or DEFAULT_GUEST,
        help="the guest agent of Linux VMs: the emulator's own, or Microsoft's gcs, built from its Go module "
        f"(default: HCS_EMULATOR_LINUX_GUEST, else {DEFAULT_GUEST})",
    )
    parser.add_argument(
        "--wine-prefix",
        metavar="DIR",
        help="also serve programs under Wine in this prefix, and run container processes there (needs wine-run.exe)",
    )
    parser.add_argument(
        "--wine-run", metavar="FILE", default="wine-run.exe", help="the program that starts processes under Wine"
    )
    return parser.parse_args(argv)


async def run(arguments: argparse.Namespace) -> int:
    try:
        directory = prepare(arguments.directory)
    except (DirectoryError, OSError) as error:
        print(f"the emulator's directory: {error}", file=sys.stderr)
        return BAD_DIRECTORY
    options = Options(directory, arguments.build, set(arguments.quirk), arguments.linux_guest)
    profile = Profile.load(arguments.profile) if arguments.profile else Profile()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    gate = _Gate()
    try:
        server = await serve(os.path.join(directory, "hcs.sock"), gate)
    except FileExistsError as error:
        print(f"{error.strerror}: {error.filename}", file=sys.stderr)
        return ALREADY_RUNNING
    # Only now, with the lock held, is it safe to remove cgroups that an earlier service leaked.
    journal = Journal(arguments.journal)
    host = Host(options)
    await asyncio.to_thread(remove_stale, host.instance)
    await asyncio.to_thread(remove_stale_vms, host.instance)
    dispatcher = Dispatcher(host, journal)
    dispatcher.profile = profile
    control = Control(dispatcher, stop.set)
    await control.serve(os.path.join(directory, "control.sock"))
    loopback = None
    if arguments.wine_prefix:
        from hcs_emulator.service.wine.loopback import Loopback
        from hcs_emulator.service.wine.paths import WindowsPaths
        from hcs_emulator.service.wine.silo import WineHost

        prefix = os.path.realpath(arguments.wine_prefix)
        loopback = Loopback(directory, server, WindowsPaths(prefix))
        host.wine = WineHost(prefix, arguments.wine_run, loopback)
        loopback.start()
    gate.open(dispatcher)
    gc.freeze()  # loaded modules are never freed: later collections skip them
    await stop.wait()
    if loopback is not None:
        loopback.close()
    await control.close()
    await server.close()
    await host.close()
    journal.close()
    return 0


class _Gate:
    """Holds calls back until the dispatcher exists. The socket listens first, because listening takes the lock."""

    def __init__(self) -> None:
        self._dispatcher: asyncio.Future[Dispatcher] = asyncio.get_running_loop().create_future()

    def open(self, dispatcher: Dispatcher) -> None:
        self._dispatcher.set_result(dispatcher)

    async def call(self, client: Client, request: Request) -> Reply:
        return await (await asyncio.shield(self._dispatcher)).call(client, request)

    def disconnected(self, client: Client) -> None:
        if self._dispatcher.done():
            self._dispatcher.result().disconnected(client)


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        return asyncio.run(run(arguments))
    except (OSError, ValueError) as error:
        print(f"hcs-emulator-service: {error}", file=sys.stderr)
        return 1
