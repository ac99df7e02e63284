"""The hardware of a Linux VM, from outside: starts init in its namespaces and gives it devices, sockets and shares."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

from hcs_emulator.service.virtual_machine.cgroups import Cgroups
from hcs_emulator.vm.linux import init, network, plan9, root, syscalls
from hcs_emulator.vm.linux.bridge_faults import BridgeFaults
from hcs_emulator.vm.linux.bridge_relay import BridgeRelay
from hcs_emulator.vm.linux.console import Console
from hcs_emulator.vm.linux.devices import Devices
from hcs_emulator.vm.linux.pci import PciDevices
from hcs_emulator.vm.linux.vsock import VsockServer

_BOOT_TIMEOUT = 30.0
_BACKLOG = 64


class MachineError(Exception):
    """The VM cannot be started."""


class Machine:
    """`send` gives the service a message, such as a guest report."""

    def __init__(self, settings: dict[str, Any], send: Callable[..., None]) -> None:
        self._settings = settings
        self._resources: dict[str, Any] = settings["resources"]
        self._sockets = os.path.join(settings["directory"], "hvsock", settings["runtime_id"])
        self._cgroups = Cgroups(settings["instance"], settings["control_group"])
        self._send = send
        self.init = 0
        self.faults = BridgeFaults(lambda fault: send(guest_fault=fault))
        self._relay = BridgeRelay(
            lambda report: send(guest_report=report), lambda pid: send(kill_client=pid), self.faults, self.crash
        )
        self._devices: Devices | None = None
        self._pci: PciDevices | None = None
        self._adapters: network.Adapters | None = None

    def start(self) -> None:
        """Boot: returns when the agent is being started."""
        self._cgroups.create()
        self.set_limits(self._settings["limits"])
        self.faults.replace(self._settings["faults"])
        if self._settings["module"]:
            importlib.import_module(self._settings["module"])
        console = Console(self._settings["console"]) if self._settings["boot"]["console"] else None
        ours = self._fork_init(console)
        self._wait_ready(ours)
        if console is not None:
            console.close_guest_end()
            threading.Thread(target=console.run, daemon=True).start()
        guest = f"/proc/{self.init}/root"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(guest + root.VSOCK)
        listener.listen(_BACKLOG)
        server = VsockServer(listener, self._short_path(), self._open_share, self._relay.open)
        threading.Thread(target=server.run, daemon=True).start()
        self._devices = Devices(guest)
        self._pci = PciDevices(guest) if self._settings["has_pci"] else None
        self._devices.add_controllers(self._settings["controllers"])
        self._adapters = network.Adapters(self.init, guest)
        self._adapters.prepare()
        self.change_resources(self._resources)
        ours.sendall(init.GO)
        ours.close()

    def _fork_init(self, console: Console | None) -> socket.socket:
        """Only the main thread may fork, before there are others: the child runs Python."""
        ours, theirs = socket.socketpair()
        own_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        syscalls.unshare(syscalls.CLONE_NEWPID)
        self.init = os.fork()
        if self.init == 0:
            ours.close()
            init.run(self._settings, self._cgroups, theirs, console.guest_end if console is not None else None)
        # The namespace was for the child only; with it this process could create no thread.
        syscalls.setns(own_namespace, syscalls.CLONE_NEWPID)
        os.close(own_namespace)
        theirs.close()
        self._send(silo=self.init)
        return ours

    @staticmethod
    def _wait_ready(ours: socket.socket) -> None:
        ours.settimeout(_BOOT_TIMEOUT)
        try:
            answer = ours.recv(4096)
        except TimeoutError:
            raise MachineError(f"the VM did not boot in {_BOOT_TIMEOUT:.0f} s") from None
        if answer != init.READY:
            raise MachineError(answer.decode("utf-8", "replace") or "init exited before the VM booted")

    def _short_path(self) -> str:
        """Through an open descriptor: the length of a socket's path is limited, that of the directory's is not."""
        return f"/proc/self/fd/{os.open(self._sockets, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)}"

    def _open_share(self, name: str) -> int:
        share = self._resources["shares"].get(name)
        if share is None:
            raise KeyError(f"the host has no share {name}")
        return plan9.open_share(share, os.path.join(self._sockets, "shares"))

    def change_resources(self, resources: dict[str, Any]) -> None:
        assert self._devices is not None and self._adapters is not None
        self._devices.change(resources["disks"], resources["memory"])
        self._adapters.change(resources["adapters"])
        if self._pci is not None:
            self._pci.change(resources["pci"])
        self._resources = resources

    def set_limits(self, limits: dict[str, int]) -> None:
        self._cgroups.set_limits(**limits)

    def freeze(self, frozen: bool) -> None:
        self._cgroups.freeze(frozen)

    def crash(self) -> None:
        """Stop the guest at once."""
        if self.init:
            try:
                os.kill(self.init, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def stop(self) -> None:
        """Stop the guest, also a frozen one."""
        self.freeze(False)
        self.crash()

    def remove_cgroups(self) -> None:
        self._cgroups.remove()

    def wait(self) -> bool:
        """Wait until the guest has exited. True: it has shut itself down."""
        _, status = os.waitpid(self.init, 0)
        # The kernel ends the init of a pid namespace with SIGINT when a process in it powers the system off.
        return status == 0 or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT)
