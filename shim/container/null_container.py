"""The container of a sandbox that has none.

In the task API every task is a container with an init. A sandbox without a container (a utility VM, or the name of a
pod on the host) has an init that does not exist, with pid 1. It runs until it is sent any signal (status 0) or its VM
exits (status 1). Its compute system has no stats.
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
EXIT_SIGNALLED = 0
EXIT_LOST = 1


class NullContainer(BaseContainer):
    """The sandbox of a process-isolated pod: its workloads run on the host, and it holds nothing."""

    def __init__(self, id: str, warn: Callable[[str], object]) -> None:
        super().__init__(id, warn)
        self.system = NullSystem(id)

    def start(self) -> None:
        """It has nothing to start."""

    def init_parameters(self, **_: object) -> Document:
        return {}

    def exec_parameters(
        self, process: Section, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None = None
    ) -> Document:
        raise InvalidSpec(f"sandbox {self.id!r} has no container: nothing can run in it", UNIMPLEMENTED)

    def create_process(self, parameters: Document) -> NullProcess:
        return NullProcess()

    def on_exit(self, callback: Callable[[], object]) -> None:
        """It cannot exit by itself."""

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
        return self.finish(EXIT_SIGNALLED)

    def terminate(self, timeout: float | None = None) -> bool:
        return self.finish(EXIT_SIGNALLED)

    def mark_lost(self) -> None:
        """The VM of the sandbox has exited."""
        self.finish(EXIT_LOST)

    def modify(self, settings: Document, timeout: float | None = None) -> None:
        """It has no console."""

    def close(self) -> None:
        """It has no handle."""


class NullSystem:
    """The compute system of a NullContainer."""

    def __init__(self, id: str) -> None:
        self._id = id

    def properties(self, *types: str, timeout: float | None = None) -> Document:
        return {"ProcessList": [{"ProcessId": PID}]} if "ProcessList" in types else {}

    def modify(self, request: Document, timeout: float | None = None) -> None:
        raise self._not_supported("modify")

    def pause(self) -> None:
        raise self._not_supported("pause")

    def resume(self) -> None:
        raise self._not_supported("resume")

    def _not_supported(self, verb: str) -> HcsError:
        return HcsError(NOT_SUPPORTED, f"{verb} {self._id}", detail="the sandbox has no container of its own")
