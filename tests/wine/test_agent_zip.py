"""The second zip of a Windows node: unpacked beside runhcs.exe, `runhcs agent` works."""

from __future__ import annotations

import hashlib
import json
import zipfile

import pytest
import windows_agent
import windows_packages

from runhcs.agent_zip import FOLDER
from tests.support.otlp import OtlpReceiver
from tests.wine.agent_checks import check_observed
from tests.wine.conftest import Machine, agent_distribution


@pytest.fixture(scope="module")
def node(machine: Machine) -> Machine:
    """Both zips in a directory of their own: other tests need a node without an agent."""
    directory = machine.drive / "agent_node"
    machine.unpack(directory)
    with zipfile.ZipFile(agent_distribution()) as archive:
        archive.extractall(directory)
    return machine


def test_agent_serves_metrics_and_ends_with_its_command(node: Machine) -> None:
    result = node.drive_shim("unpacked", script="agent_driver.py")
    check_observed(result)
    assert result["gone"], "runhcs.exe was terminated, and the agent that it has started serves metrics"


def test_help_and_errors_are_those_of_the_agent(node: Machine) -> None:
    done = node.run(r"C:\agent_node\runhcs.exe", "agent", "--help")
    assert done.returncode == 0 and b"--listen" in done.stdout, done.stdout
    done = node.run(r"C:\agent_node\runhcs.exe", "agent", "--listen", "nowhere")
    assert done.returncode != 0 and b"nowhere" in done.stdout, done.stdout


# With the exporter that `runhcs agent` chooses. The SDK finds its parts by the metadata of installed packages.
EXPORT = """
import os, sys
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"], os.environ["OTEL_EXPORTER_OTLP_PROTOCOL"] = sys.argv[1:]
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from runhcs.agent.exporter import from_environment
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(from_environment()))
provider.get_tracer("test").start_span("from windows").end()
provider.shutdown()
"""


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_traces_are_exported(node: Machine, protocol: str) -> None:
    receiver = OtlpReceiver(http=protocol != "grpc")
    try:
        python = rf"C:\agent_node\{FOLDER}\python.exe"
        done = node.run(python, "-I", "-B", "-c", EXPORT, receiver.endpoint, protocol)
        assert done.returncode == 0, done.stdout.decode(errors="replace")
        assert [span.name for span in receiver.spans] == ["from windows"]
    finally:
        receiver.close()


def test_sbom_lists_every_file_and_cpython_is_as_published() -> None:
    python = windows_packages.requested_python()
    with zipfile.ZipFile(agent_distribution()) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    own = f"{FOLDER}/sbom-agent.cdx.json"
    sbom = json.loads(members[own])
    listed = {
        file["name"]: file["hashes"][0]["content"]
        for component in (sbom["metadata"]["component"], *sbom["components"])
        for file in component.get("components", [])
    }
    assert listed == {name: hashlib.sha256(data).hexdigest() for name, data in members.items() if name != own}
    assert {"CPython", "grpcio", "opentelemetry_sdk", "psutil"} <= {one["name"] for one in sbom["components"]}
    for name in windows_agent.binaries(python):
        assert members[f"{FOLDER}/{name}"] == python.files[name], name


def test_two_builds_have_the_same_members() -> None:
    python = windows_packages.requested_python()
    assert windows_agent.contents(python, "1.2.3") == windows_agent.contents(python, "1.2.3")
