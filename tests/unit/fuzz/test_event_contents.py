"""The comparison of the contents of events: by process, with the exit status, without pids and times."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shim.api.events import TaskCreate, TaskDelete, TaskExecAdded, TaskExit
from shim.api.types import Mount
from shim.api.wellknown import Timestamp
from tests.parity import compare
from tests.parity.answers import EVENT_CONTENTS, event_contents, recorded


def exit_of(process: str, status: int, pid: int = 5, container: str = "c1") -> tuple[str, Any]:
    at = Timestamp(seconds=1, nanos=pid)
    return "exit", TaskExit(container_id=container, id=process, pid=pid, exit_status=status, exited_at=at)


DELETED = ("delete", TaskDelete(container_id="c1", pid=5, exit_status=3))
ADDED = ("exec-added", TaskExecAdded(container_id="c1", exec_id="e1"))
THEIRS = [ADDED, exit_of("e1", 7), exit_of("c1", 3), DELETED]


def differences(ours: list[tuple[str, Any]]) -> list[str]:
    answers = [{"op": EVENT_CONTENTS, "answer": event_contents("c1", messages)} for messages in (THEIRS, ours)]
    return compare.answers([answers[0]], [answers[1]])


@pytest.mark.parametrize(
    ("ours", "found"),
    [
        (THEIRS, []),
        ([ADDED, exit_of("c1", 3, pid=9), DELETED, exit_of("e1", 7, pid=8)], []),  # another order, pids and times
        ([*THEIRS, exit_of("c2", 1, container="c2")], []),  # of another task
        ([ADDED, exit_of("e1", 0), *THEIRS[2:]], ["e1.exit.exitStatus is missing"]),
        ([ADDED, exit_of("e1", 7, pid=0), *THEIRS[2:]], ["e1.exit.pid is missing"]),
        ([*THEIRS[:2], DELETED, exit_of("c1", 3)], ['init.order is "exit delete", here "delete exit"']),
        (THEIRS[1:], ["e1.exec-added is missing", 'e1.order is "exec-added exit", here "exit"']),
    ],
)
def test_difference_names_process_and_member(ours: list[tuple[str, Any]], found: list[str]) -> None:
    assert differences(ours) == [f"{EVENT_CONTENTS}: {line}" for line in found]


def test_second_event_of_a_kind_is_a_difference() -> None:
    lines = differences([*THEIRS, exit_of("c1", 3)])
    assert [line.partition(" is ")[0] for line in lines] == [
        f"{EVENT_CONTENTS}: init.exit again",
        f"{EVENT_CONTENTS}: init.order",
    ]


def test_recorded_contents_are_those_of_the_driver() -> None:
    """Also layers, whose paths are JSON in an option."""
    mount = Mount(type="windows-layer", source="C:\\s", options=["rw", 'parentLayerPaths=["C:\\\\a", "C:\\\\b"]'])
    found = event_contents("c1", [("create", TaskCreate(container_id="c1", bundle="C:\\x\\c1", rootfs=[mount]))])
    assert found["init"]["create"]["rootfs"][0]["options"] == ["rw", {"parentLayerPaths": ["C:\\a", "C:\\b"]}]
    assert found["init"]["create"]["bundle"] == "c1"
    assert recorded({"op": EVENT_CONTENTS, "result": json.dumps(found)})["answer"] == found
