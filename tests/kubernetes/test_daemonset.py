"""The DaemonSet of deploy/ on a cluster: it installs, upgrades, rejects and removes the shim, and pods keep running.

The node begins with runc only. Helm renders the chart; the images are those of scripts/node_image.py.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.cluster import programs
from deploy.cluster.images import write_layout
from runhcs.config.containerd import FORMATS
from runhcs.node.reconcile import READY, REJECTED
from tests.kubernetes.api import INTERVAL, TIMEOUT, TestCluster
from tests.kubernetes.manifests import container, pod
from tests.kubernetes.processes import shims
from tests.kubernetes.service_manager import ServiceManager
from tests.support.eventually import eventually
from tests.support.node_image import build_context, derived

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "containerd-shim-runhcs"
NAME = "containerd-shim-runhcs"
IMAGE = "localhost/node"
RUNTIME = "runhcs-lcow"
# A pass starts about ten Pythons, and a selftest.
PASS_TIMEOUT = 600.0
BROKEN_CREATE = """

def create_task(*_: object) -> None:
    raise RuntimeError("a broken version")
"""

pytestmark = pytest.mark.timeout(1500)


class Installation:
    """The chart on a cluster whose node has no shim."""

    def __init__(self, directory: Path) -> None:
        context = build_context(directory)  # before there is anything to stop
        self.cluster = TestCluster(with_shim=False, runtime="runc")
        self.services = ServiceManager(self.cluster.cluster.containerd)
        # On a node of its own HCS is there before the shim.
        self.cluster.cluster.emulator.start_serving()
        self._settings = self.cluster.settings
        self.config = self._settings.directory / "containerd.toml"
        self.original = self.config.read_text()
        self.directory = self._settings.directory / "installed"
        self._load_images(directory, context)

    def _load_images(self, directory: Path, context: Path) -> None:
        changes = {"1": ("bench/__init__.py", "\n# 1\n"), "2": ("bench/__init__.py", "\n# 2\n"),
                   "broken": ("shim/task/create.py", BROKEN_CREATE)}  # fmt: skip
        for tag, change in changes.items():
            files = derived(context, directory / tag / "runhcs", *change)
            layer = io.BytesIO()
            with tarfile.open(fileobj=layer, mode="w") as tar:
                for path in sorted((context / "rootfs").iterdir()):
                    tar.add(files if path.name == "runhcs" else path, arcname=path.name)
            archive = directory / "image.tar"
            write_layout(archive, layer.getvalue(), f"{IMAGE}:{tag}")
            self.cluster.cluster.containerd.load(archive)
            archive.unlink()

    def apply(self, tag: str, mode: str = "install") -> None:
        """`helm upgrade --install`, as far as a rendered chart is the same."""
        values = {
            "os": "linux", "mode": mode, "image.repository": IMAGE, "directory": str(self.directory),
            "containerd.config": str(self.config), "containerd.restartCommand": str(self.services.restart),
            "selftest.steps": "{container-lifecycle}", "runtimes": f"{{{RUNTIME}}}", "interval": "10",
        }  # fmt: skip
        options = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        helm = [_helm(), "template", NAME, str(CHART), "--namespace", NAME, "--kube-version", "1.36",
                "--set-string", f"image.tag={tag}"]  # fmt: skip
        done = subprocess.run([*helm, *options], capture_output=True, text=True, timeout=120, check=True)
        self.cluster.kubectl("apply", "-f", "-", stdin=done.stdout)

    def expect_rollout(self) -> None:
        done = self.cluster.kubectl(
            "-n", NAME, "rollout", "status", f"daemonset/{NAME}", f"--timeout={TIMEOUT:g}s", check=False
        )
        assert done.returncode == 0, f"{done.stderr}\n{self.describe()}"

    def describe(self) -> str:
        logs = self.cluster.kubectl("-n", NAME, "logs", f"daemonset/{NAME}", check=False)
        return self.cluster.kubectl("-n", NAME, "describe", "pods").stdout[-3000:] + logs.stdout + logs.stderr

    def state(self) -> str:
        return str(self.node()["labels"].get("containerd-shim-runhcs/state", ""))

    def node(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.get("node", "node")["metadata"]
        return found

    def shim(self) -> Path:
        """The shim that containerd's configuration names."""
        settings = tomllib.loads((self.config.parent / "runhcs.toml").read_text())
        return Path(settings["plugins"][FORMATS[2][1]]["containerd"]["runtimes"][RUNTIME]["runtime_path"])

    def stop(self) -> None:
        self.services.stop()
        self.cluster.stop()


def _helm() -> str:
    text = (ROOT / "scripts" / "deploy-programs.sh").read_text()
    versions = [re.findall(rf"^{name}=(\S+)", text, re.MULTILINE)[0] for name in ("helm", "kustomize", "kubernetes")]
    return str(programs.CACHE / f"deploy-{'-'.join(versions)}" / "helm")


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    installation = Installation(tmp_path_factory.mktemp("images"))
    yield installation
    installation.stop()


class RunningPod:
    """A pod that must not notice anything: the same containers, the same shim, and it takes execs."""

    def __init__(self, installation: Installation, name: str) -> None:
        self._cluster = installation.cluster
        others = {*shims(self._cluster.settings)}
        self.name = self._cluster.run(pod(name, container(), runtimeClassName=RUNTIME))
        (self.shim,) = {*shims(self._cluster.settings)} - others
        self._id = self._cluster.container(name)["containerID"]

    def expect_undisturbed(self, *, takes_execs: bool = True) -> None:
        status = self._cluster.container(self.name)
        assert (status["containerID"], status["restartCount"]) == (self._id, 0) and "running" in status["state"]
        assert self.shim in shims(self._cluster.settings)
        if takes_execs:
            self._expect_exec()

    def _expect_exec(self) -> None:
        assert self._cluster.kubectl("exec", self.name, "--", "echo", "alive").stdout == "alive\n"

    def delete(self) -> None:
        self._cluster.delete("pod", self.name)


def test_install_upgrade_rejection_and_removal_do_not_interrupt_pods(installation: Installation) -> None:
    cluster = installation.cluster
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": NAME, "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}})  # fmt: skip

    installation.apply("1")
    installation.expect_rollout()
    node = installation.node()
    assert node["labels"]["containerd-shim-runhcs/ready"] == "true" and installation.state() == READY
    assert installation.services.restarts == 1
    first_version = installation.shim()
    first = RunningPod(installation, "first")

    installation.apply("2")
    installation.expect_rollout()
    assert installation.state() == READY and installation.services.restarts == 2
    second_version = installation.shim()
    assert second_version != first_version and first_version.exists(), "the version of a running pod is kept"
    assert installation.node()["labels"]["containerd-shim-runhcs/version"] != node["labels"][
        "containerd-shim-runhcs/version"
    ]
    first.expect_undisturbed()
    second = RunningPod(installation, "second")

    # A version that fails its selftest: containerd keeps the previous one and is not restarted.
    installation.apply("broken")
    eventually(lambda: installation.state() == REJECTED, "state rejected", PASS_TIMEOUT, INTERVAL)
    reason = installation.node()["annotations"]["containerd-shim-runhcs/reason"]
    assert "container-lifecycle" in reason and "a broken version" in reason
    assert installation.shim() == second_version and installation.services.restarts == 2
    for one in (first, second):
        one.expect_undisturbed()
    third = RunningPod(installation, "third")
    third.delete()

    # Back to the version that works: nothing changes on the node.
    installation.apply("2")
    installation.expect_rollout()
    assert installation.state() == READY and installation.services.restarts == 2

    installation.apply("2", mode="uninstall")
    installation.expect_rollout()
    assert installation.config.read_text() == installation.original
    assert installation.services.restarts == 3
    assert installation.node()["labels"]["containerd-shim-runhcs/ready"] == "false"
    assert second_version.exists(), "a running pod needs its shim"
    for one in (first, second):
        one.expect_undisturbed(takes_execs=False)  # containerd does not know their runtime any more
        one.delete()
    # The next pass removes the rest.
    eventually(lambda: not installation.directory.exists(), "the removal of all versions", PASS_TIMEOUT, INTERVAL)
    eventually(lambda: not installation.state(), "the removal of the labels", PASS_TIMEOUT, INTERVAL)
    events = cluster.get("events", "--field-selector", "involvedObject.kind=Node")
    assert {"ShimReady", "ShimRejected", "ShimRemoved"} <= {one["reason"] for one in events["items"]}
    cluster.kubectl("delete", "namespace", NAME, f"--timeout={TIMEOUT:g}s")
