"""Files for name resolution in pods."""

from __future__ import annotations

import pytest

from hcs_emulator.vm.linux.agent import network_files
from hcs_emulator.vm.linux.agent.errors import GuestError


def test_hosts_dotted_hostname_has_its_short_name() -> None:
    assert network_files.hosts("pod").splitlines()[:2] == ["127.0.0.1 localhost", "127.0.0.1 pod"]
    assert "127.0.0.1 pod.example.com pod\n" in network_files.hosts("pod.example.com")


def test_resolv_conf_search_and_servers() -> None:
    text = network_files.resolv_conf(["a.local", "b.local"], ["10.0.0.1", "10.0.0.2"])
    assert text == "search a.local b.local\nnameserver 10.0.0.1\nnameserver 10.0.0.2\n"
    assert network_files.resolv_conf([], []) == ""


def test_resolv_conf_more_than_six_domains_refused() -> None:
    with pytest.raises(GuestError, match="searches has more than 6 domains"):
        network_files.resolv_conf([f"d{number}" for number in range(7)], [])
