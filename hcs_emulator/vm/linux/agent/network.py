"""Network namespaces of HCN and their adapters. An adapter's interface moves into the network namespace of the
container that names the namespace, and is configured there.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

from hcs_emulator.vm.linux.agent import log, syscalls, waiting
from hcs_emulator.vm.linux.agent.errors import NOT_FOUND, GuestError, failed, with_code
from hcs_emulator.vm.linux.agent.netlink import Link, Netlink
from hcs_emulator.vm.linux.agent.storage import unsupported

ADAPTER_TIMEOUT = 5.0
DHCP_TIMEOUT = 30.0
_EVERYWHERE = ("0.0.0.0/0", "::/0")
_NO_GATEWAY = ("0.0.0.0", "::")
_POLICY_TABLE, _POLICY_PRIORITY, _POLICY_METRIC = 101, 5, 500


class Adapter:
    def __init__(self, settings: dict[str, Any], interface: str) -> None:
        self.settings = settings
        self.interface = interface
        self.pid = 0


class Namespace:
    def __init__(self, identifier: str) -> None:
        self.id = identifier
        self.pid = 0
        self.adapters: list[Adapter] = []
        self.lock = threading.Lock()

    def add(self, settings: dict[str, Any]) -> None:
        identifier = settings["ID"].lower()
        with self.lock:
            if any(adapter.settings["ID"].lower() == identifier for adapter in self.adapters):
                raise GuestError(f"adapter with id: '{settings['ID']}' already present in namespace")
            self.adapters.append(Adapter(settings, _interface(identifier, settings["VPCIAssigned"])))

    def remove(self, identifier: str) -> None:
        with self.lock:
            self.adapters = [one for one in self.adapters if one.settings["ID"].lower() != identifier.lower()]

    def assign(self, pid: int) -> None:
        with self.lock:
            if self.pid:
                text = f'previously assigned container pid {self.pid} to network namespace "{self.id}"'
                raise GuestError(text)
            self.pid = pid

    def sync(self) -> None:
        """Move and configure the adapters that are not in the container's network namespace yet."""
        with self.lock:
            if not self.pid:
                return
            for position, adapter in enumerate(self.adapters):
                if adapter.pid != self.pid:
                    _choose_metric(adapter, position)
                    _configure(adapter, self.pid)

    def configure_in_place(self) -> None:
        """Configure the adapters in the VM's own network namespace, in which the containers are."""
        with self.lock:
            for position, adapter in enumerate(self.adapters):
                _choose_metric(adapter, position)
                with _configuring(adapter), Netlink() as here:
                    _configure_there(here, adapter.settings, adapter.interface, os.getpid())

    def dns(self) -> tuple[list[str], list[str]]:
        """Search domains and servers of all adapters, each once."""
        with self.lock:
            settings = [adapter.settings for adapter in self.adapters]
        return _unique(settings, "DNSSuffix"), _unique(settings, "DNSServerList")


def _unique(settings: list[dict[str, Any]], name: str) -> list[str]:
    values = [value for one in settings if one[name] for value in one[name].split(",")]
    return list(dict.fromkeys(value.strip().lower() for value in values))


class Network:
    def __init__(self) -> None:
        self._namespaces: dict[str, Namespace] = {}
        self._lock = threading.Lock()

    def find(self, identifier: str) -> Namespace | None:
        with self._lock:
            return self._namespaces.get(identifier.lower())

    def get(self, identifier: str) -> Namespace:
        found = self.find(identifier)
        if found is None:
            raise with_code(NOT_FOUND, f"namespace '{identifier.lower()}' not found")
        return found

    def get_or_add(self, identifier: str) -> Namespace:
        with self._lock:
            return self._namespaces.setdefault(identifier.lower(), Namespace(identifier.lower()))

    def forget(self, pid: int) -> None:
        """The container whose network namespace was assigned is gone."""
        with self._lock:
            for namespace in self._namespaces.values():
                if namespace.pid == pid:
                    namespace.pid = 0

    def change(self, change: str, settings: dict[str, Any]) -> None:
        if change == "Add":
            namespace = self.get_or_add(settings["NamespaceID"])
            namespace.add(settings)
            namespace.sync()
        elif change == "Remove":
            found = self.find(settings["NamespaceID"])
            if found is None:
                log.warning("namespace not found for adapter removal, skipping", namespace=settings["NamespaceID"])
            else:
                found.remove(settings["ID"])
        else:
            raise unsupported(change)


def _interface(identifier: str, assigned: bool) -> str:
    """The name of the interface behind a VMBus instance id."""
    try:
        if assigned:
            device = waiting.for_pci_device(identifier, ADAPTER_TIMEOUT)
            directory = waiting.for_pattern(f"{device}/net", ADAPTER_TIMEOUT)
        else:
            directory = waiting.for_pattern(f"{waiting.VMBUS}/{identifier}/net", ADAPTER_TIMEOUT)
    except GuestError as error:
        raise error.within(f"failed to find adapter {identifier} sysfs path") from error
    names = os.listdir(directory)
    if not names:
        raise GuestError(f"no interface name found for adapter {identifier}")
    if len(names) > 1:
        raise GuestError(f"multiple interface names found for adapter {identifier}")
    return names[0]


def _configure(adapter: Adapter, pid: int) -> None:
    interface = adapter.interface
    try:
        with Netlink() as here:
            link = here.link(interface)
            here.set_up(link.index, False)
            here.move_to(link.index, pid)
    except OSError as error:
        raise failed(f"failed to move interface {interface} to network namespace", error) from error
    with _configuring(adapter), Netlink.in_namespace(pid) as there:
        _configure_there(there, adapter.settings, interface, pid)
    adapter.pid = pid


def _choose_metric(adapter: Adapter, position: int) -> None:
    if adapter.settings["PolicyBasedRouting"]:
        adapter.settings["EnableLowMetric"] = position > 0


@contextlib.contextmanager
def _configuring(adapter: Adapter) -> Iterator[None]:
    context = f"failed to configure adapter aid: {adapter.settings['ID']}, if id: {adapter.interface}"
    try:
        yield
    except OSError as error:
        raise failed(context, error) from error
    except (GuestError, ValueError) as error:
        raise GuestError(f"{context}: {error}") from error


def _configure_there(netlink: Netlink, settings: dict[str, Any], interface: str, pid: int) -> None:
    link = netlink.link(interface)
    if settings["EncapOverhead"]:
        netlink.set_mtu(link.index, link.mtu - settings["EncapOverhead"])
    if not settings["IPConfigs"]:
        _ask_dhcp(interface, pid)
        return
    netlink.set_up(link.index, True)
    table = 0
    for entry in settings["IPConfigs"]:
        address = ipaddress.ip_interface(f"{entry['IPAddress']}/{entry['PrefixLength']}")
        netlink.add_address(link.index, address)
        if settings["EnableLowMetric"]:
            netlink.add_rule(address.ip, _POLICY_TABLE, _POLICY_PRIORITY)
            table = _POLICY_TABLE
    for route in settings["Routes"]:
        _add_route(netlink, link, route, settings["EnableLowMetric"], table)


def _add_route(netlink: Netlink, link: Link, route: dict[str, Any], low_metric: bool, table: int) -> None:
    prefix, hop = route["DestinationPrefix"], route["NextHop"]
    if prefix in _EVERYWHERE and hop in _NO_GATEWAY:
        return  # the interface has no default gateway
    destination = None if prefix in _EVERYWHERE else ipaddress.ip_interface(prefix)
    try:
        gateway = ipaddress.ip_address(hop)
    except ValueError:
        gateway = None
    if gateway is None and destination is None:
        raise GuestError("gw and destination cannot both be nil")
    metric = route["Metric"] or (_POLICY_METRIC if low_metric else 0)
    try:
        netlink.add_route(link.index, destination, gateway, metric, table)
    except OSError as error:
        if error.errno != errno.ENETUNREACH or gateway is None:
            raise
        # The gateway is outside of the subnet: as an address of the interface it is reachable.
        netlink.add_address(link.index, ipaddress.ip_interface(f"{gateway}/{gateway.max_prefixlen}"))
        netlink.add_route(link.index, destination, gateway, metric, table)


def _ask_dhcp(interface: str, pid: int) -> None:
    """Run the DHCP client in the container's network namespace."""
    result: list[str] = []

    def run() -> None:
        descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            syscalls.enter_network_namespace(descriptor)
            command = ["udhcpc", "-q", "-i", interface, "-s", "/sbin/udhcpc_config.script"]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DHCP_TIMEOUT)
            if done.returncode:
                output = done.stdout.decode(errors="replace")
                result.append(f"process failed ({output}): exit status {done.returncode}")
        except subprocess.TimeoutExpired:
            result.append("udhcpc timed out. Failed to get DHCP address")
        except OSError as error:
            result.append(f"process failed (): {error.strerror}")
        finally:
            os.close(descriptor)

    started = time.monotonic()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    log.debug("udhcpc finished", interface=interface, seconds=round(time.monotonic() - started, 3))
    if result:
        raise GuestError(result[0])
