"""Strategies for host process containers: jobs of processes of the host."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.differential.scenarios import resources, steps
from tests.parity.scenarios import EXEC, FOREVER

HOST_PROCESS = "microsoft.com/hostprocess-container"
INHERIT_USER = "microsoft.com/hostprocess-inherit-user"
ROOT_LOCATION = "microsoft.com/hostprocess-rootfs-location"
_USER = {"username": "NT AUTHORITY\\SYSTEM"}
_EXEC = {**EXEC, **FOREVER, "user": _USER}
_EXECS = dict.fromkeys(("e0", "e1", "e2", "e3", "e4", "e9"), _EXEC)

annotations = st.fixed_dictionaries(
    {HOST_PROCESS: st.sampled_from(["true", "true", "true", "True", "1", "abc"]), INHERIT_USER: st.just("true")},
    optional={ROOT_LOCATION: st.sampled_from(["C:\\hpc", "C:\\hpc\\deep", "C:/hpc"])},
)
processes = st.fixed_dictionaries(
    {"args": st.just(FOREVER["args"])},
    optional={
        "cwd": st.sampled_from(["C:\\", "C:\\windows", ""]),
        "env": st.lists(st.sampled_from(["A=b", "A=c", "C=", "E", "F=g=h"]), max_size=3),
    },
)


@st.composite
def host_process_scenarios(draw: st.DrawFn) -> dict[str, Any]:
    process = {"user": _USER, "cwd": "C:\\", **draw(processes)}
    windows: dict[str, Any] = {"layerFolders": None, "ignoreFlushesDuringBoot": True}
    if draw(st.booleans()):
        # Wine lacks the function for limits of storage, and without it Microsoft's shim exits.
        windows["resources"] = {name: part for name, part in draw(resources).items() if name != "storage"}
    spec = {
        "ociVersion": "1.1.0", "process": process, "root": {"path": ""}, "windows": windows,
        "annotations": draw(annotations),
    }  # fmt: skip
    return {"spec": spec, "steps": draw(steps()), "options": None, "execs": _EXECS}
