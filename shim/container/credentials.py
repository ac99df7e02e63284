"""gMSA: an instance of the container credential guard. It outlives the shim, so the ledger removes it by name."""

from __future__ import annotations

from shim.hcs_bindings.errors import ErrorContext, HcsError
from shim.lean_json import dumps
from shim.oci.annotations import container as names
from shim.oci.errors import InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.container.ledger import Ledger
    from shim.oci.spec import Spec

    Document = dict[str, Any]

PROPERTY = "ContainerCredentialGuard"


def from_spec(spec: Spec) -> str:
    """The credential spec as JSON text, "" when there is none.

    OCI allows the document itself as well as its text. Microsoft's shim ignores one that is not text, and the container
    runs without the requested rights.
    """
    given = spec.windows.values.get("credentialSpec")
    if not given:
        return ""
    if isinstance(given, dict):
        given = dumps(given)
    if not isinstance(given, str):
        raise InvalidSpec("windows.credentialSpec is neither text nor an object: give the JSON of the credential spec")
    if spec.annotations.flag(names.GMSA_DISABLED):
        raise InvalidSpec(
            "container config validation failed: gMSA credentials are disabled: operation denied: remove "
            f"windows.credentialSpec or annotation {names.GMSA_DISABLED}"
        )
    return given


def add(ledger: Ledger, id: str, credential_spec: str, transport: str = "LRPC") -> Document:
    """Create the instance. Returns its `CredentialGuard` for the container's document and, for a VM, its socket."""
    from shim.hcs_bindings import service

    entry = ledger.enter("credentials", id=id)
    details = {"Id": id, "CredentialSpec": credential_spec, "Transport": transport}
    request = {"PropertyType": PROPERTY, "Settings": {"Operation": "AddInstance", "OperationDetails": details}}
    try:
        with ErrorContext("failed to generate container credential guard instance"):
            service.modify(request)
    except HcsError:
        # Nothing was added; an instance of that name belongs to another shim.
        ledger.mark_released(entry)
        raise
    with ErrorContext("failed to retrieve container credential guard instances"):
        answers = service.properties(PROPERTY)
    for answer in answers:
        for instance in answer.get("Instances") or ():
            if instance.get("Id") == id:
                found: Document = instance
                return found
    raise InvalidSpec(f"failed to find credential guard instance with container ID {id}: check the gMSA account")


def remove(id: str) -> None:
    from shim.hcs_bindings import service

    operation = {"Operation": "RemoveInstance", "OperationDetails": {"Id": id}}
    service.modify({"PropertyType": PROPERTY, "Settings": operation})
