"""The spec of a Linux sandbox of the Sandbox service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shim.api.cri_pod import (
    DNSConfig,
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    NamespaceMode,
    NamespaceOption,
    PodSandboxConfig,
)
from shim.api.runhcs_options import Options as Values
from shim.api.sandbox import CreateSandboxRequest
from shim.api.types import Mount
from shim.oci.annotations.linux import SKIP_POD_NETWORKING
from shim.oci.errors import InvalidSpec
from shim.oci.options import HYPERVISOR, Options
from shim.oci.spec import Spec
from shim.task.linux_sandbox import write_pod_files
from shim.task.sandbox_spec import sandbox_spec

IN_VM = Options(Values(sandbox_isolation=HYPERVISOR, sandbox_platform="linux/amd64"))


def complete(bundle: Path, pod: PodSandboxConfig | None = None, **request: Any) -> Spec:
    asked = CreateSandboxRequest(sandbox_id="p", bundle_path=str(bundle), **request)
    return sandbox_spec(asked, IN_VM, pod or PodSandboxConfig(), "linux")


def namespaces(spec: Spec) -> dict[str, str]:
    return {entry.text("type"): entry.text("path") for entry in spec.linux.sections("namespaces")}


def test_sandbox_without_image_runs_pause(tmp_path: Path) -> None:
    spec = complete(tmp_path, PodSandboxConfig(hostname="name", annotations={"a": "b"}))
    assert spec.is_lcow and spec.pod_role == "sandbox" and spec.sandbox_id == "p"
    assert spec.own_root == str(tmp_path / "pause")
    assert spec.process.texts("args") == ["/pause"] and (tmp_path / "pause" / "pause").is_file()
    assert spec.root.flag("readonly") and spec.hostname == "name" and spec.annotations.text("a") == "b"
    assert set(namespaces(spec)) == {"pid", "ipc", "uts", "mount", "network"}
    assert spec.annotations.text(SKIP_POD_NETWORKING) == "true"


def test_network_namespace_is_that_of_the_host_or_of_hcn(tmp_path: Path) -> None:
    spec = complete(tmp_path, netns_path="/run/netns/cni-1")
    assert namespaces(spec)["network"] == "/run/netns/cni-1"
    spec = complete(tmp_path, netns_path="A8B1C9D0-1111-4222-8333-444455556666")
    assert spec.windows.section("network").text("networkNamespace") == "A8B1C9D0-1111-4222-8333-444455556666"
    assert SKIP_POD_NETWORKING not in spec.annotations and namespaces(spec)["network"] == ""


def test_host_network_is_the_vms(tmp_path: Path) -> None:
    options = NamespaceOption(network=NamespaceMode.NODE)
    linux = LinuxPodSandboxConfig(security_context=LinuxSandboxSecurityContext(namespace_options=options))
    assert "network" not in namespaces(complete(tmp_path, PodSandboxConfig(linux=linux)))


def test_sysctls_of_the_pod_are_the_sandboxes(tmp_path: Path) -> None:
    linux = LinuxPodSandboxConfig(sysctls={"net.ipv4.ip_local_port_range": "1024 65000"})
    spec = complete(tmp_path, PodSandboxConfig(linux=linux), netns_path="/run/netns/cni-1")
    assert spec.linux.values["sysctl"] == {"net.ipv4.ip_local_port_range": "1024 65000"}


def test_image_of_the_client_is_kept(tmp_path: Path) -> None:
    given = {"process": {"args": ["/own"]}, "linux": {"namespaces": [{"type": "pid"}]}, "root": {"path": "rootfs"}}
    (tmp_path / "config.json").write_text(json.dumps(given))
    spec = complete(tmp_path, rootfs=[Mount(type="lcow-layer", source="/s")])
    assert spec.own_root == "" and spec.process.texts("args") == ["/own"]
    assert namespaces(spec) == {"pid": ""}


def test_platform_without_hypervisor_isolation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"linux": {}, "windows": {}}))
    request = CreateSandboxRequest(sandbox_id="p", bundle_path=str(tmp_path))
    with pytest.raises(InvalidSpec, match="invalid runtime sandbox isolation"):
        sandbox_spec(request, Options(Values(sandbox_platform="linux/amd64")), PodSandboxConfig(), "linux")


def test_dns_settings_become_a_file(tmp_path: Path) -> None:
    assert write_pod_files(str(tmp_path), PodSandboxConfig()) == {}
    dns = DNSConfig(servers=["10.0.0.10", "10.0.0.11"], searches=["a", "b"], options=["ndots:5"])
    files = write_pod_files(str(tmp_path), PodSandboxConfig(dns_config=dns))
    assert files == {"/etc/resolv.conf": str(tmp_path / "resolv.conf")}
    text = (tmp_path / "resolv.conf").read_text()
    assert text == "search a b\nnameserver 10.0.0.10\nnameserver 10.0.0.11\noptions ndots:5\n"
