"""HNSCall: the older REST-like interface to the network, as far as a shim uses it for teardown."""

from __future__ import annotations

import json
from typing import Any

from hcs_emulator.service.errors import HcsError
from hcs_emulator.service.network.hcn import Network
from hcs_emulator.service.schema.shapes import parse

VERSION = {"Major": 13, "Minor": 2}


def hns_call(network: Network, method: str | None, path: str | None, body: str | None) -> str:
    """The response document; it also reports failures, as HNS does."""
    try:
        output = _route(network, (method or "").upper(), (path or "").strip("/").split("/"), body)
    except HcsError as failure:
        message = failure.events[0]["Message"] if failure.events else str(failure)
        return json.dumps({"Success": False, "Error": message, "ErrorCode": failure.hresult})
    return json.dumps({"Success": True, "Output": output})


def _route(network: Network, method: str, parts: list[str], body: str | None) -> Any:
    if (method, parts) == ("GET", ["globals", "version"]):
        return VERSION
    collection = parts[0] if parts[0] in ("namespaces", "endpoints", "networks") else ""
    if not collection:
        raise HcsError(0x80070490, f"Element not found. /{'/'.join(parts)}")
    if len(parts) == 1:
        if method == "GET":
            return list(network.collection(collection).values())
        if method == "POST":
            created = network.create(collection, "00000000-0000-0000-0000-000000000000", parse(body, "HNSCall") or {})
            return network.get(collection, created.id)
    try:
        found = network.get(collection, parts[1])
    except HcsError as failure:
        raise HcsError(failure.hresult, f"Element not found. {parts[1]}") from None
    if len(parts) == 2 and method == "GET":
        return found
    if len(parts) == 2 and method == "DELETE":
        network.delete(collection, parts[1])
        return {}
    if (
        len(parts) == 3
        and collection == "namespaces"
        and method == "POST"
        and parts[2] in ("addresource", "removeresource")
    ):
        return _change_resource(network, parts[1], parts[2], parse(body, "HNSCall"))
    raise HcsError(0x80070032, f"{method} /{'/'.join(parts)} is not known")


def _change_resource(network: Network, namespace: str, change: str, resource: Any) -> dict[str, Any]:
    if not isinstance(resource, dict) or not isinstance(resource.get("Data"), dict):
        raise HcsError(0x803B001B, "expected a resource with Type and Data")
    identifier = str(resource["Data"].get("Id") or resource["Data"].get("ID") or "")
    endpoint = resource.get("Type") == "Endpoint"
    if change == "addresource":
        (network.add_endpoint if endpoint else network.attach_container)(namespace, identifier)
    else:
        (network.remove_endpoint if endpoint else network.detach_container)(namespace, identifier)
    return {}
