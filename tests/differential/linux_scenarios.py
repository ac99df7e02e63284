"""Strategies for Linux containers in utility VMs: specs, options, annotations, mounts, pods, faults."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from shim.oci.annotations import linux, vm
from tests.differential.scenarios import VALUES, generated_annotations, steps
from tests.parity.lcow_specs import LCOW, NAMESPACE, NO_MULTI_MAPPING, SLEEP, bind, process, spec

_SLEEPING = process(*SLEEP["args"])
_EXECS = dict.fromkeys(("e0", "e1", "e2", "e3", "e4", "e9"), _SLEEPING)
_TYPE, _SANDBOX = "io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id"
# Boot files and layers on other devices are cases of `tests.parity.lcow_scenarios`.
_NOT_GENERATED = ("bootfiles", "kerneldirectboot", "preferredrootfstype", "nomultimapping", "virtualpmem", "isolation")
_ANNOTATIONS = [
    name for name in generated_annotations(linux, vm) if not any(part in name for part in _NOT_GENERATED)
]  # fmt: skip
# Requests of the guest, and calls of HCS, that fail or are slow, or during which the VM crashes.
FAULTS = (
    "guest:Create=crash", "guest:ExecuteProcess=crash", "HcsCreateComputeSystem=0x80070005",
    "HcsStartComputeSystem=0x80070005", "HcsModifyComputeSystem=0x80070005", "HcsModifyComputeSystem=0x80070005@2",
    "HcsGrantVmAccess=0x80070005", "HcsStartComputeSystem=slow", "HcsModifyComputeSystem=slow",
)  # fmt: skip

processes = st.fixed_dictionaries(
    {},
    optional={
        "cwd": st.sampled_from(["/", "/etc", "/none"]),
        "env": st.lists(st.sampled_from(["A=b", "A=c", "C=", "PATH=/bin"]), max_size=3),
        "user": st.sampled_from([{"uid": 0, "gid": 0}, {"uid": 1, "gid": 1}, {"uid": 1000, "gid": 5}]),
        "noNewPrivileges": st.booleans(),
    },
)
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
    members: dict[str, Any] = {"process": {**SLEEP, **draw(processes)}, "annotations": {NO_MULTI_MAPPING: "true"}}
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
def linux_steps(draw: st.DrawFn) -> list[str]:
    """Few without Start: Microsoft's shim then waits 30 seconds in Delete."""
    return draw(steps(not_started=draw(st.sampled_from([True, *[False] * 9]))))


@st.composite
def linux_scenarios(draw: st.DrawFn) -> dict[str, Any]:
    return {"spec": draw(linux_specs()), "steps": draw(linux_steps()), "options": draw(options), "execs": _EXECS}


@st.composite
def failing_linux_scenarios(draw: st.DrawFn) -> dict[str, Any]:
    plain = spec(process=dict(SLEEP), annotations={NO_MULTI_MAPPING: "true"})
    fault = draw(st.sampled_from(FAULTS))
    return {"spec": plain, "steps": draw(linux_steps()), "options": dict(LCOW), "execs": _EXECS, "fail": fault}


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
    begin = ["start", "connect", "create", "run", "state"]
    end = ["attach", "connect", "kill:,9", "wait", "delete", "shutdown", "events"]
    return [
        {"spec": sandbox, "steps": begin, "options": dict(LCOW)},
        {"spec": member, "steps": draw(linux_steps()), "options": dict(LCOW), "execs": _EXECS},
        {"spec": sandbox, "steps": end, "options": dict(LCOW)},
    ]
