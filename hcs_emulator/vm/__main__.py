"""The VM worker: `python -m hcs_emulator.vm FD`, started by the service with a channel to it at descriptor FD."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import sys
from typing import Any

from hcs_emulator.service.storage import mounts
from hcs_emulator.vm.channel import Channel
from hcs_emulator.vm.windows.guest import GuestService

_CLONE_NEWNS = 0x00020000
_MS_REC = 0x4000
_PR_SET_PDEATHSIG = 1


def isolate() -> None:
    """Create a mount namespace, so that the guest's mounts are removed with it; exit when the service does."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if libc.unshare(_CLONE_NEWNS) == 0:
        mounts.mount("none", "/", "none", _MS_REC | mounts.MS_PRIVATE)


def create_workspace(directory: str) -> str:
    """A directory for mount points that only this VM sees: a tmpfs over the host's own, in our mount namespace."""
    path = os.path.join(directory, "volumes")
    try:
        mounts.mount("guest", path, "tmpfs", 0, "mode=700")
    except OSError:  # without the right to mount there are no layers either
        import tempfile  # only here: its import costs more than the rest of this module

        return tempfile.mkdtemp(prefix="guest-", dir=directory)
    return path


class VmWorker:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.guest: GuestService | None = None
        self._shut_down = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []

    async def start(self, request: dict[str, Any]) -> None:
        settings = request["settings"]
        self.guest = GuestService(settings, create_workspace(settings["directory"]))
        self.guest.silo_started = lambda pid: self.channel.send(silo=pid)
        self.guest.on_report = lambda report: self.channel.send(guest_report=report)
        self.guest.shut_down = self._shut_down.set
        self._tasks.append(asyncio.ensure_future(self.guest.run()))

    async def change_resources(self, request: dict[str, Any]) -> None:
        assert self.guest is not None
        self.guest.change_resources(request["resources"])

    async def pause(self, request: dict[str, Any]) -> None:
        assert self.guest is not None
        await self.guest.freeze()

    async def resume(self, request: dict[str, Any]) -> None:
        assert self.guest is not None
        await self.guest.thaw()

    async def run(self) -> None:
        handlers = {
            "start": self.start,
            "resources": self.change_resources,
            "pause": self.pause,
            "resume": self.resume,
        }
        serving = asyncio.ensure_future(self.channel.serve(handlers))
        shut_down = asyncio.ensure_future(self._shut_down.wait())
        await asyncio.wait((serving, shut_down), return_when=asyncio.FIRST_COMPLETED)
        if self._shut_down.is_set():
            self.channel.send(shut_down=True)
            await self.channel.flush()


async def run(descriptor: int) -> None:
    await VmWorker(await Channel.open(descriptor)).run()


def main() -> None:
    isolate()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(run(int(sys.argv[1])))
    os._exit(0)  # a stopped VM needs no cleanup: its silos exit with this process


if __name__ == "__main__":
    main()
