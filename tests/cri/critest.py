"""critest, the validation suite of cri-tools, against one runtime handler of a containerd of its own.

containerd runs in network and IPC namespaces of its own, with CNI's bridge and port mapping, and pulls all images from
a registry on the loopback interface there. critest runs in the same namespaces.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from shim.commands import SHIM_SCOPE
from tests.containerd.daemon import CACHE
from tests.containerd.kubelet import CNI_PLUGINS, SUBNET
from tests.containerd.lcow import boot_files
from tests.containerd.node import Node
from tests.cri import images
from tests.support import network_namespace
from tests.support.oci_registry import Registry, Store

VERSION = "v1.36.0"  # scripts/go-programs.sh builds it
PROGRAMS = CACHE / f"critest-{VERSION}"
CONTAINERD = "2.3"
# In a network namespace of its own every port is free.
REGISTRY_PORT = 5000
CONFORMANCE = r"\[Conformance\]"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
# critest waits a minute for many conditions: a run with many failures is long.
TIMEOUT = 1800


class Run(NamedTuple):
    """A runtime handler: a guest of Linux VMs, a sandboxer, and a ShimScope other than `pod`; or runc."""

    guest: str
    sandboxer: str = "podsandbox"
    scope: str = ""

    @property
    def name(self) -> str:
        if not self.guest:
            return "runc"
        return "-".join(filter(None, ("runhcs-lcow", self.guest, self.sandboxer, self.scope)))

    def options(self, boot_files: Path) -> str:
        """Of the runtime. Its type's message does not have ShimScope: that is a default annotation."""
        text = f'SandboxIsolation = 1\nBootFilesRootPath = "{boot_files}"\n'
        if self.scope:
            table = f'plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{self.name}.options'
            text += f'[{table}.DefaultContainerAnnotations]\n"{SHIM_SCOPE}" = "{self.scope}"\n'
        return text


RUNS = {
    run.name: run
    for run in (
        Run(""),
        *(Run(guest, sandboxer) for guest in ("emulated", "gcs") for sandboxer in ("podsandbox", "shim")),
        Run("emulated", "podsandbox", "namespace"),
        Run("emulated", "shim", "node"),
    )
}


class Result(NamedTuple):
    """One spec of critest."""

    name: str
    state: str
    message: str
    seconds: float


CONFIG = """
[plugins."io.containerd.grpc.v1.cri"]
stream_server_address = "127.0.0.1"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{sandbox}"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "{hosts}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{plugins}"]
conf_dir = "{cni}"
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "{handler}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{handler}]
runtime_type = "{type}"
sandboxer = "{sandboxer}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{handler}.options]
{options}
"""


@contextmanager
def started(run: Run, store: Store, directory: Path) -> Iterator[Node]:
    """A node with the runtime handler `run.name`."""
    _write_network(directory / "cni", directory / "leases")

    def configure(node: Node) -> str:
        return CONFIG.format(
            sandbox=images.SANDBOX, hosts=directory / "hosts", plugins=CNI_PLUGINS, cni=directory / "cni",
            handler=run.name, type="io.containerd.runhcs.v1" if run.guest else "io.containerd.runc.v2",
            sandboxer=run.sandboxer, options=run.options(boot_files(node.emulator, run.guest)) if run.guest else "",
        )  # fmt: skip

    node = Node(CONTAINERD, cri=True, config=configure, own_network=True, log_level="info")
    try:
        node.containerd.bundles = node.containerd.bundles.parent / "k8s.io"
        listener = network_namespace.listen(node.containerd.network_namespace(), ("127.0.0.1", REGISTRY_PORT))
        with Registry(store, listener) as registry:
            registry.write_hosts(directory / "hosts", images.REGISTRIES)
            yield node
    finally:
        node.stop()


def _write_network(cni: Path, leases: Path) -> None:
    cni.mkdir(parents=True)
    ipam = {"type": "host-local", "dataDir": str(leases), "ranges": [[{"subnet": SUBNET}]]}
    bridge = {"type": "bridge", "bridge": "pods0", "isDefaultGateway": True, "hairpinMode": True, "ipam": ipam}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}
    (cni / "10-pods.conflist").write_text(json.dumps(network))


def run_critest(node: Node, run: Run, directory: Path, *, focus: str = "", processes: int = 4) -> list[Result]:
    """Run the suite; the log of critest is `critest.log` in the directory."""
    report, log, temporary = directory / "report.json", directory / "critest.log", directory / "tmp"
    temporary.mkdir()
    endpoint = f"unix://{node.containerd.address}"
    command = [
        *node.containerd.enter_network(), str(PROGRAMS / "critest"),
        f"-runtime-endpoint={endpoint}", f"-image-endpoint={endpoint}", f"-runtime-handler={run.name}",
        *([f"-parallel={processes}"] if processes > 1 else []), f"-ginkgo.json-report={report}", "-ginkgo.no-color",
        *([f"-ginkgo.focus={focus}"] if focus else []),
    ]  # fmt: skip
    environment = os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "TMPDIR": str(temporary)}
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd=directory,
            start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise AssertionError(f"critest did not end within {TIMEOUT} s:\n{tail(log)}") from None
    assert report.exists(), f"critest wrote no report:\n{tail(log)}\n{node.containerd.log()}"
    shutil.rmtree(temporary, ignore_errors=True)
    return _results(json.loads(report.read_text()))


def _results(suites: list[dict[str, Any]]) -> list[Result]:
    found = []
    for report in (report for suite in suites for report in suite["SpecReports"] or ()):
        message = (report.get("Failure") or {}).get("Message", "")
        if report["LeafNodeType"] != "It" or (report["State"] == SKIPPED and not message):
            continue  # a setup node, or a spec that was not selected
        name = " ".join([*(report["ContainerHierarchyTexts"] or ()), report["LeafNodeText"]])
        state = report["State"] if report["State"] in (PASSED, SKIPPED) else FAILED
        found.append(Result(name.removeprefix("[k8s.io] "), state, message, report["RunTime"] / 1e9))
    return sorted(found)


def tail(log: Path, lines: int = 80) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
