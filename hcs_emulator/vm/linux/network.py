"""The network adapters of a Linux VM: interfaces in the guest, with the entries that VMBus would have.

An adapter is one end of a veth pair. Its other end is in a network namespace of the worker, where nothing answers.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from hcs_emulator.vm.linux import syscalls

_RTM_NEWLINK, _RTM_DELLINK, _NLM_ACK_REQUEST = 16, 17, 0x5
_NLM_CREATE = 0x600  # NLM_F_CREATE | NLM_F_EXCL
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_NET_NS_PID = 1, 3, 18, 19
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_NESTED = 0x8000
_IFF_UP = 1
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914


class Adapters:
    """`guest` is the path of the guest's root directory; `pid` is its init."""

    def __init__(self, pid: int, guest: str) -> None:
        self._pid = pid
        self._devices = f"{guest}/sys/bus/vmbus/devices"
        self._present: dict[str, str] = {}
        self._next = 0
        self._outside = -1

    def prepare(self) -> None:
        guest = os.open(f"/proc/{self._pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _in_namespace(guest, lambda: _set_up("lo"))
        finally:
            os.close(guest)

    def change(self, adapters: dict[str, dict[str, Any]]) -> None:
        """Add and remove until these are the adapters, by their ids."""
        for adapter in [adapter for adapter in self._present if adapter not in adapters]:
            self._remove(adapter)
        for adapter, settings in adapters.items():
            if adapter not in self._present:
                self._add(adapter, settings)

    def _add(self, adapter: str, settings: dict[str, Any]) -> None:
        name = f"eth{self._next}"
        self._next += 1
        address = bytes.fromhex(settings["mac"].replace("-", "").replace(":", "")) if settings["mac"] else b""
        if self._outside < 0:
            self._outside = _new_namespace()
        _in_namespace(self._outside, lambda: _create_pair(f"p{name}", name, self._pid, address))
        os.makedirs(f"{self._devices}/{adapter}/net/{name}")
        self._present[adapter] = name

    def _remove(self, adapter: str) -> None:
        name = self._present.pop(adapter)
        shutil.rmtree(f"{self._devices}/{adapter}", ignore_errors=True)
        _in_namespace(self._outside, lambda: _delete(f"p{name}"))


def _new_namespace() -> int:
    def create() -> int:
        syscalls.unshare(syscalls.CLONE_NEWNET)
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    return _in_thread(create)


def _in_namespace(namespace: int, work: Callable[[], Any]) -> None:
    def run() -> int:
        syscalls.setns(namespace, syscalls.CLONE_NEWNET)
        work()
        return 0

    _in_thread(run)


def _in_thread(work: Callable[[], int]) -> int:
    """A network namespace belongs to a thread: one that ends with the work leaves the others where they are."""
    results: list[int] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


def _create_pair(name: str, guest_name: str, guest_pid: int, address: bytes) -> None:
    peer = _link(_IFLA_IFNAME, guest_name.encode() + b"\0") + _link(_IFLA_NET_NS_PID, struct.pack("I", guest_pid))
    if address:
        peer += _link(_IFLA_ADDRESS, address)
    data = _link(_VETH_INFO_PEER | _NESTED, _interface() + peer)
    info = _link(_IFLA_INFO_KIND, b"veth\0") + _link(_IFLA_INFO_DATA | _NESTED, data)
    attributes = _link(_IFLA_IFNAME, name.encode() + b"\0") + _link(_IFLA_LINKINFO | _NESTED, info)
    _request(_RTM_NEWLINK, _NLM_CREATE, _interface() + attributes)
    _set_up(name)


def _delete(name: str) -> None:
    try:
        _request(_RTM_DELLINK, 0, _interface() + _link(_IFLA_IFNAME, name.encode() + b"\0"))
    except OSError:
        pass  # the pair has gone with the namespace of its other end


def _interface() -> bytes:
    return struct.pack("BxHiII", 0, 0, 0, 0, 0)


def _link(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("HH", size, kind) + value + bytes(-size % 4)


def _request(kind: int, flags: int, body: bytes) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as netlink:
        netlink.send(struct.pack("IHHII", 16 + len(body), kind, _NLM_ACK_REQUEST | flags, 1, 0) + body)
        answer = netlink.recv(1 << 16)
    code = -struct.unpack_from("i", answer, 16)[0]
    if code:
        raise OSError(code, os.strerror(code), "rtnetlink")


def _set_up(name: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        request = struct.pack("16sh14x", name.encode(), 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", name.encode(), flags | _IFF_UP))
