"""Network adapters of Linux VMs from HCN namespaces, with both guests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shim.hcs_bindings import network
from shim.hcs_bindings.network import SCHEMA_VERSION
from shim.oci.annotations.linux import SKIP_POD_NETWORKING
from tests.support.bindings import reset_libraries, use
from tests.support.emulator import Emulator
from tests.support.linux_shims import LinuxShims

ADDRESS, GATEWAY = "10.20.30.40", "10.20.30.1"
ENDPOINT = {
    "Name": "eth0",
    "IpConfigurations": [{"IpAddress": ADDRESS, "PrefixLength": 24}],
    "Routes": [{"NextHop": GATEWAY, "DestinationPrefix": "0.0.0.0/0"}],
    "Dns": {"Domain": "Cluster.Local", "Search": ["svc.cluster.local"], "ServerList": ["10.0.0.10"]},
    "MacAddress": "00-15-5D-11-22-33",
    "SchemaVersion": SCHEMA_VERSION,
}


@pytest.fixture
def hcn(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    use(emulator, monkeypatch, tmp_path_factory.mktemp("hcs"))
    yield
    reset_libraries()


def namespace() -> str:
    """An HCN namespace with one endpoint."""
    created = network.create_network({"Name": "nat", "Type": "NAT", "SchemaVersion": SCHEMA_VERSION})
    endpoint = network.create_endpoint(created["ID"], ENDPOINT)
    found = str(network.create_namespace()["ID"])
    network.add_namespace_endpoint(found, endpoint["ID"])
    return found


def test_pod_has_the_endpoints_of_its_namespace(lcow: LinuxShims, hcn: None) -> None:
    found = namespace()
    members: dict[str, Any] = {"windows": {"network": {"networkNamespace": found}}}
    pod = lcow.pod(annotations={str(SKIP_POD_NETWORKING): "false"}, **members)
    shown = lcow.output_in(pod, "c1", "ip", "addr", "show", "eth0")
    assert f"inet {ADDRESS}/24" in shown and "00:15:5d:11:22:33" in shown
    assert f"default via {GATEWAY}" in lcow.output_in(pod, "c2", "ip", "route")
    resolv = lcow.output_in(pod, "c3", "cat", "/etc/resolv.conf")
    # Microsoft's guest writes the domains in any order.
    lines = {key: set(values.split()) for key, _, values in (line.partition(" ") for line in resolv.splitlines())}
    assert lines == {"search": {"cluster.local", "svc.cluster.local"}, "nameserver": {"10.0.0.10"}}
    pod.kill(9)
    pod.wait()
    pod.delete()


def test_standalone_container_has_the_endpoints_of_its_namespace(lcow: LinuxShims, hcn: None) -> None:
    members: dict[str, Any] = {"windows": {"network": {"networkNamespace": namespace()}}}
    assert f"inet {ADDRESS}/24" in lcow.output_of("c1", "ip", "addr", **members)
    requests = [entry["arguments"]["Request"] for entry in lcow.messages("ModifySettings")]
    kinds = [request["RequestType"] for request in requests if request["ResourceType"] == "Network"]
    assert kinds == ["Add", "Remove"]
