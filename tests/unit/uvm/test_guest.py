"""The guest interface: every kind of guest implements all of it."""

from __future__ import annotations

import inspect

import pytest

from shim.oci.spec import Spec
from shim.uvm.guest import Guest, guest_kind
from shim.uvm.linux.guest import LinuxGuest
from shim.uvm.windows.guest import WindowsGuest


def abstract_methods() -> list[str]:
    functions = inspect.getmembers(Guest, lambda member: inspect.isfunction(member) or inspect.ismethod(member))
    return [name for name, function in functions if "raise NotImplementedError" in inspect.getsource(function)]


@pytest.mark.parametrize("kind", [WindowsGuest, LinuxGuest])
def test_guest_kind_implements_every_abstract_method(kind: type[Guest]) -> None:
    missing = [name for name in abstract_methods() if name not in vars(kind)]
    assert len(abstract_methods()) > 15 and missing == []
    assert kind.os_type and kind.gcs_service_id


def test_guest_kind_of_specs() -> None:
    assert guest_kind(Spec({"windows": {"hyperv": {}}})) is WindowsGuest
    assert guest_kind(Spec({"linux": {}, "windows": {}})) is LinuxGuest
