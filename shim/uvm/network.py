"""Network namespaces in a VM: the namespace is announced to the guest, then each endpoint gets an adapter.

An adapter comes in three steps: the guest learns what is to come, HCS adds the adapter, the guest takes it into use.
Removal goes backwards.
"""

from __future__ import annotations

from threading import Lock

from shim.container.network import new_guid, with_reason
from shim.hcs_bindings import network as hcn
from shim.hcs_bindings.errors import HcsError
from shim.oci.errors import InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.uvm.guest import Guest

    Document = dict[str, Any]

PATH = "VirtualMachine/Devices/NetworkAdapters/"
ANNOUNCED = "NamespaceAddRequestSupported"
# Members of an endpoint that guests know; they refuse a document with any other.
_ENDPOINT = (
    "ID", "Name", "HostComputeNetwork", "HostComputeNamespace", "Policies", "IpConfigurations", "Dns", "Routes",
    "MacAddress", "Flags", "Health", "SchemaVersion",
)  # fmt: skip


class VmNetwork:
    """`modify` changes the VM."""

    def __init__(self, modify: Callable[[Document], None], guest: Guest, warn: Callable[[str], object]) -> None:
        self._modify = modify
        self._guest = guest
        self._warn = warn
        self._lock = Lock()
        #: Namespace -> adapter -> its settings on the host.
        self._namespaces: dict[str, dict[str, Document]] = {}

    def add(self, namespace: str) -> None:
        """Bring a namespace of the host into the VM, with all its endpoints. On failure it is taken out again."""
        with self._lock:
            if namespace in self._namespaces:
                raise InvalidSpec(f"network namespace already added: {namespace} is in the VM")
            ids = with_reason(lambda: hcn.namespace_endpoints(namespace), f'Namespace ID "{namespace}"')
            endpoints = [hcn.endpoint(endpoint) for endpoint in ids]
            properties = _without_empty(hcn.namespace(namespace))
            adapters = self._namespaces[namespace] = {}
            try:
                if self._guest.can(ANNOUNCED):
                    self._guest.modify_vm("NetworkNamespace", "Add", properties)
                # The one that is called eth0 becomes the guest's first.
                endpoints.sort(key=lambda endpoint: not str(endpoint.get("Name") or "").endswith("eth0"))
                for endpoint in endpoints:
                    self._add_adapter(adapters, endpoint)
            except BaseException:
                self._remove(namespace)
                raise

    def _add_adapter(self, adapters: dict[str, Document], endpoint: Document) -> None:
        adapter = new_guid()
        settings = {"EndpointId": endpoint.get("ID") or endpoint.get("Id")}
        if address := endpoint.get("MacAddress"):
            settings["MacAddress"] = address
        announced = {"AdapterId": adapter, "RequestType": "PreAdd", "Settings": known_to_guests(endpoint)}
        self._guest.modify_vm("Network", "Add", announced)
        self._modify({"ResourcePath": PATH + adapter, "RequestType": "Add", "Settings": settings})
        adapters[adapter] = settings
        self._guest.modify_vm("Network", "Add", {"AdapterId": adapter, "RequestType": "Add"})

    def remove(self, namespace: str) -> None:
        """Take it out, if it is in. What fails is told, not raised: the VM is about to end."""
        with self._lock:
            self._remove(namespace)

    def _remove(self, namespace: str) -> None:
        adapters = self._namespaces.pop(namespace, None)
        if adapters is None:
            return
        try:
            for adapter, settings in adapters.items():
                self._guest.modify_vm("Network", "Remove", {"AdapterId": adapter, "RequestType": "Remove"})
                self._modify({"ResourcePath": PATH + adapter, "RequestType": "Remove", "Settings": settings})
            if self._guest.can(ANNOUNCED):
                self._guest.modify_vm("NetworkNamespace", "Remove", _without_empty(hcn.namespace(namespace)))
        except HcsError as error:
            if not self._guest.is_gone:
                self._warn(f"network namespace {namespace} could not be taken out of the VM: {error}")


def _without_empty(namespace: Document) -> Document:
    """A namespace that has no endpoints yet has no list of them."""
    return {name: value for name, value in namespace.items() if value not in ([], {}, "")}


def known_to_guests(endpoint: Document) -> Document:
    """An endpoint in the form that Microsoft's shim gives it: what is empty is left out, but for two members."""
    by_name = {name.lower(): value for name, value in endpoint.items()}
    by_name["dns"] = by_name.get("dns") or {}
    health = dict(by_name.get("health") or {})
    by_name["health"] = {**health, "Extra": health.get("Extra") or {}}
    always = ("Dns", "Health")
    return {name: by_name[name.lower()] for name in _ENDPOINT if name in always or by_name.get(name.lower())}
