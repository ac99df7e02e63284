"""Network namespaces of containers on the host, and missing ones. Networks in a VM: tests/emulated/uvm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shim.hcs_bindings import network
from shim.ttrpc import status
from shim.ttrpc.status import StatusError
from tests.support.bindings import create_endpoint, reset_libraries, use
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shim, Shims, refused
from tests.support.vm_image import SLEEP, VmShims

NOWHERE = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def vms(
    emulator: Emulator, shims: Shims, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VmShims]:
    use(emulator, monkeypatch, tmp_path_factory.mktemp("hcs"))
    yield VmShims(emulator, shims)
    reset_libraries()


def start(vms: VmShims, name: str, *, in_vm: bool, **settings: Any) -> Shim:
    spec = vms.spec(*SLEEP) if in_vm else vms.shims.spec(*SLEEP)
    spec["windows"]["network"] = settings
    return vms.shims.start(name, spec)


def create(vms: VmShims, shim: Shim, *, in_vm: bool) -> None:
    if in_vm:
        vms.create(shim)
    else:
        shim.create(rootfs=vms.shims.rootfs())


@pytest.mark.parametrize("crash", [False, True])
def test_created_namespace_is_removed_with_container(vms: VmShims, crash: bool) -> None:
    endpoint = create_endpoint()
    search = ["svc.cluster.local", "cluster.local"]
    shim = start(vms, "c1", in_vm=False, endpointList=[endpoint], dnsSearchList=search, allowUnqualifiedDNSQuery=True)
    create(vms, shim, in_vm=False)
    shim.start()
    (namespace,) = network.namespaces()
    assert network.namespace_endpoints(namespace) == [endpoint]
    (created,) = vms.documents("HcsCreateComputeSystem")
    assert created["Container"]["Networking"] == {
        "AllowUnqualifiedDnsQuery": True,
        "DnsSearchList": "svc.cluster.local,cluster.local",
        "Namespace": namespace,
    }
    if crash:
        shim.kill_daemon()
        shim.delete_command()
    else:
        shim.kill(9)
        shim.wait()
        shim.delete()
    assert network.namespaces() == [] and network.endpoints() == [endpoint]


@pytest.mark.parametrize("in_vm", [False, True])
def test_namespace_without_endpoints(vms: VmShims, in_vm: bool) -> None:
    namespace = network.create_namespace()["ID"]
    shim = start(vms, "c1", in_vm=in_vm, networkNamespace=namespace)
    create(vms, shim, in_vm=in_vm)
    shim.start()
    shim.kill(9)
    shim.wait()
    shim.delete()
    assert network.namespaces() == [namespace], "it is not the shim's to delete"


def test_missing_namespace_is_refused(vms: VmShims) -> None:
    """On the host, HCS reports it when the container starts; a VM gets its network at Create."""
    shim = start(vms, "c1", in_vm=False, networkNamespace=NOWHERE)
    create(vms, shim, in_vm=False)
    with pytest.raises(StatusError, match=f"namespace {NOWHERE} does not exist"):
        shim.start()
    assert shim.wait().exit_status != 0
    shim.delete()
    shim = start(vms, "c2", in_vm=True, networkNamespace=NOWHERE)
    message = refused(status.UNKNOWN, create, vms, shim, in_vm=True)
    assert NOWHERE in message and "create the pod again" in message
    eventually(lambda: not vms.leaked(), "no leaked resource")


@pytest.mark.parametrize("in_vm", [False, True])
def test_missing_endpoint_is_refused(vms: VmShims, in_vm: bool) -> None:
    shim = start(vms, "c1", in_vm=in_vm, endpointList=[NOWHERE])
    message = refused(status.UNKNOWN, create, vms, shim, in_vm=in_vm)
    assert NOWHERE in message and "create the pod again" in message
    assert network.namespaces() == []
    eventually(lambda: not vms.leaked(), "no leaked resource")
