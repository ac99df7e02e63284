"""A job, where a task expects a compute system: figures, processes, and what can be changed while it runs."""

from __future__ import annotations

from shim.hcs_bindings.errors import INVALID_STATE, NOT_SUPPORTED, HcsError
from shim.hostprocess import limits
from shim.hostprocess.errors import as_hcs_error
from shim.hostprocess.mounts import HostMount
from shim.platform import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.platform.job_types import Job, Limits

    Document = dict[str, Any]

MEMORY = "Container/Memory/SizeInMB"
PROCESSOR = "Container/Processor"
DIRECTORIES = "Container/MappedDirectories"
MIB = 1 << 20


class JobSystem:
    def __init__(self, id: str, job: Job, bounds: Limits, show: Callable[[HostMount], None]) -> None:
        """`show` makes a mount."""
        self._id = id
        self._job = job
        self._bounds = bounds
        self._show = show
        #: No process is left, and there never will be one.
        self.over = False

    def properties(self, *types: str, timeout: float | None = None) -> Document:
        if self.over:
            raise HcsError(INVALID_STATE, f"figures of {self._id}", detail="the container has ended")
        answer: Document = {}
        with as_hcs_error(f"figures of {self._id}"):
            if "Statistics" in types:
                answer["Statistics"] = self._job.statistics()
            if "ProcessList" in types:
                answer["ProcessList"] = self._job.process_list()
        return answer

    def modify(self, request: Document, timeout: float | None = None) -> None:
        path, settings = request["ResourcePath"], request["Settings"]
        with as_hcs_error(f"modify {path} of {self._id}"):
            if path == MEMORY:
                self._bounds.memory = settings * MIB
                self._job.set_limits(self._bounds)
            elif path == PROCESSOR:
                limits.set_processor(self._bounds, settings, host.processors())
                self._job.set_limits(self._bounds)
            elif path == DIRECTORIES and request["RequestType"] == "Add":
                self._show(HostMount(settings["HostPath"], settings["ContainerPath"], bool(settings.get("ReadOnly"))))
            else:
                raise self._cannot(f"modify {path}")

    def pause(self) -> None:
        raise self._cannot("pause")

    def resume(self) -> None:
        raise self._cannot("resume")

    def _cannot(self, what: str) -> HcsError:
        return HcsError(NOT_SUPPORTED, f"{what} of {self._id}", detail="it is a host process container")
