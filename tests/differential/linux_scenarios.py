"""Strategies for Linux containers in utility VMs: specs, options, annotations, mounts, pods, faults."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from shim.oci.annotations import linux, vm
from tests.differential.scenarios import ATTACH, VALUES, generated_annotations, updates
from tests.differential.sequences import (
    EXITING,
    LINUX,
    MISSING,
    READING,
    SLEEPING,
    crash,
    execs,
    exit_codes,
    in_sequence,
    kind_of,
    steps,
)
from tests.parity.lcow_specs import LCOW, NAMESPACE, NO_MULTI_MAPPING, SLEEP, bind, spec

_TYPE, _SANDBOX = "io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id"
# Boot files and layers on other devices are cases of `tests.parity.lcow_scenarios`.
_NOT_GENERATED = ("bootfiles", "kerneldirectboot", "preferredrootfstype", "nomultimapping", "virtualpmem", "isolation")
_ANNOTATIONS = [
    name for name in generated_annotations(linux, vm) if not any(part in name for part in _NOT_GENERATED)
]  # fmt: skip
# Requests of the guest, and calls of HCS, that fail or are slow, or during which the VM crashes.
# Only of those that both shims make in the same order: ours asks for properties at the exit.
FAULTS = (
    "guest:Create=crash", "guest:ExecuteProcess=crash", "guest:ExecuteProcess=crash@2", "guest:SignalProcess=crash",
    "guest:ModifySettings=crash@3", "guest:ExecuteProcess=slow",
    "HcsCreateComputeSystem=0x80070005", "HcsStartComputeSystem=0x80070005", "HcsModifyComputeSystem=0x80070005",
    "HcsModifyComputeSystem=0x80070005@2", "HcsGrantVmAccess=0x80070005", "HcsStartComputeSystem=slow",
    "HcsModifyComputeSystem=slow",
)  # fmt: skip

_PROCESS = {
    "cwd": st.sampled_from(["/", "/etc", "/none"]),
    "env": st.lists(st.sampled_from(["A=b", "A=c", "C=", "PATH=/bin"]), max_size=3),
    "user": st.sampled_from([{"uid": 0, "gid": 0}, {"uid": 1, "gid": 1}, {"uid": 1000, "gid": 5}]),
    "noNewPrivileges": st.booleans(),
}
processes = st.fixed_dictionaries({}, optional=_PROCESS)
exec_members = st.fixed_dictionaries({}, optional={**_PROCESS, "terminal": st.just(True)})
resources = st.fixed_dictionaries(
    {},
    optional={
        "memory": st.sampled_from([{}, {"limit": 64 << 20}, {"limit": 1 << 30}]),
        "cpu": st.sampled_from([{}, {"shares": 512}, {"quota": 50000, "period": 100000}]),
        "pids": st.sampled_from([{"limit": 100}]),
    },
)
mounts = st.lists(
    st.sampled_from([
        bind("C:\\hostdir", "/a"), bind("C:\\hostdir", "/a", "ro"), bind("C:\\hostdir\\file.txt", "/f", "ro"),
        bind("C:\\none", "/a"), bind("C:\\hostdir", ""),
        {"destination": "/t", "type": "tmpfs", "source": "tmpfs", "options": ["size=1m"]},
    ]),
    max_size=2,
)  # fmt: skip
options = st.fixed_dictionaries(
    {name: st.just(value) for name, value in LCOW.items()},
    optional={"vmProcessorCount": st.sampled_from([1, 2]), "vmMemorySizeInMb": st.sampled_from([512, 1000, 2048])},
)


@st.composite
def linux_specs(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from([*[SLEEPING] * 8, *[EXITING] * 4, READING, MISSING]))
    process = {**draw(processes), "args": LINUX.arguments(kind, draw(exit_codes))}
    members: dict[str, Any] = {"process": process, "annotations": {NO_MULTI_MAPPING: "true"}}
    if draw(st.booleans()):
        members["linux"] = {"resources": draw(resources)}
    if draw(st.booleans()):
        members["mounts"] = draw(mounts)
    if draw(st.booleans()):
        members["hostname"] = "host1"
    chosen = draw(st.dictionaries(st.sampled_from(_ANNOTATIONS), st.sampled_from(VALUES), max_size=2))
    members["annotations"] |= chosen
    return spec(**members)


@st.composite
def _scenario(draw: st.DrawFn, spec: dict[str, Any], options: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A container with this spec, and calls. Few without Start: Microsoft's shim then waits 30 seconds in Delete."""
    processes = draw(execs(LINUX, exec_members))
    kinds = {name: kind_of(LINUX, process) for name, process in processes.items()}
    not_started = draw(st.sampled_from([True, *[False] * 9]))
    calls = draw(steps(kinds, kind_of(LINUX, spec["process"]), not_started))
    found = {"spec": spec, "steps": calls, "options": options, "execs": processes, "updates": draw(updates)}
    return {**found, **members}


@st.composite
def linux_scenarios(draw: st.DrawFn) -> list[dict[str, Any]]:
    return [draw(_scenario(draw(linux_specs()), draw(options)))]


@st.composite
def failing_linux_scenarios(draw: st.DrawFn) -> list[dict[str, Any]]:
    fail = draw(st.sampled_from(FAULTS))
    found = draw(_scenario(_plain(), dict(LCOW), fail=fail))
    return [found if "slow" in fail else {**found, "steps": in_sequence(found["steps"])}]


@st.composite
def crashing_linux_scenarios(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The shim is killed at any point."""
    found = draw(_scenario(_plain(), dict(LCOW)))
    return [{**found, "steps": draw(crash(found["steps"]))}]


def _plain() -> dict[str, Any]:
    return spec(process=dict(SLEEP), annotations={NO_MULTI_MAPPING: "true"})


def sandbox_spec(annotations: dict[str, str]) -> dict[str, Any]:
    """Microsoft's guest refuses the sandbox of a pod without a network namespace."""
    network = {"network": {"networkNamespace": NAMESPACE}}
    return spec(process=dict(SLEEP), windows=network, annotations=annotations)


@st.composite
def linux_pods(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A sandbox, a container in it, and the stop of the sandbox. `POD` stands for its id."""
    sandbox = sandbox_spec({NO_MULTI_MAPPING: "true", _TYPE: "sandbox", _SANDBOX: "POD"})
    member = draw(linux_specs())
    member["annotations"] |= {_TYPE: "container", _SANDBOX: "POD"}
    end = [*ATTACH, "kill:,9", "wait", "delete", "shutdown", "events"]
    return [
        {"spec": sandbox, "steps": ["start", "connect", "create", "run", "state"], "options": dict(LCOW)},
        draw(_scenario(member, dict(LCOW))),
        {"spec": sandbox, "steps": end, "options": dict(LCOW)},
    ]
