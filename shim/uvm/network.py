"""Network namespaces of the host in a VM: the guest gets the namespace, then an adapter for each endpoint.

An adapter is added in three steps: announced to the guest, added by HCS, configured by the guest. Removal goes
backwards.
"""

from __future__ import annotations

from threading import Lock

from shim.container.network import call_hcn, new_guid
from shim.hcs_bindings import network as hcn
from shim.oci.errors import InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.uvm.guest import Guest

    Document = dict[str, Any]

PATH = "VirtualMachine/Devices/NetworkAdapters/"


class VmNetwork:
    """`modify` is HCS's modify of the VM."""

    def __init__(self, modify: Callable[[Document], None], guest: Guest, warn: Callable[[str], object]) -> None:
        self._modify = modify
        self._guest = guest
        self._warn = warn
        self._lock = Lock()
        #: Namespace -> adapter -> its settings on the host.
        self._namespaces: dict[str, dict[str, Document]] = {}

    def add(self, namespace: str) -> None:
        """Add a namespace of the host to the VM, with all its endpoints. On failure it is removed again."""
        with self._lock:
            if namespace in self._namespaces:
                raise InvalidSpec(f"network namespace already added: {namespace} is in the VM")
            ids = call_hcn(lambda: hcn.namespace_endpoints(namespace), f'Namespace ID "{namespace}"')
            endpoints = [hcn.endpoint(endpoint) for endpoint in ids]
            properties = without_empty(hcn.namespace(namespace))
            adapters = self._namespaces[namespace] = {}
            try:
                self._guest.add_namespace(properties)
                # The endpoint named eth0 becomes the guest's first.
                endpoints.sort(key=lambda endpoint: not str(endpoint.get("Name") or "").endswith("eth0"))
                for endpoint in endpoints:
                    self._add_adapter(namespace, adapters, endpoint)
            except BaseException:
                self._remove(namespace)
                raise

    def _add_adapter(self, namespace: str, adapters: dict[str, Document], endpoint: Document) -> None:
        adapter = new_guid()
        settings = {"EndpointId": endpoint.get("ID") or endpoint.get("Id")}
        if address := endpoint.get("MacAddress"):
            settings["MacAddress"] = address
        self._guest.announce_adapter(adapter, endpoint)
        self._modify({"ResourcePath": PATH + adapter, "RequestType": "Add", "Settings": settings})
        adapters[adapter] = settings
        self._guest.add_adapter(adapter, namespace, endpoint)

    def remove(self, namespace: str) -> None:
        """Remove it, if it has been added. A failure is logged, not raised: the VM is about to be terminated."""
        with self._lock:
            self._remove(namespace)

    def _remove(self, namespace: str) -> None:
        adapters = self._namespaces.pop(namespace, None)
        if adapters is None:
            return
        try:
            for adapter, settings in adapters.items():
                self._guest.remove_adapter(adapter, namespace)
                self._modify({"ResourcePath": PATH + adapter, "RequestType": "Remove", "Settings": settings})
            self._guest.remove_namespace(namespace)
        except Exception as error:
            if not self._guest.vm.gcs.is_closed:
                self._warn(f"failed to remove network namespace {namespace} from the VM: {error}")


def without_empty(namespace: Document) -> Document:
    """A namespace that has no endpoints yet has no list of them."""
    return {name: value for name, value in namespace.items() if value not in ([], {}, "")}
