"""Strategies for cases: specs, options, annotations and sequences of calls, in the format of `tests.parity.scenarios`.

A case must give the same result in every run with the same shim. So its init runs until it is killed, and each kill is
followed by a wait. Two calls at the same time (`pair`) are such that their order does not change a response.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from shim.oci.annotations import container, vm
from shim.oci.annotations.schema import APPLIED, TEXT
from shim.oci.annotations.table import module_rows
from tests.parity.scenarios import EXEC, HYPERVISOR, SLEEP

# Annotations that name files or systems are cases of `tests.parity.scenarios`. Microsoft's shim has no ShimScope.
_NOT_GENERATED = (
    "io.kubernetes.", "microsoft.com/", "kerneldrivers", "service-table", "sandbox-os-version", "-id", ".id",
    "shim-scope",
)  # fmt: skip
VALUES = ("true", "false", "True", "1", "0", "2", "", "abc", "100", "512", "10000", "4294967296", "1.5", " 1")


def generated_annotations(*modules: ModuleType) -> list[str]:
    return sorted(
        name
        for module in modules
        for name, row in module_rows(module).items()
        if row.kind is not TEXT and row.outcome == APPLIED and not any(part in name for part in _NOT_GENERATED)
    )


_PIPE = "\\\\.\\pipe\\docker_engine"
_NUMBERS = (0, 1, 2, 4, 100, 5000, 10000, 10001)
_MEMORY = (0, 1, 1 << 20, (1 << 20) + 1, 256 << 20, 1 << 30, 1 << 62)

processes = st.fixed_dictionaries(
    {"args": st.sampled_from([SLEEP["args"], [*SLEEP["args"], 'a "b" c', "", "d\\"]])},
    optional={
        "cwd": st.sampled_from(["C:\\", "C:\\windows", "", "C:/windows", "C:\\none"]),
        "env": st.lists(st.sampled_from(["A=b", "A=c", "C=", "E", "F=g=h", "PATH=C:\\"]), max_size=4),
        "user": st.sampled_from([{"username": name} for name in ("ContainerUser", "ContainerAdministrator", "")]),
        "consoleSize": st.sampled_from([{"height": 25, "width": 80}, {"height": 0, "width": 0}]),
    },
)
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
)  # fmt: skip
in_vm_options = st.fixed_dictionaries(
    {name: st.just(value) for name, value in HYPERVISOR.items()},
    optional={
        "vmProcessorCount": st.sampled_from([1, 2, 4]),
        "vmMemorySizeInMb": st.sampled_from([512, 1000, 2048]),
        "scaleCpuLimitsToSandbox": st.booleans(),
    },
)


@st.composite
def annotations(draw: st.DrawFn, in_vm: bool) -> dict[str, str]:
    names = generated_annotations(container, *((vm,) if in_vm else ()))
    return draw(st.dictionaries(st.sampled_from(names), st.sampled_from(VALUES), max_size=3))


# Calls of two clients at the same time.
_PAIRS = (
    "state&pids", "state&stats", "pids&stats", "update&state", "update&stats", "update&pids", "connect&stats",
    "checkpoint&state", "resume&stats", "resize&state", "closeio&pids",
)  # fmt: skip
_EXEC_PAIRS = (
    ("exec:e3&exec:e4", "exec:e3&state", "exec:e3&pids", "exec:e3&stats"),
    ("run:e3&run:e4", "run:e3&stats", "run:e3&state", "run:e3&update", "run:e3&kill:e4,9"),
    ("kill:e3,9&kill:e4,9", "kill:e3,9&stats", "kill:e3,9&update"),
    ("delete:e3&delete:e4", "delete:e3&state", "delete:e3&stats"),
)


@st.composite
def pairs(draw: st.DrawFn) -> list[str]:
    """Two different calls at the same time, while the init runs: one pair, or a pair in each state of two execs."""
    if draw(st.booleans()):
        return [f"pair:{draw(st.sampled_from(_PAIRS))}"]
    execs, runs, kills, deletes = (draw(st.sampled_from(choice)) for choice in _EXEC_PAIRS)
    found = [f"pair:{execs}", *([] if "e4" in execs else ["exec:e4"]), f"pair:{runs}"]
    if "kill:e4" not in runs and "run:e4" not in runs:
        found.append("run:e4")
    found += [f"pair:{kills}", "wait:e3", *([] if "e4" in kills else ["kill:e4,9"]), "wait:e4", f"pair:{deletes}"]
    return found


@st.composite
def steps(draw: st.DrawFn, not_started: bool = True) -> list[str]:
    """Calls in the states that a task goes through: created, running, stopped, deleted."""
    anytime = ["state", "checkpoint", "resize", "closeio", "connect", "client"]
    found = ["start", "connect", "create", *draw(st.lists(st.sampled_from([*anytime, "exec:e0"]), max_size=2))]
    if not not_started or draw(st.sampled_from([True, True, True, True, False])):
        found.append(draw(st.sampled_from(["run", "run", "run", "both:run"])))
        found += _while_running(draw, [*anytime, "run", "delete", "pids", "stats", "resume", "update", "both:state"])
        if draw(st.sampled_from([True, False, False])):
            found += draw(pairs())
        found += ["kill:,9", "wait"]
        after = [*anytime, "kill:,9", "exec:e9", "run", "wait", "state:e1"]
        found += draw(st.lists(st.sampled_from(after), max_size=4))
    return [*found, "delete", "shutdown", "events"]


def _while_running(draw: st.DrawFn, calls: list[str]) -> list[str]:
    found: list[str] = []
    states = {"e1": "none", "e2": "none"}
    for _ in range(draw(st.integers(0, 8))):
        name = draw(st.sampled_from(sorted(states)))
        action = draw(st.sampled_from([*calls, "exec", "exec", "start", "start", "state", "kill", "delete", "resize"]))
        if action in calls and action not in ("state", "resize", "delete"):
            found.append(action)
        elif action == "kill":
            found.append(f"kill:{name},9")
            if states[name] != "none":
                found.append(f"wait:{name}")
                states[name] = "stopped"
        else:
            call = {"start": f"run:{name}"}.get(action, f"{action}:{name}")
            is_both = action == "start" and draw(st.sampled_from([True, False, False]))
            found.append(f"both:{call}" if is_both else call)
            after = {("none", "exec"): "created", ("created", "start"): "running"}
            deleted = action == "delete" and states[name] in ("created", "stopped")
            states[name] = "none" if deleted else after.get((states[name], action), states[name])
    # The exit of the container ends these in an order of its own.
    for name, state in states.items():
        found += [f"kill:{name},9", f"wait:{name}"] if state in ("created", "running") else []
    return found


@st.composite
def specs(draw: st.DrawFn, in_vm: bool) -> dict[str, Any]:
    windows: dict[str, Any] = {"layerFolders": None, "ignoreFlushesDuringBoot": draw(st.booleans())}
    for name, strategy in (("resources", resources), ("servicing", st.booleans())):
        if draw(st.booleans()):
            windows[name] = draw(strategy)
    if in_vm:
        windows["hyperv"] = {}
    process = {"user": {"username": "ContainerUser"}, "cwd": "C:\\", **draw(processes)}
    spec: dict[str, Any] = {"ociVersion": "1.1.0", "process": process, "root": {"path": ""}, "windows": windows}
    for name, strategy in (("annotations", annotations(in_vm)), ("mounts", mounts), ("hostname", st.just("host1"))):
        # Microsoft's shim crashes if a spec for a VM has no annotations.
        if draw(st.booleans()) or (in_vm and name == "annotations"):
            spec[name] = draw(strategy)
    return spec


_SLEEPING = {**EXEC, **SLEEP}
_EXECS = dict.fromkeys(("e0", "e1", "e2", "e3", "e4", "e9"), _SLEEPING)
_TYPE, _SANDBOX = "io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id"
# Calls of HCS that fail once, where both shims have to undo what they did before.
_FAULTS = (
    "ActivateLayer=0x80070015", "PrepareLayer=0x80070005", "GetLayerMountPath=0x80070005",
    "HcsCreateComputeSystem=0x80070005", "HcsCreateComputeSystem=0x80370110", "HcsStartComputeSystem=0x80070005",
    "HcsCreateProcess=0x80070005", "HcsCreateProcess=0x80070002", "HcsCreateComputeSystem=slow",
    "HcsStartComputeSystem=slow", "HcsCreateProcess=slow", "HcsTerminateComputeSystem=slow", "PrepareLayer=slow",
)  # fmt: skip


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """A container by itself."""
    in_vm = draw(st.sampled_from([False, False, False, True]))
    options = draw(in_vm_options) if in_vm else None
    return {"spec": draw(specs(in_vm)), "steps": draw(steps()), "options": options, "execs": _EXECS}


@st.composite
def failing_scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """A container with a valid spec, and a call of HCS that fails."""
    in_vm = draw(st.sampled_from([False, False, True]))
    options = dict(HYPERVISOR) if in_vm else None
    fail = draw(st.sampled_from(_FAULTS))
    return {"spec": plain(in_vm), "steps": draw(steps()), "options": options, "execs": _EXECS, "fail": fail}


@st.composite
def crashing_scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """The shim is killed, and containerd runs `delete`. Events that it had not sent are lost."""
    in_vm = draw(st.sampled_from([False, False, True]))
    options = dict(HYPERVISOR) if in_vm else None
    before = draw(st.sampled_from([[], ["run"], ["run", "exec:e1", "run:e1"], ["run", "kill:,9", "wait"]]))
    found = ["start", "connect", "create", *before, "killshim", "deletecmd"]
    return {"spec": plain(in_vm), "steps": found, "options": options, "execs": _EXECS}


@st.composite
def pods(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A sandbox, a container in it, and the stop of the sandbox. `POD` stands for its id. A second container would show
    what Microsoft's shim has leaked if the first was refused."""
    in_vm = draw(st.booleans())
    options = dict(HYPERVISOR) if in_vm else None
    sandbox = {**plain(in_vm), "annotations": {_TYPE: "sandbox", _SANDBOX: "POD"}}
    found: list[dict[str, Any]] = [
        {"spec": sandbox, "steps": ["start", "connect", "create", "run", "state"], "options": options}
    ]
    spec = draw(specs(in_vm))
    spec["annotations"] = {**spec.get("annotations", {}), _TYPE: "container", _SANDBOX: "POD"}
    found.append({"spec": spec, "steps": draw(steps()), "options": options, "execs": _EXECS})
    end = ["attach", "connect", "kill:,9", "wait", "delete", "shutdown", "events"]
    return [*found, {"spec": sandbox, "steps": end, "options": options}]


def plain(in_vm: bool) -> dict[str, Any]:
    """A spec that both shims accept."""
    windows = {"layerFolders": None, "ignoreFlushesDuringBoot": True, **({"hyperv": {}} if in_vm else {})}
    process = {"user": {"username": "ContainerUser"}, "cwd": "C:\\", **SLEEP}
    return {"ociVersion": "1.1.0", "process": process, "root": {"path": ""}, "windows": windows, "annotations": {}}
