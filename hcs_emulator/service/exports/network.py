"""computenetwork.dll: networks, namespaces and endpoints. All three have the same calls, so each function serves all.
"""

from __future__ import annotations

import json

from hcs_emulator.service.errors import HCN_E_INVALID_JSON, HcsError
from hcs_emulator.service.exports.registry import Call, export
from hcs_emulator.service.network.hcn import NetworkObject
from hcs_emulator.service.network.hns import hns_call
from hcs_emulator.service.transport.wire import Reply


def _collection(call: Call) -> str:
    return next(name for name in ("namespaces", "endpoints", "networks") if name[:-1] in call.name.lower())


@export("HcnEnumerateNetworks", "HcnEnumerateNamespaces", "HcnEnumerateEndpoints")
async def enumerate_objects(call: Call) -> Reply:
    query = call.document("query", code=HCN_E_INVALID_JSON)
    return Reply(document=json.dumps(call.host.network.enumerate(_collection(call), query)))


@export("HcnCreateNetwork", "HcnCreateNamespace", "HcnCreateEndpoint")
async def create_object(call: Call) -> Reply:
    network = call.target(NetworkObject).id if call.name == "HcnCreateEndpoint" and call.handle_number else None
    settings = call.document("settings", code=HCN_E_INVALID_JSON)
    if settings is None:
        raise HcsError(HCN_E_INVALID_JSON, f"[{call.name}] no settings", data="$")
    created = call.host.network.create(_collection(call), call.text("id"), settings, network)
    return Reply(handle=call.open(created).number)


@export("HcnOpenNetwork", "HcnOpenNamespace", "HcnOpenEndpoint")
async def open_object(call: Call) -> Reply:
    return Reply(handle=call.open(call.host.network.open(_collection(call), call.text("id"))).number)


@export("HcnQueryNetworkProperties", "HcnQueryNamespaceProperties", "HcnQueryEndpointProperties")
async def query_object(call: Call) -> Reply:
    query = call.document("query", code=HCN_E_INVALID_JSON)
    return Reply(document=json.dumps(call.host.network.query(call.target(NetworkObject), query)))


@export("HcnModifyNetwork", "HcnModifyNamespace", "HcnModifyEndpoint")
async def modify_object(call: Call) -> Reply:
    call.host.network.modify(call.target(NetworkObject), call.document("settings", code=HCN_E_INVALID_JSON))
    return Reply()


@export("HcnDeleteNetwork", "HcnDeleteNamespace", "HcnDeleteEndpoint")
async def delete_object(call: Call) -> Reply:
    call.host.network.delete(_collection(call), call.text("id"))
    return Reply()


@export("HcnCloseNetwork", "HcnCloseNamespace", "HcnCloseEndpoint")
async def close_object(call: Call) -> Reply:
    return call.close(NetworkObject)


@export("HNSCall")
async def hns(call: Call) -> Reply:
    return Reply(document=hns_call(call.host.network, call.text("method"), call.text("path"), call.text("request")))
