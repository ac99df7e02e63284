"""Documents sent to HCS and to the guest, compared with the traces beside this file.

The traces have the form of what Microsoft's shim sends for the same requests. To rewrite them after an intended change:
run the tests with UPDATE_TRACES=1, and review the difference.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.hcs_bindings import network
from tests.support.bindings import create_endpoint, reset_libraries, use
from tests.support.emulator import Emulator
from tests.support.fifo_reader import Reader
from tests.support.shims import Shims
from tests.support.vm_image import VmShims, fifo, options

TRACES = Path(__file__).parent / "traces"
GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# They change nothing; how often they are called does not matter.
QUESTIONS = ("NameToGuid", "RtlGetVersion")
MAC = re.compile(r"[0-9A-F]{2}(-[0-9A-F]{2}){5}")
# Well-known GUIDs; all others are random.
KNOWN = re.compile(r"(0{8}|894cc2d6|df6d0690|172dad59|dcc079ae|acef5661)-.*|.*-facb-11e6-bd58-64006a7986d3")


@pytest.fixture
def vms(emulator: Emulator, shims: Shims, monkeypatch: pytest.MonkeyPatch) -> Iterator[VmShims]:
    shims.env["TZ"] = "UTC"
    yield VmShims(emulator, shims)


class Trace:
    """The journal from a point in time, without what differs from run to run."""

    def __init__(self, vms: VmShims) -> None:
        self._vms = vms
        self._seen = len(vms.emulator.journal())

    def lines(self) -> dict[str, list[dict[str, Any]]]:
        """The calls to HCS and those to the guest, each in order: the journal records the guest's a bit later."""
        entries = [entry for entry in self._vms.emulator.journal()[self._seen :] if "call" in entry]
        entries = [entry for entry in entries if entry["call"] not in QUESTIONS]
        calls = [{"call": entry["call"], "arguments": self._plain(entry["arguments"])} for entry in entries]
        return {
            "hcs": [line for line in calls if not line["call"].startswith("guest:")],
            "guest": [line for line in calls if line["call"].startswith("guest:")],
        }

    def _plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._plain(key): self._number(key, item) for key, item in value.items() if key != "ActivityId"}
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        if isinstance(value, str):
            text = value.replace(str(self._vms.directory), "<dir>")
            return GUID.sub(self._guid, MAC.sub("<mac>", text))
        return value

    def _number(self, key: str, value: Any) -> Any:
        return "<pid>" if key == "ProcessId" else self._plain(value)

    def _guid(self, match: re.Match[str]) -> str:
        text = match[0]
        if KNOWN.fullmatch(text):
            return text
        return "<guid>"

    def expect(self, name: str) -> None:
        path = TRACES / f"{name}.json"
        lines = self.lines()
        if os.environ.get("UPDATE_TRACES"):
            path.write_text(_dump(lines))
        expected = json.loads(path.read_text())
        for part in ("hcs", "guest"):
            assert [line["call"] for line in lines[part]] == [line["call"] for line in expected[part]]
            for ours, wanted in zip(lines[part], expected[part], strict=True):
                assert ours == wanted


def _dump(lines: dict[str, list[dict[str, Any]]]) -> str:
    """One call per line, for readable differences."""
    parts = [f'"{name}": [\n' + ",\n".join(map(json.dumps, part)) + "\n]" for name, part in lines.items()]
    return "{" + ",\n".join(parts) + "}\n"


def run(vms: VmShims, id: str, spec: dict[str, Any], **fields: Any) -> None:
    shim = vms.shims.start(id, spec)
    stdout, stderr = fifo(vms, f"{id}-out"), fifo(vms, f"{id}-err")
    readers = [Reader(stdout), Reader(stderr)]
    vms.create(shim, stdout=stdout, stderr=stderr, **fields)
    shim.start()
    assert shim.wait().exit_status == 0
    assert readers[0].text().strip() == "hello"
    shim.delete()


def test_standalone_container_messages(vms: VmShims) -> None:
    trace = Trace(vms)
    run(vms, "alone", vms.spec("cmd", "/c", "echo hello"))
    trace.expect("alone")


def test_sized_container_with_mounts_messages(vms: VmShims) -> None:
    data = vms.directory / "hostdir"
    data.mkdir()
    (data / "file.txt").touch()
    (vms.emulator.directory / "pipe").mkdir(exist_ok=True)
    os.mkfifo(vms.emulator.directory / "pipe" / "docker_engine")
    prefix = "io.microsoft.virtualmachine."
    spec = vms.spec(
        "cmd", "/c", "echo hello",
        hostname="hvhost",
        mounts=[
            {"destination": "C:\\data", "source": str(data), "options": ["ro"]},
            {"destination": "C:\\f.txt", "source": str(data / "file.txt")},
            {"destination": "\\\\.\\pipe\\inside", "source": "\\\\.\\pipe\\docker_engine"},
        ],
        annotations={
            f"{prefix}computetopology.memory.sizeinmb": "3000",
            f"{prefix}computetopology.processor.count": "1",
            f"{prefix}computetopology.processor.limit": "50000",
            f"{prefix}computetopology.processor.weight": "200",
            f"{prefix}computetopology.memory.allowovercommit": "false",
            f"{prefix}storageqos.iopsmaximum": "777",
            f"{prefix}storageqos.bandwidthmaximum": "888",
            f"{prefix}console.pipe": "\\\\.\\pipe\\con",
        },
    )  # fmt: skip
    spec["windows"]["resources"] = {"cpu": {"maximum": 5000}, "memory": {"limit": 512 << 20}}
    trace = Trace(vms)
    run(vms, "sized", spec, options=options(vm_memory_size_in_mb=2048, vm_processor_count=2))
    trace.expect("sized")


def test_pod_with_network_messages(
    vms: VmShims, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    use(vms.emulator, monkeypatch, tmp_path_factory.mktemp("hcs"))
    endpoint = create_endpoint()
    namespace = network.create_namespace()["ID"]
    network.add_namespace_endpoint(namespace, endpoint)
    windows = {"network": {"networkNamespace": namespace}}
    trace = Trace(vms)
    pod = vms.pod(windows=windows)
    run(vms, "c1", vms.spec("cmd", "/c", "echo hello", pod="pod", role="container", windows=windows))
    pod.kill(9)
    pod.wait()
    pod.delete()
    trace.expect("pod")
    reset_libraries()
