"""The network namespace of a container: the one its spec names, or one that the shim makes for it."""

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

    # Chosen here, so that the ledger knows it before it exists.
    made = new_guid()
    ledger.enter("namespace", id=made)
    hcn.create_namespace(id=made)
    for endpoint in network.texts("endpointList"):
        ledger.enter("endpoint", namespace=made, id=endpoint)
        with_reason(partial(hcn.add_namespace_endpoint, made, endpoint), f'Endpoint ID "{endpoint}"')
    return made


def with_reason(call: Callable[[], Answer], what: str) -> Answer:
    """Call HCN about something that a spec names; if it is not there, say so in the spec's words."""
    from shim.hcs_bindings import errors

    try:
        return call()
    except errors.HcsError as error:
        if not errors.is_network_object_missing(error):
            raise
        raise InvalidSpec(
            f"failure while creating namespace for container: {what} not found: whoever set up the network (CNI) did "
            "not make it or has removed it; make the pod anew"
        ) from error


def new_guid() -> str:
    """A random GUID (version 4)."""
    raw = bytearray(host.random(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
