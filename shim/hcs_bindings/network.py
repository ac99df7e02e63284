"""HCN: network namespaces, endpoints and networks; and HNSCall, the older HNS interface.

Handles stay in this module: each function opens, does one thing and closes. Ids are GUID text. The service spells
member names in more than one way (`ID`, `Id`), so results are read with `member`.
"""

from __future__ import annotations

from shim.hcs_bindings import errors, guid
from shim.hcs_bindings._hcs_cffi import ffi
from shim.hcs_bindings.library import computenetwork, vmcompute
from shim.hcs_bindings.strings import dump, load, load_object, out, take_task, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Document = dict[str, Any]

SCHEMA_VERSION = {"Major": 2, "Minor": 0}
ELEMENT_NOT_FOUND = "Element not found."


def member(document: Document, name: str, default: Any = None) -> Any:
    """A member by its name, in any case."""
    if name in document:
        return document[name]
    lower = name.lower()
    for key, value in document.items():
        if key.lower() == lower:
            return value
    return default


def query(filter: Document | None = None, detailed: bool = False) -> str:
    """A query document. The filter is a *string* of JSON inside it."""
    document: Document = {"SchemaVersion": SCHEMA_VERSION}
    if detailed:
        document["Flags"] = 1
    if filter:
        document["Filter"] = dump(filter)
    return dump(document)


def _call(operation: str, function: Callable[..., int], *arguments: Any) -> None:
    """One call whose last argument is for an error document. A document that is not empty is a failure, whatever the
    code."""
    place = out()
    code = function(*arguments, place)
    document = take_task(place)
    if code < 0:
        raise _error(code, operation, document)
    if document.strip():
        raise _error(errors.UNEXPECTED, operation, document)


def _error(code: int, operation: str, document: str) -> errors.HcsError:
    """HCN's error document is not HCS's: `{"Error": "text", "ErrorCode": n, "Success": false}`."""
    detail = document.strip()
    try:
        parsed = load_object(document, operation)
    except errors.HcsError:
        parsed = {}
    message = member(parsed, "Error")
    if isinstance(message, str):
        detail = message
    number = member(parsed, "ErrorCode")
    if code == errors.UNEXPECTED and isinstance(number, int) and number & 0x80000000:
        code = number
    return errors.HcsError(code, operation, detail=detail)


class _Kind:
    """One kind of HCN object; the functions of all kinds have the same signatures."""

    __slots__ = ("plural", "word")

    def __init__(self, word: str) -> None:
        self.word = word
        self.plural = word + "s"

    def _function(self, verb: str, tail: str = "") -> Callable[..., int]:
        function: Callable[..., int] = getattr(computenetwork, f"Hcn{verb}{tail or self.word}")
        return function

    def _name(self, verb: str, id: str = "") -> str:
        return f"hcn::{verb}{self.word} {id}".rstrip()

    def enumerate(self, filter: Document | None) -> list[str]:
        name = f"hcn::Enumerate{self.plural}"
        place = out()
        try:
            _call(name, self._function("Enumerate", self.plural), query(filter), place)
        finally:
            ids = take_task(place)
        found = load(ids, name) if ids else []
        return [str(item) for item in found] if isinstance(found, list) else []

    def open(self, id: str, verb: str) -> Any:
        name = self._name(verb, id)
        handle = ffi.new("HANDLE *")
        _call(name, self._function("Open"), guid.to_native(id, name), handle)
        return handle[0]

    def close(self, handle: Any) -> None:
        self._function("Close")(handle)

    def properties(self, handle: Any, name: str, filter: Document | None = None) -> Document:
        place = out()
        try:
            _call(name, self._function("Query", f"{self.word}Properties"), handle, query(filter), place)
        finally:
            document = take_task(place)
        return load_object(document, name)

    def query(self, id: str) -> Document:
        """Its properties, queried as by hcsshim's hcn package."""
        guid.to_native(id, self._name("Query", id))  # raises if it is no GUID
        by_id = {"ID": id}
        if not self.enumerate(by_id) and self is _namespace:  # for the others, Open fails
            raise errors.HcsError(errors.NOT_FOUND, self._name("Query", id), detail="namespace not found")
        handle = self.open(id, "Query")
        try:
            return self.properties(handle, self._name("Query", id), by_id)
        finally:
            self.close(handle)

    def create(self, id: str, settings: Document, *before: Any) -> Document:
        name = self._name("Create", id)
        handle = ffi.new("HANDLE *")
        native = guid.to_native(id or guid.ZERO, name)
        _call(name, self._function("Create"), *before, native, dump(settings), handle)
        try:
            return self.properties(handle[0], name)
        finally:
            self.close(handle[0])

    def modify(self, id: str, request: Document) -> None:
        handle = self.open(id, "Modify")
        try:
            _call(self._name("Modify", id), self._function("Modify"), handle, dump(request))
        finally:
            self.close(handle)

    def delete(self, id: str) -> None:
        name = self._name("Delete", id)
        _call(name, self._function("Delete"), guid.to_native(id, name))


_namespace = _Kind("Namespace")
_endpoint = _Kind("Endpoint")
_network = _Kind("Network")


def namespaces(filter: Document | None = None) -> list[str]:
    return _namespace.enumerate(filter)


def namespace(id: str) -> Document:
    """A namespace's properties; raises ERROR_NOT_FOUND."""
    return _namespace.query(id)


def create_namespace(settings: Document | None = None, id: str = "") -> Document:
    """Create a namespace; the service chooses its id unless one is given. Returns its properties."""
    return _namespace.create(id, settings if settings is not None else {"SchemaVersion": SCHEMA_VERSION})


def delete_namespace(id: str) -> None:
    _namespace.delete(id)


def add_namespace_endpoint(id: str, endpoint_id: str) -> None:
    _namespace_endpoint(id, endpoint_id, "Add")


def remove_namespace_endpoint(id: str, endpoint_id: str) -> None:
    _namespace_endpoint(id, endpoint_id, "Remove")


def _namespace_endpoint(id: str, endpoint_id: str, request_type: str) -> None:
    settings = {"EndpointId": endpoint_id}
    _namespace.modify(id, {"ResourceType": "Endpoint", "RequestType": request_type, "Settings": settings})


def namespace_endpoints(id: str) -> list[str]:
    """The ids of the endpoints in a namespace."""
    found = []
    for resource in member(namespace(id), "Resources") or []:
        if isinstance(resource, dict) and str(member(resource, "Type", "")).lower() == "endpoint":
            data = member(resource, "Data")
            if isinstance(data, dict) and (endpoint_id := member(data, "Id")):
                found.append(str(endpoint_id))
    return found


def endpoints(filter: Document | None = None) -> list[str]:
    return _endpoint.enumerate(filter)


def endpoint(id: str) -> Document:
    return _endpoint.query(id)


def create_endpoint(network_id: str, settings: Document, id: str = "") -> Document:
    handle = _network.open(network_id, "Open")
    try:
        return _endpoint.create(id, settings, handle)
    finally:
        _network.close(handle)


def delete_endpoint(id: str) -> None:
    _endpoint.delete(id)


def networks(filter: Document | None = None) -> list[str]:
    return _network.enumerate(filter)


def network(id: str) -> Document:
    return _network.query(id)


def create_network(settings: Document, id: str = "") -> Document:
    return _network.create(id, settings)


def delete_network(id: str) -> None:
    _network.delete(id)


def hns_call(method: str, path: str, body: Document | None = None) -> Any:
    """One request to HNS (`POST /namespaces/<id>/removeresource` …); returns its `Output`. Raises ERROR_NOT_FOUND if
    there is no such object."""
    operation = f"hns::{method} {path}"
    request = dump(body) if body is not None else ""
    place = out()
    code = vmcompute.HNSCall(text(method, operation), text(path, operation), request, place)
    document = take_task(place)
    if code < 0:
        raise errors.HcsError(code, operation, detail=document.strip())
    answer = load_object(document, operation)
    if member(answer, "Success"):
        return member(answer, "Output")
    message = str(member(answer, "Error") or "")
    code = errors.NOT_FOUND if ELEMENT_NOT_FOUND in message else errors.UNEXPECTED
    raise errors.HcsError(code, operation, detail=message)
