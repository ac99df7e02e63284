"""Interfaces, addresses, routes and rules by rtnetlink, without a program.

A socket belongs to the network namespace in which it was opened: `in_namespace` opens one in a thread that is in
another namespace for that moment.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import threading

from hcs_emulator.vm.linux.agent import syscalls

Address = ipaddress.IPv4Interface | ipaddress.IPv6Interface
Ip = ipaddress.IPv4Address | ipaddress.IPv6Address

_REQUEST, _ACK, _EXCL, _CREATE = 0x1, 0x4, 0x200, 0x400
_ERROR, _DONE = 2, 3
_NEWLINK, _GETLINK, _SETLINK, _NEWADDR, _NEWROUTE, _NEWRULE = 16, 18, 19, 20, 24, 32
_IFNAME, _MTU, _NET_NS_PID = 3, 4, 19
_UP = 1
_LOCAL, _ADDRESS, _BROADCAST = 2, 1, 4
_DST, _OIF, _GATEWAY, _PRIORITY, _TABLE = 1, 4, 5, 6, 15
_RULE_SRC, _RULE_PRIORITY, _RULE_TABLE = 2, 6, 15
_MAIN_TABLE, _BOOT, _UNICAST, _TO_TABLE = 254, 3, 1, 1
_TIMEOUT = 10.0


def _attribute(kind: int, data: bytes) -> bytes:
    size = 4 + len(data)
    return struct.pack("HH", size, kind) + data + bytes(-size % 4)


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("I", value))


def _family(address: Ip) -> int:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


class Link:
    def __init__(self, index: int, mtu: int) -> None:
        self.index = index
        self.mtu = mtu


class Netlink:
    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.settimeout(_TIMEOUT)
        self._socket.bind((0, 0))
        self._sequence = 0

    @classmethod
    def in_namespace(cls, pid: int) -> Netlink:
        """A socket in the network namespace of a process."""
        result: list[Netlink] = []
        failure: list[OSError] = []
        descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)

        def open_there() -> None:
            try:
                syscalls.enter_network_namespace(descriptor)
                result.append(cls())
            except OSError as error:
                failure.append(error)

        try:
            thread = threading.Thread(target=open_there)
            thread.start()
            thread.join()
        finally:
            os.close(descriptor)
        if failure:
            raise failure[0]
        return result[0]

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, kind: int, flags: int, body: bytes) -> bytes:
        """Send a request; returns the body of the answer. Raises OSError with the kernel's errno."""
        self._sequence += 1
        header = struct.pack("IHHII", 16 + len(body), kind, flags | _REQUEST, self._sequence, 0)
        self._socket.send(header + body)
        while True:
            data = self._socket.recv(1 << 16)
            while len(data) >= 16:
                size, answer, _, sequence, _ = struct.unpack_from("IHHII", data)
                content, data = data[16:size], data[(size + 3) & ~3 :]
                if sequence != self._sequence:
                    continue
                if answer == _ERROR:
                    code = -struct.unpack_from("i", content)[0]
                    if code:
                        raise OSError(code, os.strerror(code))
                return content

    def link(self, name: str) -> Link:
        body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + _attribute(_IFNAME, name.encode() + b"\0")
        answer = self._call(_GETLINK, 0, body)
        index = struct.unpack_from("BxHi", answer)[2]
        mtu, rest = 0, answer[16:]
        while len(rest) >= 4:
            size, kind = struct.unpack_from("HH", rest)
            if kind == _MTU:
                mtu = struct.unpack_from("I", rest, 4)[0]
            if size < 4:
                break
            rest = rest[(size + 3) & ~3 :]
        return Link(index, mtu)

    def _set_link(self, index: int, flags: int, mask: int, attributes: bytes = b"") -> None:
        self._call(_SETLINK, _ACK, struct.pack("BxHiII", 0, 0, index, flags, mask) + attributes)

    def set_up(self, index: int, up: bool) -> None:
        self._set_link(index, _UP if up else 0, _UP)

    def set_mtu(self, index: int, mtu: int) -> None:
        self._set_link(index, 0, 0, _number(_MTU, mtu))

    def move_to(self, index: int, pid: int) -> None:
        self._set_link(index, 0, 0, _number(_NET_NS_PID, pid))

    def add_address(self, index: int, address: Address) -> None:
        packed = address.ip.packed
        body = struct.pack("BBBBi", _family(address.ip), address.network.prefixlen, 0, 0, index)
        body += _attribute(_LOCAL, packed) + _attribute(_ADDRESS, packed)
        if isinstance(address, ipaddress.IPv4Interface) and address.network.prefixlen < 31:
            body += _attribute(_BROADCAST, address.network.broadcast_address.packed)
        self._call(_NEWADDR, _ACK | _CREATE | _EXCL, body)

    def add_route(
        self, index: int, destination: Address | None, gateway: Ip | None, metric: int, table: int = 0
    ) -> None:
        """`destination` None is the default route."""
        known = gateway if gateway is not None else destination.ip if destination is not None else None
        assert known is not None
        length = destination.network.prefixlen if destination is not None else 0
        main = table or _MAIN_TABLE
        body = struct.pack("BBBBBBBBI", _family(known), length, 0, 0, min(main, 255), _BOOT, 0, _UNICAST, 0)
        if destination is not None:
            body += _attribute(_DST, destination.ip.packed)
        if gateway is not None:
            body += _attribute(_GATEWAY, gateway.packed)
        body += _number(_OIF, index) + _number(_TABLE, main)
        if metric:
            body += _number(_PRIORITY, metric)
        self._call(_NEWROUTE, _ACK | _CREATE | _EXCL, body)

    def add_rule(self, source: Ip, table: int, priority: int) -> None:
        """Packets from an address use a table."""
        body = struct.pack("BBBBBBBBI", _family(source), 0, source.max_prefixlen, 0, table, 0, 0, _TO_TABLE, 0)
        body += _attribute(_RULE_SRC, source.packed) + _number(_RULE_TABLE, table)
        self._call(_NEWRULE, _ACK | _CREATE | _EXCL, body + _number(_RULE_PRIORITY, priority))
