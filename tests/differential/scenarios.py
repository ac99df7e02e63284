"""Strategies for Windows containers and pods, on the host and in VMs: specs, options, annotations, updates, faults.

A case is a list of scenarios in the format of `tests.parity.scenarios`: one for a container, three for a pod.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from shim.oci.annotations import container, vm
from shim.oci.annotations.schema import APPLIED, TEXT
from shim.oci.annotations.table import module_rows
from tests.differential.sequences import (
    EXITING,
    MISSING,
    READING,
    SLEEPING,
    WINDOWS,
    crash,
    execs,
    exit_codes,
    in_sequence,
    kind_of,
    steps,
)
from tests.parity.scenarios import HYPERVISOR, SLEEP

# Annotations that name files or systems are cases of `tests.parity.scenarios`. Microsoft's shim has no ShimScope.
_NOT_GENERATED = (
    "io.kubernetes.", "microsoft.com/", "kerneldrivers", "service-table", "sandbox-os-version", "-id", ".id",
    "shim-scope",
)  # fmt: skip
VALUES = ("true", "false", "True", "1", "0", "2", "", "abc", "100", "512", "10000", "4294967296", "1.5", " 1")


def generated_annotations(*modules: ModuleType) -> list[str]:
    return sorted(
        str(name)
        for module in modules
        for name, row in module_rows(module).items()
        if row.kind is not TEXT and row.outcome == APPLIED and not any(part in name for part in _NOT_GENERATED)
    )


_PIPE = "\\\\.\\pipe\\docker_engine"
_NUMBERS = (0, 1, 2, 4, 100, 5000, 10000, 10001)
_MEMORY = (0, 1, 1 << 20, (1 << 20) + 1, 256 << 20, 1 << 30, 1 << 62)

_process_members = {
    "cwd": st.sampled_from(["C:\\", "C:\\windows", "", "C:/windows", "C:\\none"]),
    "env": st.lists(st.sampled_from(["A=b", "A=c", "C=", "E", "F=g=h", "PATH=C:\\"]), max_size=4),
    "user": st.sampled_from([{"username": name} for name in ("ContainerUser", "ContainerAdministrator", "")]),
}
processes = st.fixed_dictionaries(
    {},
    optional={
        **_process_members, "consoleSize": st.sampled_from([{"height": 25, "width": 80}, {"height": 0, "width": 0}]),
    },
)  # fmt: skip
exec_members = st.fixed_dictionaries({}, optional={**_process_members, "terminal": st.just(True)})
resources = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.fixed_dictionaries(
            {}, optional={name: st.sampled_from(_NUMBERS) for name in ("count", "shares", "maximum")}
        ),
        "memory": st.fixed_dictionaries({}, optional={"limit": st.sampled_from(_MEMORY)}),
        "storage": st.fixed_dictionaries({}, optional={name: st.sampled_from(_NUMBERS) for name in ("iops", "bps")}),
    },
)
# Pairs that one shim refuses and the other does not are in docs/reference/parity.md.
# HCS refuses the same pipe twice in one VM, and Microsoft's shim tries it.
mounts = st.lists(
    st.builds(
        lambda pair, more: {"source": pair[0], "destination": pair[1], **more},
        st.sampled_from([
            ("C:\\hostdir", "C:\\mnt"), ("C:\\hostdir", "C:\\mnt\\deep"), ("C:\\hostdir\\file.txt", "C:\\mnt\\file"),
            ("C:\\none", "C:\\mnt"), (_PIPE, _PIPE), ("C:/hostdir", "C:/mnt"), ("", "C:\\mnt"), ("C:\\hostdir", ""),
        ]),
        st.fixed_dictionaries(
            {},
            optional={"options": st.sampled_from([["ro"], ["rw"], [], ["RO"]]), "type": st.sampled_from(["", "bind"])},
        ),
    ),
    max_size=2,
).filter(lambda mounts: sum(mount["source"] == _PIPE for mount in mounts) <= 1)  # fmt: skip
_any_options = {
    "debug": st.booleans(),
    "logLevel": st.sampled_from(["debug", "info", "warning", "error"]),
    "scrubLogs": st.booleans(),
    "registryRoot": st.just("x"),
    "defaultContainerAnnotations": st.sampled_from([
        {"io.microsoft.container.memory.sizeinmb": "300"}, {"io.microsoft.container.processor.limit": "100"},
        {"io.microsoft.container.processor.weight": "abc"}, {"com.example.unknown": "1"},
    ]),
}  # fmt: skip
on_host_options = st.one_of(st.none(), st.fixed_dictionaries({}, optional=_any_options))
in_vm_options = st.fixed_dictionaries(
    {name: st.just(value) for name, value in HYPERVISOR.items()},
    optional={
        **_any_options,
        "vmProcessorCount": st.sampled_from([1, 2, 4]),
        "vmMemorySizeInMb": st.sampled_from([512, 1000, 2048]),
        "scaleCpuLimitsToSandbox": st.booleans(),
    },
)
# Updates that one shim refuses and the other does not are in docs/reference/parity.md.
_UPDATES = (
    {"memory": {"limit": 128 << 20}}, {"memory": {"limit": (200 << 20) + 1}}, {"cpu": {"maximum": 2000}},
    {"cpu": {"shares": 500}}, {"memory": {"limit": 512 << 20}, "cpu": {"shares": 100}}, {},
)  # fmt: skip
updates = st.lists(st.sampled_from(_UPDATES).map(lambda one: {"resources": one}), min_size=2, max_size=2)


@st.composite
def annotations(draw: st.DrawFn, in_vm: bool) -> dict[str, str]:
    names = generated_annotations(container, *((vm,) if in_vm else ()))
    return draw(st.dictionaries(st.sampled_from(names), st.sampled_from(VALUES), max_size=3))


@st.composite
def specs(draw: st.DrawFn, in_vm: bool) -> dict[str, Any]:
    windows: dict[str, Any] = {"layerFolders": None, "ignoreFlushesDuringBoot": draw(st.booleans())}
    for name, strategy in (("resources", resources), ("servicing", st.booleans())):
        if draw(st.booleans()):
            windows[name] = draw(strategy)
    if in_vm:
        windows["hyperv"] = {}
    kind = draw(st.sampled_from([*[SLEEPING] * 8, *[EXITING] * 4, READING, MISSING]))
    arguments = WINDOWS.arguments(kind, draw(exit_codes))
    if kind == SLEEPING and draw(st.booleans()):
        arguments += ['a "b" c', "", "d\\"]
    process = {"user": {"username": "ContainerUser"}, "cwd": "C:\\", **draw(processes), "args": arguments}
    spec: dict[str, Any] = {"ociVersion": "1.1.0", "process": process, "root": {"path": ""}, "windows": windows}
    for name, strategy in (("annotations", annotations(in_vm)), ("mounts", mounts), ("hostname", st.just("host1"))):
        # Microsoft's shim crashes if a spec for a VM has no annotations.
        if draw(st.booleans()) or (in_vm and name == "annotations"):
            spec[name] = draw(strategy)
    return spec


_TYPE, _SANDBOX = "io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id"
# Calls of HCS that fail once, where both shims have to undo what they did before, or that take long.
_FAULTS = (
    "ActivateLayer=0x80070015", "PrepareLayer=0x80070005", "GetLayerMountPath=0x80070005",
    "HcsCreateComputeSystem=0x80070005", "HcsCreateComputeSystem=0x80370110", "HcsStartComputeSystem=0x80070005",
    "HcsCreateProcess=0x80070005", "HcsCreateProcess=0x80070002", "HcsCreateProcess=0x80070005@2",
    "HcsCreateComputeSystem=slow", "HcsStartComputeSystem=slow", "HcsCreateProcess=slow", "HcsCreateProcess=slow@2",
    "HcsTerminateComputeSystem=slow", "PrepareLayer=slow",
)  # fmt: skip
# The VM crashes during a call.
_CRASHES = tuple(f"HcsModifyComputeSystem=crash@{number}" for number in (1, 2, 3, 4, 5))
# A process that exits soon after its start.
SHORT = ["C:\\tool.exe", "sleep", "1"]
# How the stop of a sandbox goes on with the shim of the pod.
ATTACH = ["attach", "connect"]


@st.composite
def _scenario(draw: st.DrawFn, spec: dict[str, Any], options: Any, **members: Any) -> dict[str, Any]:
    """A container with this spec, and calls."""
    processes = draw(execs(WINDOWS, exec_members))
    kinds = {name: kind_of(WINDOWS, process) for name, process in processes.items()}
    calls = draw(steps(kinds, kind_of(WINDOWS, spec["process"])))
    found = {"spec": spec, "steps": calls, "options": options, "execs": processes, "updates": draw(updates)}
    return {**found, **members}


@st.composite
def scenarios(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A container by itself."""
    in_vm = draw(st.sampled_from([False, False, False, True]))
    options = draw(in_vm_options if in_vm else on_host_options)
    spec = draw(specs(in_vm))
    if options and "defaultContainerAnnotations" in options:
        spec.setdefault("annotations", {})  # without them Microsoft's shim crashes
    return [draw(_scenario(spec, options))]


@st.composite
def failing_scenarios(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A container with a valid spec, and a call of HCS that fails, is slow, or during which the VM crashes."""
    in_vm = draw(st.sampled_from([False, False, True]))
    options = dict(HYPERVISOR) if in_vm else None
    fail = draw(st.sampled_from(_FAULTS + (_CRASHES if in_vm else ())))
    found = draw(_scenario(plain(in_vm), options, fail=fail))
    return [found if "slow" in fail else {**found, "steps": in_sequence(found["steps"])}]


@st.composite
def crashing_scenarios(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The shim is killed at any point."""
    in_vm = draw(st.sampled_from([False, False, True]))
    found = draw(_scenario(plain(in_vm), dict(HYPERVISOR) if in_vm else None))
    return [{**found, "steps": draw(crash(found["steps"]))}]


@st.composite
def outage_scenarios(draw: st.DrawFn) -> list[dict[str, Any]]:
    """containerd is away while the container exits."""
    in_vm = draw(st.sampled_from([False, False, True]))
    spec = draw(specs(in_vm))
    spec["process"]["args"] = SHORT
    found = draw(_scenario(spec, dict(HYPERVISOR) if in_vm else None))
    before = draw(st.lists(st.sampled_from(["state", "exec:e0", "client", "restart"]), max_size=2))
    after = draw(st.lists(st.sampled_from(["state", "run", "kill:,9", "exec:e9", "restart"]), max_size=3))
    calls = [*before, "run", "outage:2500", "wait", *after, "delete", "shutdown", "events"]
    return [{**found, "steps": ["start", "connect", "create", *calls]}]


@st.composite
def pods(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A sandbox, a container in it, and the stop of the sandbox. `POD` stands for its id. A second container would show
    what Microsoft's shim has leaked if the first was refused."""
    in_vm = draw(st.booleans())
    options = dict(HYPERVISOR) if in_vm else None
    sandbox = {**plain(in_vm), "annotations": {_TYPE: "sandbox", _SANDBOX: "POD"}}
    spec = draw(specs(in_vm))
    spec["annotations"] = {**spec.get("annotations", {}), _TYPE: "container", _SANDBOX: "POD"}
    member = draw(_scenario(spec, options))
    return [
        {"spec": sandbox, "steps": ["start", "connect", "create", "run", "state"], "options": options},
        member,
        {"spec": sandbox, "steps": [*ATTACH, "kill:,9", "wait", "delete", "shutdown", "events"], "options": options},
    ]


def plain(in_vm: bool) -> dict[str, Any]:
    """A spec that both shims accept."""
    windows = {"layerFolders": None, "ignoreFlushesDuringBoot": True, **({"hyperv": {}} if in_vm else {})}
    process = {"user": {"username": "ContainerUser"}, "cwd": "C:\\", **SLEEP}
    return {"ociVersion": "1.1.0", "process": process, "root": {"path": ""}, "windows": windows, "annotations": {}}
