"""What stands in for the container of a sandbox that has none.

The task API knows nothing but containers with a first process. So a sandbox that is only a place (a utility VM, or
nothing but the pod's name on a host) has a process that does not exist, with pid 1, which runs until it is sent any
signal (status 0) or its place is lost (status 1), in a system that has nothing to tell.
"""

from __future__ import annotations

from shim.container.base import BaseContainer
from shim.hcs_bindings.errors import NOT_SUPPORTED, HcsError
from shim.oci.errors import UNIMPLEMENTED, InvalidSpec
from shim.platform.exit_event import ExitEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.oci.section import Section

    Document = dict[str, Any]

PID = 1
ENDED = 0
LOST = 1


class NullContainer(BaseContainer):
    """A sandbox of process isolation: its workloads live on the host, and there is nothing else to it."""

    def __init__(self, id: str, warn: Callable[[str], object]) -> None:
        super().__init__(id, warn)
        self.system = NullSystem(id)

    def start(self) -> None:
        """There is nothing to start."""

    def init_parameters(self, **_: object) -> Document:
        return {}

    def exec_parameters(
        self, process: Section, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None = None
    ) -> Document:
        raise InvalidSpec(f"sandbox {self.id!r} has no container: nothing can run in it", UNIMPLEMENTED)

    def create_process(self, parameters: Document) -> NullProcess:
        return NullProcess()

    def on_exit(self, callback: Callable[[], object]) -> None:
        """Nothing can happen to it."""

    def _stop(self) -> bool:
        return True  # nothing runs in it

    def _teardown(self, stopped: bool) -> None:
        """It holds nothing."""


class NullProcess(ExitEvent):
    pid = PID

    def __init__(self) -> None:
        super().__init__()
        self.stdin: int | None = None
        self.stdout: int | None = None
        self.stderr: int | None = None

    def signal(self, options: Document) -> bool:
        return self.finish(ENDED)

    def terminate(self, timeout: float | None = None) -> bool:
        return self.finish(ENDED)

    def lose(self) -> None:
        """What it stood for is gone."""
        self.finish(LOST)

    def modify(self, settings: Document, timeout: float | None = None) -> None:
        """There is nothing to modify, and nobody who would notice."""

    def close(self) -> None:
        """Nothing is held."""


class NullSystem:
    """There is no container to ask."""

    def __init__(self, id: str) -> None:
        self._id = id

    def properties(self, *types: str, timeout: float | None = None) -> Document:
        return {"ProcessList": [{"ProcessId": PID}]} if "ProcessList" in types else {}

    def modify(self, request: Document, timeout: float | None = None) -> None:
        raise self._cannot("modify")

    def pause(self) -> None:
        raise self._cannot("pause")

    def resume(self) -> None:
        raise self._cannot("resume")

    def _cannot(self, verb: str) -> HcsError:
        return HcsError(NOT_SUPPORTED, f"{verb} {self._id}", detail="the sandbox has no container of its own")
