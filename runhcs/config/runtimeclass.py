"""RuntimeClasses for Kubernetes, as YAML."""

from __future__ import annotations

from runhcs.config.runtimes import Runtime
from shim.oci.windows_versions import oldest_on, runs_in_process, runs_in_vm

# The memory of a guest without containers, and the CPU that a VM costs the host.
GUEST_MB = 512
VM_CPU = "100m"

HEADER = """\
# RuntimeClasses for Windows nodes, by `runhcs config runtimeclass`: kubectl apply -f this file. A pod chooses one by
# `runtimeClassName`; containerd on the nodes needs the runtimes of the same names (`runhcs config containerd`).
"""


class NodeError(ValueError):
    """A node that cannot run a requested runtime."""


def text(runtimes: list[Runtime], node_build: int = 0) -> str:
    """For nodes of `node_build`; without it, for nodes of the build of each runtime."""
    return HEADER + "".join(_document(runtime, node_build) for runtime in runtimes)


def _document(runtime: Runtime, node_build: int) -> str:
    runs = runs_in_vm if runtime.hypervisor else runs_in_process
    if runtime.build and node_build and not runs(node_build, runtime.build):
        oldest = "a VM's Windows is not newer than its host's" if runtime.hypervisor else _oldest(node_build)
        raise NodeError(f"{runtime.name} cannot run on nodes of build {node_build}: {oldest}")
    build = node_build or runtime.build
    lines = [
        "---",
        f"# {runtime.summary[0].upper()}{runtime.summary[1:]}.",
        "apiVersion: node.k8s.io/v1",
        "kind: RuntimeClass",
        "metadata:",
        f"  name: {runtime.name}",
        f"handler: {runtime.name}",
        "scheduling:",
        "  nodeSelector:",
        "    kubernetes.io/os: windows",
    ]
    if build:
        lines += [*_comment(runtime, node_build), f'    node.kubernetes.io/windows-build: "10.0.{build}"']
    lines += [
        "  tolerations:",
        "  # Clusters keep Linux pods off Windows nodes by this taint.",
        "  - key: os",
        "    operator: Equal",
        "    value: windows",
        "    effect: NoSchedule",
    ]
    if runtime.hypervisor:
        lines += _overhead(runtime)
    return "\n".join(lines) + "\n"


def _oldest(build: int) -> str:
    return f"without a VM they run images of build {oldest_on(build)} to {build}"


def _comment(runtime: Runtime, node_build: int) -> list[str]:
    if runtime.hypervisor and not node_build:
        return [
            "    # Nodes of the VM's own build. Newer nodes can run it too: see --node-build.",
        ]
    return []


def _overhead(runtime: Runtime) -> list[str]:
    if runtime.reserved:
        memory, why = runtime.memory_mb, "The VM reserves all of its memory at its start, whatever containers request."
    else:
        memory, why = GUEST_MB, "The memory of the guest's own Windows, in addition to what containers request."
    return ["overhead:", "  podFixed:", f"    # {why}", f"    memory: {memory}Mi", f"    cpu: {VM_CPU}"]
