"""deploy/: the Helm chart and the kustomize base, rendered by helm and kustomize and checked by Kubernetes' OpenAPI.

scripts/deploy-programs.sh builds the programs. Without them the tests are skipped, and fail with CI=true.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from runhcs.config import runtimeclass
from runhcs.config.runtimes import runtimes
from runhcs.node.command import configure
from shim.oci.annotations.container import VM_MEMORY_SIZE_IN_MB, VM_PROCESSOR_COUNT
from tests.support import runtime_class_schema
from tests.support.kubernetes_schema import Schema

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

import pod_policy  # noqa: E402

CHART = ROOT / "deploy" / "helm" / "containerd-shim-runhcs"
KUSTOMIZE = ROOT / "deploy" / "kustomize"
NAME = "containerd-shim-runhcs"
IMAGE = ("--set", "image.repository=example.test/node", "--set-string", "image.tag=1", "--kube-version", "1.36")
RUNTIMES = ["runhcs-wcow-process", "runhcs-wcow-hypervisor", "runhcs-lcow"]

Document = dict[str, Any]


def _programs() -> Path | None:
    cache = Path(
        os.environ.get("RUNHCS_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "containerd-shim-runhcs"
    )
    text = (ROOT / "scripts" / "deploy-programs.sh").read_text()
    versions = [re.findall(rf"^{name}=(\S+)", text, re.MULTILINE)[0] for name in ("helm", "kustomize", "kubernetes")]
    found = cache / f"deploy-{'-'.join(versions)}"
    return found if (found / "swagger.json").exists() else None


PROGRAMS = _programs()
if PROGRAMS is None and os.environ.get("CI") != "true":
    pytest.skip("helm and kustomize are missing: run scripts/deploy-programs.sh", allow_module_level=True)
assert PROGRAMS is not None, "helm and kustomize are missing: run scripts/deploy-programs.sh"


@pytest.fixture(scope="module")
def schema() -> Schema:
    assert PROGRAMS is not None
    return Schema(PROGRAMS / "swagger.json")


def run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert PROGRAMS is not None
    home = {"HOME": "/nonexistent", "HELM_CACHE_HOME": "/nonexistent", "HELM_CONFIG_HOME": "/nonexistent"}
    return subprocess.run(
        [PROGRAMS / program, *arguments], capture_output=True, text=True, timeout=120, check=False, env=home
    )


def helm(*options: str, release: str = NAME) -> list[Document]:
    done = run("helm", "template", release, CHART, "--namespace", NAME, *IMAGE, *options)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def kustomize(directory: Path) -> list[Document]:
    done = run("kustomize", "build", "--load-restrictor", "LoadRestrictionsNone", directory)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def documents(text: str) -> list[Document]:
    return [one for one in yaml.safe_load_all(text) if one]


def by_kind(found: list[Document], kind: str) -> list[Document]:
    return [one for one in found if one["kind"] == kind]


def container(found: list[Document]) -> Document:
    (daemon_set,) = by_kind(found, "DaemonSet")
    (only,) = daemon_set["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


VARIANTS: dict[str, tuple[str, ...]] = {
    "windows": (),
    "linux": ("--set", "os=linux"),
    "uninstall": ("--set", "mode=uninstall"),
    "all": (
        "--set", "image.digest=sha256:" + "0" * 64, "--set", "imagePullSecrets[0].name=secret",
        "--set-string", "retry=2",
        "--set", "selftest.steps={build,vm}", "--set", "containerd.config=C:/config.toml", "--set", "directory=C:/shim",
        "--set", "containerd.service=other", "--set", "apiServer=https://127.0.0.1:6443",
        "--set-string", "podAnnotations.example=1", "--set", "nodeSelector.pool=windows", "--set", "maxUnavailable=10%",
    ),
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_chart_is_valid_for_kubernetes(variant: str, schema: Schema) -> None:
    for document in helm(*VARIANTS[variant]):
        schema.check(document)


@pytest.mark.parametrize("variant", ["base", "linux"])
def test_kustomization_is_valid_for_kubernetes(variant: str, schema: Schema) -> None:
    for document in kustomize(KUSTOMIZE / variant):
        schema.check(document)


def test_schema_check_refuses_wrong_manifests(schema: Schema) -> None:
    """The check itself."""
    wrong: list[tuple[Document, str]] = [
        ({"apiVersion": "v1", "kind": "Pods", "metadata": {}}, "has no"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [], "host": 1}}, "unknown field"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": {}}}, "not of type array"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}}, "lacks"),
    ]
    for document, message in wrong:
        with pytest.raises(AssertionError, match=message):
            schema.check(document)


def test_helm_lint_passes() -> None:
    done = run("helm", "lint", "--strict", CHART, *IMAGE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "image.repository="), "repository"),
        (("--set-string", "image.tag="), "tag"),
        (("--set", "os=darwin"), "os"),
        (("--set", "mode=remove"), "mode"),
        (("--set", "runtimes={runc}"), "runtimes"),
        (("--set", "interval=1"), "interval"),
        (("--set", "unknown=1"), "unknown"),
        (("--set", "image.digest=abc"), "digest"),
        (("--set", "runtimes={runhcs-lcow-2vp4gb}"), "runhcs config runtimeclass runhcs-lcow-2vp4gb"),
    ],
)
def test_wrong_values_are_refused(options: tuple[str, ...], message: str) -> None:
    done = run("helm", "template", NAME, CHART, *IMAGE, *options)
    assert done.returncode != 0 and message in done.stderr


def _without_helm(document: Document) -> Document:
    """Without the labels that only Helm sets, and the image."""
    metadata = document["metadata"]
    metadata["labels"] = {}
    if document["kind"] == "DaemonSet":
        document["spec"]["selector"]["matchLabels"].pop("app.kubernetes.io/instance", None)
        document["spec"]["template"]["metadata"]["labels"].pop("app.kubernetes.io/instance", None)
        container([document])["image"] = "image"
    return document


@pytest.mark.parametrize(("directory", "variant"), [("base", "windows"), ("linux", "linux")])
def test_chart_and_kustomization_are_the_same(directory: str, variant: str) -> None:
    one = {(doc["kind"], doc["metadata"]["name"]): _without_helm(doc) for doc in helm(*VARIANTS[variant])}
    other = {(doc["kind"], doc["metadata"]["name"]): _without_helm(doc) for doc in kustomize(KUSTOMIZE / directory)}
    del other["Namespace", NAME]
    assert one == other


def test_policy_of_annotations_is_that_of_the_table() -> None:
    """`make docs` writes it."""
    for path, text in pod_policy.files().items():
        assert path.read_text() == text, f"{path} is outdated: run make docs"
    policies = {one["metadata"]["name"]: one for one in by_kind(helm(), "ValidatingAdmissionPolicy")}
    policy = policies[f"{NAME}-pods"]
    variables = {one["name"]: one["expression"] for one in policy["spec"]["variables"]}
    assert VM_MEMORY_SIZE_IN_MB in variables["wrongNumbers64"]
    assert VM_PROCESSOR_COUNT in variables["wrongNumbers"]
    names = [one["metadata"]["name"] for one in by_kind(helm("--set", "validateAnnotations=false"), policy["kind"])]
    assert names == [NAME]


@pytest.mark.parametrize("system", ["windows", "linux"])
def test_runtime_classes_are_those_of_runhcs_config(system: str) -> None:
    text = runtimeclass.text(runtimes(RUNTIMES), installed=True, emulator=system == "linux")
    expected = {one["metadata"]["name"]: one for one in documents(text)}
    for found in (helm("--set", f"os={system}"), kustomize(KUSTOMIZE / ("base" if system == "windows" else "linux"))):
        classes = by_kind(found, "RuntimeClass")
        for one in classes:
            runtime_class_schema.check(one)
            one["metadata"].pop("labels", None)
        assert {one["metadata"]["name"]: one for one in classes} == expected


@pytest.mark.parametrize("variant", VARIANTS)
def test_arguments_are_accepted_by_node_install(variant: str) -> None:
    import argparse

    parser = argparse.ArgumentParser(exit_on_error=False)
    configure(parser)
    args = parser.parse_args(container(helm(*VARIANTS[variant]))["args"])
    assert args.mode == ("uninstall" if variant == "uninstall" else "install") and args.runtime == RUNTIMES
    if variant == "all":
        assert (args.selftest_step, args.retry, args.service) == (["build", "vm"], "2", "other")
        assert (args.config, args.directory) == ("C:/config.toml", "C:/shim")


def test_windows_pods_are_host_process_containers() -> None:
    (daemon_set,) = by_kind(helm(), "DaemonSet")
    spec = daemon_set["spec"]["template"]["spec"]
    assert spec["hostNetwork"] and spec["securityContext"]["windowsOptions"]["hostProcess"]
    assert "privileged" not in str(spec) and "hostPID" not in spec
    assert spec["nodeSelector"]["kubernetes.io/os"] == "windows"


def test_service_account_may_patch_nodes_and_create_events_only() -> None:
    found = helm()
    rules = [rule for kind in ("ClusterRole", "Role") for one in by_kind(found, kind) for rule in one["rules"]]
    assert rules == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ]
    assert [one["metadata"]["namespace"] for one in by_kind(found, "Role")] == ["default"]
    policy = next(one for one in by_kind(found, "ValidatingAdmissionPolicy") if one["metadata"]["name"] == NAME)
    assert f"system:serviceaccount:{NAME}:{NAME}" in str(policy) and policy["spec"]["failurePolicy"] == "Fail"
    unrestricted = by_kind(helm("--set", "restrictToOwnNode=false"), "ValidatingAdmissionPolicy")
    assert [one["metadata"]["name"] for one in unrestricted] == [f"{NAME}-pods"]


def test_removal_removes_runtime_classes_and_keeps_the_daemon_set() -> None:
    found = helm(*VARIANTS["uninstall"])
    assert not by_kind(found, "RuntimeClass") and by_kind(found, "DaemonSet")


def test_uninstall_component_sets_the_mode(tmp_path: Path) -> None:
    relative = os.path.relpath(KUSTOMIZE, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{relative}/base]\ncomponents: [{relative}/uninstall]\n"
        "images: [{name: containerd-shim-runhcs-node, newName: example.test/node, newTag: '2'}]\n"
    )
    found = container(kustomize(tmp_path))
    assert found["args"][0] == "--mode=uninstall" and found["image"] == "example.test/node:2"


def test_two_releases_do_not_share_names() -> None:
    def names(found: list[Document]) -> set[tuple[str, str]]:
        kinds = ("DaemonSet", "ClusterRole", "ClusterRoleBinding", "ServiceAccount", "ValidatingAdmissionPolicy")
        return {(one["kind"], one["metadata"]["name"]) for one in found if one["kind"] in kinds}

    assert not names(helm(release="one")) & names(helm(release="two"))
