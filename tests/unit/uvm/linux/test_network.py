"""Adapters of a Linux guest, and network namespaces of the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.oci.annotations.linux import SKIP_POD_NETWORKING
from shim.oci.spec import Spec
from shim.platform import host
from shim.uvm.linux import network


def test_adapter_of_full_endpoint() -> None:
    endpoint = {
        "ID": "e1",
        "HostComputeNamespace": "ns1",
        "MacAddress": "00-15-5D-00-00-01",
        "IpConfigurations": [
            {"IpAddress": "10.1.2.3", "PrefixLength": 24},
            {"IpAddress": "fd00::3", "PrefixLength": 64},
        ],
        "Routes": [{"NextHop": "10.1.2.1", "DestinationPrefix": "0.0.0.0/0", "Metric": 7}],
        "Dns": {"Domain": "A.Local", "Search": ["B.local"], "ServerList": ["10.0.0.10", "FE80::1"]},
        "Policies": [{"Type": "ACL", "Settings": {}}, {"Type": "EncapOverhead", "Settings": {"Overhead": 50}}],
    }
    assert network.guest_adapter("nic", "other", endpoint, policy_routing=True) == {
        "NamespaceID": "ns1",
        "ID": "nic",
        "MacAddress": "00-15-5D-00-00-01",
        "DNSSuffix": "a.local,b.local",
        "DNSServerList": "10.0.0.10,fe80::1",
        "EncapOverhead": 50,
        "IPConfigs": [
            {"IPAddress": "10.1.2.3", "PrefixLength": 24},
            {"IPAddress": "fd00::3", "PrefixLength": 64},
        ],
        "Routes": [{"NextHop": "10.1.2.1", "DestinationPrefix": "0.0.0.0/0", "Metric": 7}],
        "PolicyBasedRouting": True,
    }


def test_adapter_of_bare_endpoint_has_only_ids() -> None:
    assert network.guest_adapter("nic", "ns1", {"ID": "e1"}, policy_routing=False) == {
        "NamespaceID": "ns1",
        "ID": "nic",
    }


def spec_with(*namespaces: dict[str, str]) -> Spec:
    return Spec({"linux": {"namespaces": [{"type": "pid"}, *namespaces]}})


def test_namespace_of_the_host_is_taken_from_the_spec(tmp_path: Path) -> None:
    netns = tmp_path / "cni-1"
    netns.touch()
    spec = spec_with({"type": "network", "path": str(netns)})
    assert network.take_host_namespace(spec) == str(netns)
    assert spec.linux.values["namespaces"] == [{"type": "pid"}, {"type": "network", "path": "/run/netns/pod"}]
    assert spec.annotations.text(SKIP_POD_NETWORKING) == "true"


@pytest.mark.parametrize("entry", [{"type": "network"}, {"type": "network", "path": "/proc/999999999/ns/net"}])
def test_namespace_that_is_not_of_the_host_stays(entry: dict[str, str]) -> None:
    spec = spec_with(entry)
    assert network.take_host_namespace(spec) == ""
    assert spec.linux.values["namespaces"] == [{"type": "pid"}, entry]
    assert SKIP_POD_NETWORKING not in spec.annotations


def test_namespace_on_windows_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "IS_EMULATED", False)
    assert network.take_host_namespace(spec_with({"type": "network", "path": str(tmp_path)})) == ""
