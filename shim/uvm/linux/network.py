"""Network of a Linux guest: the settings of an adapter from an HCN endpoint, and network namespaces of a Linux host.

Where HCS is emulated on Linux, containerd's CNI plugins have set up a network namespace of the host and named it in the
spec. It is an adapter of the VM there, and the emulator gives it to the guest as a file, which the sandbox's container
joins: a network namespace that is not the VM's own, so that its sysctls can be set.
"""

from __future__ import annotations

from shim.oci.annotations.linux import SKIP_POD_NETWORKING
from shim.oci.spec import SANDBOX
from shim.platform import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.oci.spec import Spec

    Document = dict[str, Any]


# Where the guest has the network namespace of the host.
POD_NETWORK = "/run/netns/pod"


def take_host_namespace(spec: Spec) -> str:
    """The network namespace of the host that the spec of a new VM names, which the spec then has by its path in the
    guest; "" if none."""
    if not host.IS_EMULATED:
        return ""
    if spec.pod_role == SANDBOX and not spec.windows.has("network"):
        # Its network is not HCN's: the guest must not look for adapters.
        spec.annotations.set(SKIP_POD_NETWORKING, "true")
    namespaces = spec.linux.sections("namespaces")
    named = next((entry for entry in namespaces if entry.text("type") == "network" and entry.text("path")), None)
    if named is None or not host.exists(path := named.text("path")):
        return ""
    spec.document.values["linux"]["namespaces"] = [
        {**entry.values, "path": POD_NETWORK} if entry is named else entry.values for entry in namespaces
    ]
    spec.annotations.set(SKIP_POD_NETWORKING, "true")
    return path


def guest_adapter(adapter: str, namespace: str, endpoint: Document, *, policy_routing: bool) -> Document:
    """The guest's settings of an adapter. Empty members are left out."""
    by_name = {name.lower(): value for name, value in endpoint.items()}
    dns = {name.lower(): value for name, value in (by_name.get("dns") or {}).items()}
    search = [*([dns["domain"]] if dns.get("domain") else []), *(dns.get("search") or [])]
    settings = {
        "NamespaceID": by_name.get("hostcomputenamespace") or namespace,
        "ID": adapter,
        "MacAddress": by_name.get("macaddress"),
        # The search list of resolv.conf, whatever its name says.
        "DNSSuffix": ",".join(search).lower(),
        "DNSServerList": ",".join(dns.get("serverlist") or []).lower(),
        "EncapOverhead": _encapsulation(by_name.get("policies") or []),
        "IPConfigs": [
            _filled(IPAddress=entry.get("IpAddress"), PrefixLength=entry.get("PrefixLength"))
            for entry in by_name.get("ipconfigurations") or []
        ],
        "Routes": [
            _filled(
                NextHop=route.get("NextHop"),
                DestinationPrefix=route.get("DestinationPrefix"),
                Metric=route.get("Metric"),
            )
            for route in by_name.get("routes") or []
        ],
        "PolicyBasedRouting": policy_routing,
    }
    return _filled(**settings)


def removed_adapter(adapter: str, namespace: str) -> Document:
    return {"NamespaceID": namespace, "ID": adapter}


def _encapsulation(policies: list[Document]) -> int:
    """Bytes that a tunnel needs of each packet; the last policy counts."""
    overhead = 0
    for policy in policies:
        if policy.get("Type") == "EncapOverhead":
            overhead = int((policy.get("Settings") or {}).get("Overhead") or 0)
    return overhead


def _filled(**members: Any) -> Document:
    return {name: value for name, value in members.items() if value}
