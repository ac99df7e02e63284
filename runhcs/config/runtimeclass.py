"""RuntimeClasses for Kubernetes, as YAML."""

from __future__ import annotations

from runhcs.config.runtimes import Runtime
from shim.oci.windows_versions import oldest_on, runs_in_process, runs_in_vm

# The shim of a pod: 4.4 MB of its own on Linux, a waiting standby has 19 MB under Wine, and more for execs, output and
# stats (docs/explanation/performance.md). An idle shim uses no CPU.
SHIM_MB = 32
# The memory of a guest without containers, and the CPU that a VM costs the host. Not measured on Windows yet.
GUEST_MB = 512
# A Linux guest: its kernel, and what its agent keeps from containers.
LINUX_GUEST_MB = 128
VM_CPU = "100m"
# The label of `runhcs node-install`.
READY_LABEL = "containerd-shim-runhcs/ready"
_INSTALLED_NODES = ("    # Nodes on which the shim is installed and works.", f'    {READY_LABEL}: "true"')

HEADER = """\
# RuntimeClasses for Windows nodes, by `runhcs config runtimeclass`: kubectl apply -f this file. A pod chooses one by
# `runtimeClassName`; containerd on the nodes needs the runtimes of the same names (`runhcs config containerd`).
"""


class NodeError(ValueError):
    """A node that cannot run a requested runtime."""


def text(runtimes: list[Runtime], node_build: int = 0, *, emulator: bool = False, installed: bool = False) -> str:
    """For nodes of `node_build`; without it, for nodes of the build of each runtime. `emulator`: for Linux nodes with
    the HCS emulator. `installed`: only for nodes on which `runhcs node-install` has installed the shim."""
    return HEADER + "".join(_document(runtime, node_build, emulator, installed) for runtime in runtimes)


def _document(runtime: Runtime, node_build: int, emulator: bool, installed: bool) -> str:
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
        *(_INSTALLED_NODES if installed else ()),
        *(_emulator_nodes() if emulator else _windows_nodes(runtime, build, node_build)),
    ]
    lines += _overhead(runtime)
    return "\n".join(lines) + "\n"


def _emulator_nodes() -> list[str]:
    return ["    # Nodes with the HCS emulator.", "    kubernetes.io/os: linux"]


def _windows_nodes(runtime: Runtime, build: int, node_build: int) -> list[str]:
    lines = ["    kubernetes.io/os: windows"]
    if build:
        lines += [*_comment(runtime, node_build), f'    node.kubernetes.io/windows-build: "10.0.{build}"']
    return [
        *lines,
        "  tolerations:",
        "  # Clusters keep Linux pods off Windows nodes by this taint.",
        "  - key: os",
        "    operator: Equal",
        "    value: windows",
        "    effect: NoSchedule",
    ]


def _oldest(build: int) -> str:
    return f"without a VM they run images of build {oldest_on(build)} to {build}"


def _comment(runtime: Runtime, node_build: int) -> list[str]:
    if runtime.hypervisor and not node_build:
        return [
            "    # Nodes of the VM's own build. Newer nodes can run it too: see --node-build.",
        ]
    return []


def _overhead(runtime: Runtime) -> list[str]:
    if not runtime.hypervisor:
        return ["overhead:", "  podFixed:", "    # The shim of the pod.", f"    memory: {SHIM_MB}Mi"]
    if runtime.reserved:
        memory, why = runtime.memory_mb, "The VM reserves all of its memory at its start, whatever containers request."
    elif runtime.linux:
        memory, why = LINUX_GUEST_MB, "The memory of the guest's kernel and agent, beside what containers request."
    else:
        memory, why = GUEST_MB, "The memory of the guest's own Windows, in addition to what containers request."
    return ["overhead:", "  podFixed:", f"    # {why}", f"    memory: {memory}Mi", f"    cpu: {VM_CPU}"]
