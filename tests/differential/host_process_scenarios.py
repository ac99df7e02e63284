"""Strategies for host process containers: jobs of processes of the host."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.differential.scenarios import resources, updates
from tests.differential.sequences import EXITING, HOST, HOST_USER, MISSING, SLEEPING, execs, exit_codes, kind_of, steps

HOST_PROCESS = "microsoft.com/hostprocess-container"
INHERIT_USER = "microsoft.com/hostprocess-inherit-user"
ROOT_LOCATION = "microsoft.com/hostprocess-rootfs-location"
#: Stands for the id of the task.
TASK = "TASK-ID"

annotations = st.fixed_dictionaries(
    {HOST_PROCESS: st.sampled_from(["true", "true", "true", "True", "1", "abc"]), INHERIT_USER: st.just("true")},
    # Without the bind filter two containers cannot have the same location.
    optional={ROOT_LOCATION: st.sampled_from([f"C:\\hpc-{TASK}", f"C:\\hpc\\{TASK}\\deep", f"C:/{TASK}"])},
)
# Wine mounts no volume at the root of the container. Another working directory is then created in the directory of the
# mount point, which Microsoft's shim cannot remove, and so it does not release the layers.
_MEMBERS = {
    "cwd": st.sampled_from(["C:\\", ""]),
    "env": st.lists(st.sampled_from(["A=b", "A=c", "C=", "E", "F=g=h"]), max_size=3),
}
processes = st.fixed_dictionaries({}, optional=_MEMBERS)
_REFUSED = ({"maximum": 10001}, {"count": 1, "shares": 10}, {"count": 2, "maximum": 100}, {"shares": 1, "maximum": 1})


@st.composite
def host_process_scenarios(draw: st.DrawFn) -> list[dict[str, Any]]:
    kind = draw(st.sampled_from([*[SLEEPING] * 6, *[EXITING] * 3, MISSING]))
    arguments = HOST.arguments(kind, draw(exit_codes))
    process = {"user": HOST_USER, "cwd": "C:\\", **draw(processes), "args": arguments}
    windows: dict[str, Any] = {"layerFolders": None, "ignoreFlushesDuringBoot": True}
    if draw(st.booleans()):
        # Wine limits no processors of a job: only limits that the shims refuse are compared. It lacks the function for
        # limits of storage, and without it Microsoft's shim exits.
        windows["resources"] = {name: part for name, part in draw(resources).items() if name == "memory"}
        windows["resources"] |= draw(st.sampled_from([{}, {}, *({"cpu": cpu} for cpu in _REFUSED)]))
    spec = {
        "ociVersion": "1.1.0", "process": process, "root": {"path": ""}, "windows": windows,
        "annotations": draw(annotations),
    }  # fmt: skip
    others = draw(execs(HOST, processes))
    kinds = {name: kind_of(HOST, one) for name, one in others.items()}
    # Few without Start: Microsoft's shim then waits 30 seconds in Delete.
    calls = draw(steps(kinds, kind, draw(st.sampled_from([True, *[False] * 9]))))
    return [{"spec": spec, "steps": calls, "options": None, "execs": others, "updates": draw(updates)}]
