"""The network namespace of a container: the one that its spec names, or one that the shim creates for it."""

from __future__ import annotations

from shim.oci.errors import InvalidSpec
from shim.platform import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Answer = TypeVar("Answer")

    from shim.container.ledger import Ledger
    from shim.oci.spec import Spec


def namespace(spec: Spec, ledger: Ledger) -> str:
    """Its id; "" when the spec has no network section, which means no networking at all."""
    if not spec.windows.has("network"):
        return ""
    network = spec.windows.section("network")
    if given := network.text("networkNamespace"):
        return given
    from functools import partial

    from shim.hcs_bindings import network as hcn

    # The id is chosen here, so that the ledger has it before the namespace exists.
    created = new_guid()
    ledger.enter("namespace", id=created)
    hcn.create_namespace(id=created)
    for endpoint in network.texts("endpointList"):
        ledger.enter("endpoint", namespace=created, id=endpoint)
        call_hcn(partial(hcn.add_namespace_endpoint, created, endpoint), f'Endpoint ID "{endpoint}"')
    return created


def call_hcn(call: Callable[[], Answer], what: str) -> Answer:
    """Call HCN about an object that a spec names; if it does not exist, the error says so in the spec's terms."""
    from shim.hcs_bindings import errors

    try:
        return call()
    except errors.HcsError as error:
        if not errors.is_network_object_missing(error):
            raise
        raise InvalidSpec(
            f"failure while creating namespace for container: {what} not found: CNI did not create it or has "
            "removed it; create the pod again"
        ) from error


def new_guid() -> str:
    """A random GUID (version 4)."""
    raw = bytearray(host.random(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
