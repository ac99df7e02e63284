"""Devices in specs of clients on Linux."""

from __future__ import annotations

from typing import Any

import pytest

from shim.oci.annotations.linux import PRIVILEGED
from shim.oci.spec import Spec
from shim.platform import host
from shim.uvm.linux.client_devices import adapt

NULL = {"path": "/dev/null", "type": "c", "major": 1, "minor": 3}
DISK = {"path": "/dev/vda", "type": "b", "major": 254, "minor": 0}
DENY_ALL = {"allow": False, "access": "rwm"}
ALLOW_ALL = {"allow": True, "access": "rwm"}
ALLOW_NULL = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"}
WORKLOAD = {"io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.sandbox-id": "pod"}


def spec(devices: list[dict[str, Any]], *rules: dict[str, Any], **members: Any) -> Spec:
    return Spec({"linux": {"devices": devices, "resources": {"devices": list(rules)}}, **members})


def test_privileged_container_is_one_for_the_guest() -> None:
    given = spec([NULL, DISK], ALLOW_ALL)
    assert adapt(given) == []
    assert given.annotations.flag(PRIVILEGED) and given.document.values["linux"]["devices"] == []


def test_devices_of_every_container_are_left_to_the_guest() -> None:
    given = spec([NULL, DISK], DENY_ALL, ALLOW_NULL)
    (warning,) = adapt(given)
    assert "/dev/vda cannot be opened" in warning
    assert PRIVILEGED not in given.annotations and given.document.values["linux"]["devices"] == [DISK]


def test_guest_allows_the_devices_of_a_workload() -> None:
    given = spec([DISK], DENY_ALL, annotations=WORKLOAD)
    assert adapt(given) == [] and given.document.values["linux"]["devices"] == [DISK]


@pytest.mark.parametrize("rule", [DENY_ALL, {**ALLOW_ALL, "access": "r"}, {**ALLOW_ALL, "type": "c"}, ALLOW_NULL])
def test_other_rules_are_not_privileged(rule: dict[str, Any]) -> None:
    given = spec([NULL], rule)
    adapt(given)
    assert PRIVILEGED not in given.annotations


def test_spec_of_a_client_on_windows_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    without = spec([], ALLOW_ALL)
    adapt(without)
    monkeypatch.setattr(host, "IS_EMULATED", False)
    listed = spec([NULL], ALLOW_ALL)
    adapt(listed)
    assert PRIVILEGED not in without.annotations and PRIVILEGED not in listed.annotations
    assert listed.document.values["linux"]["devices"] == [NULL]
