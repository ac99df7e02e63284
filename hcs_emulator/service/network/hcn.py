"""Host Compute Network: networks, endpoints and namespaces, with attach and detach. There is no traffic, only the
objects.

Properties have the form that HNS returns. Member names in queries and settings are case-insensitive where HNS accepts
both (`ID`, `Id`).
"""

from __future__ import annotations

import uuid
from typing import Any

from hcs_emulator.service.errors import (
    ERROR_ALREADY_EXISTS,
    ERROR_INVALID_PARAMETER,
    ERROR_NOT_FOUND,
    ERROR_NOT_SUPPORTED,
    HCN_E_ENDPOINT_ALREADY_IN_NAMESPACE,
    HCN_E_ENDPOINT_NOT_FOUND,
    HCN_E_INVALID_JSON,
    HCN_E_NETWORK_NOT_FOUND,
    HcsError,
)
from hcs_emulator.service.handles import Handle
from hcs_emulator.service.schema import network as schema
from hcs_emulator.service.schema.shapes import GUID, Shape, check, parse

NO_ID = "00000000-0000-0000-0000-000000000000"
_VERSION = {"Major": 2, "Minor": 0}
_NOT_FOUND = {"networks": HCN_E_NETWORK_NOT_FOUND, "endpoints": HCN_E_ENDPOINT_NOT_FOUND, "namespaces": ERROR_NOT_FOUND}
_SHAPES: dict[str, Shape] = {"networks": schema.NETWORK, "endpoints": schema.ENDPOINT, "namespaces": schema.NAMESPACE}


class NetworkObject:
    """The target of HcnOpen... handles: a collection and an id. The object may be deleted while handles are open."""

    def __init__(self, collection: str, identifier: str) -> None:
        self.collection = collection
        self.id = identifier

    def handle_closed(self, handle: Handle) -> None:
        return


class Network:
    def __init__(self) -> None:
        self.networks: dict[str, dict[str, Any]] = {}
        self.endpoints: dict[str, dict[str, Any]] = {}
        self.namespaces: dict[str, dict[str, Any]] = {}
        self._compartments = 1

    # collections

    def collection(self, name: str) -> dict[str, dict[str, Any]]:
        return {"networks": self.networks, "endpoints": self.endpoints, "namespaces": self.namespaces}[name]

    def get(self, collection: str, identifier: str | None) -> dict[str, Any]:
        found = self.collection(collection).get(normal_id(identifier))
        if found is None:
            raise HcsError(_NOT_FOUND[collection], f"no such object in {collection}: {identifier}", data=identifier)
        return found

    def open(self, collection: str, identifier: str | None) -> NetworkObject:
        return NetworkObject(collection, self.get(collection, identifier)["ID"])

    def enumerate(self, collection: str, query: Any) -> list[str]:
        criteria = _filter(query)
        found = []
        for identifier, properties in self.collection(collection).items():
            lowered = {name.lower(): value for name, value in properties.items()}
            if all(str(lowered.get(name, "")).lower() == value for name, value in criteria.items()):
                found.append(identifier)
        return found

    def query(self, target: NetworkObject, query: Any) -> dict[str, Any]:
        _filter(query)
        return self.get(target.collection, target.id)

    def create(
        self, collection: str, identifier: str | None, settings: Any, network: str | None = None
    ) -> NetworkObject:
        check(_SHAPES[collection], settings, f"Create in {collection}", 10**6, code=HCN_E_INVALID_JSON)
        identifier = normal_id(identifier)
        if identifier == NO_ID:
            identifier = normal_id(settings.get("ID") or settings.get("Id") or str(uuid.uuid4()))
        objects = self.collection(collection)
        if identifier in objects:
            raise HcsError(ERROR_ALREADY_EXISTS, f"{identifier} exists in {collection}", data=identifier)
        properties = {name: value for name, value in settings.items() if name != "Id"} | {
            "ID": identifier,
            "SchemaVersion": _VERSION,
        }
        if collection == "namespaces":
            self._compartments += 1
            properties = {"Type": "Host", "Resources": []} | properties | {"NamespaceId": self._compartments}
        elif collection == "endpoints":
            network = normal_id(network or properties.get("HostComputeNetwork"))
            self.get("networks", network)
            properties["HostComputeNetwork"] = network
            properties.setdefault("MacAddress", _mac(identifier))
        objects[identifier] = properties
        namespace = properties.get("HostComputeNamespace")
        if collection == "endpoints" and namespace:
            del properties["HostComputeNamespace"]
            self.add_endpoint(namespace, identifier)
        return NetworkObject(collection, identifier)

    def delete(self, collection: str, identifier: str | None) -> None:
        properties = self.get(collection, identifier)
        identifier = properties["ID"]
        if collection == "endpoints":
            namespace = properties.get("HostComputeNamespace")
            if namespace in self.namespaces:
                self.remove_endpoint(namespace, identifier)
        elif collection == "namespaces":
            for endpoint in self.endpoints.values():
                if endpoint.get("HostComputeNamespace") == identifier:
                    del endpoint["HostComputeNamespace"]
        elif any(endpoint["HostComputeNetwork"] == identifier for endpoint in self.endpoints.values()):
            raise HcsError(
                ERROR_INVALID_PARAMETER, f"network {identifier} has endpoints: delete them first", data=identifier
            )
        del self.collection(collection)[identifier]

    def modify(self, target: NetworkObject, settings: Any) -> None:
        check(schema.MODIFY, settings, "Modify", 10**6, code=HCN_E_INVALID_JSON)
        properties = self.get(target.collection, target.id)
        kind, request, value = settings["ResourceType"], settings["RequestType"], settings.get("Settings")
        if target.collection == "namespaces" and kind == "Endpoint":
            check(schema.ENDPOINT_REFERENCE, value, "Modify", 10**6, path="$.Settings", code=HCN_E_INVALID_JSON)
            change = self.add_endpoint if request == "Add" else self.remove_endpoint
            change(target.id, value["EndpointId"])
        elif target.collection == "endpoints" and kind in ("Policy", "Port"):
            properties.setdefault("Policies", [])
            if kind == "Policy" and request == "Add" and isinstance(value, dict):
                properties["Policies"] += value.get("Policies", [])
        else:
            raise HcsError(
                ERROR_NOT_SUPPORTED, f"{request} of {kind} is not known for {target.collection}", data="$.ResourceType"
            )

    # attaching

    def add_endpoint(self, namespace: str, endpoint: str) -> None:
        owner, found = self.get("namespaces", namespace), self.get("endpoints", endpoint)
        if found.get("HostComputeNamespace"):
            raise HcsError(HCN_E_ENDPOINT_ALREADY_IN_NAMESPACE, f"endpoint {endpoint} is in a namespace", data=endpoint)
        found["HostComputeNamespace"] = owner["ID"]
        owner["Resources"].append({"Type": "Endpoint", "Data": {"Id": found["ID"]}})

    def remove_endpoint(self, namespace: str, endpoint: str) -> None:
        owner, found = self.get("namespaces", namespace), self.get("endpoints", endpoint)
        if found.get("HostComputeNamespace") != owner["ID"]:
            raise HcsError(
                ERROR_NOT_FOUND,
                f"Element not found. Endpoint {endpoint} is not in namespace {namespace}",
                data=endpoint,
            )
        del found["HostComputeNamespace"]
        self._drop(owner, "Endpoint", found["ID"])

    def attach_container(self, namespace: str, container: str) -> None:
        owner = self.namespaces.get(namespace.lower())
        if owner is None:
            raise HcsError(ERROR_NOT_FOUND, f"network namespace {namespace} does not exist", data=namespace)
        owner["Resources"].append({"Type": "Container", "Data": {"Id": container}})

    def detach_container(self, namespace: str, container: str) -> None:
        owner = self.namespaces.get(namespace.lower())
        if owner is not None:
            self._drop(owner, "Container", container)

    @staticmethod
    def _drop(owner: dict[str, Any], kind: str, identifier: str) -> None:
        owner["Resources"] = [
            resource
            for resource in owner["Resources"]
            if (resource["Type"], resource["Data"].get("Id")) != (kind, identifier)
        ]


def normal_id(identifier: str | None) -> str:
    if not identifier or not GUID.match(identifier):
        raise HcsError(ERROR_INVALID_PARAMETER, f"{identifier!r} is not a GUID", data=identifier)
    return identifier.strip("{}").lower()


def _filter(query: Any) -> dict[str, str]:
    """The filter of a query: a JSON object in a string. Names and values are compared case-insensitively."""
    if query is None:
        return {}
    check(schema.QUERY, query, "Query", 10**6, code=HCN_E_INVALID_JSON)
    criteria = parse(query.get("Filter"), "Query", code=HCN_E_INVALID_JSON)
    if criteria is None:
        return {}
    if not isinstance(criteria, dict):
        raise HcsError(HCN_E_INVALID_JSON, "[Query] expected an object at $.Filter", data="$.Filter")
    return {str(name).lower(): str(value).lower() for name, value in criteria.items()}


def _mac(identifier: str) -> str:
    digits = identifier[-6:].upper()
    return f"00-15-5D-{digits[:2]}-{digits[2:4]}-{digits[4:]}"
