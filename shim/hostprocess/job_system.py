"""A job as a compute system: stats, the list of processes, and updates."""

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
    def __init__(self, id: str, job: Job, job_limits: Limits, mount: Callable[[HostMount], None]) -> None:
        """`mount` adds a mount."""
        self._id = id
        self._job = job
        self._limits = job_limits
        self._mount = mount
        #: No process is left, and none can be started.
        self.stopped = False

    def properties(self, *types: str, timeout: float | None = None) -> Document:
        if self.stopped:
            raise HcsError(INVALID_STATE, f"properties of {self._id}", detail="the container has exited")
        answer: Document = {}
        with as_hcs_error(f"properties of {self._id}"):
            if "Statistics" in types:
                answer["Statistics"] = self._job.statistics()
            if "ProcessList" in types:
                answer["ProcessList"] = self._job.process_list()
        return answer

    def modify(self, request: Document, timeout: float | None = None) -> None:
        path, settings = request["ResourcePath"], request["Settings"]
        with as_hcs_error(f"modify {path} of {self._id}"):
            if path == MEMORY:
                self._limits.memory = settings * MIB
                self._job.set_limits(self._limits)
            elif path == PROCESSOR:
                limits.set_processor(self._limits, settings, host.processors())
                self._job.set_limits(self._limits)
            elif path == DIRECTORIES and request["RequestType"] == "Add":
                self._mount(HostMount(settings["HostPath"], settings["ContainerPath"], bool(settings.get("ReadOnly"))))
            else:
                raise self._not_supported(f"modify {path}")

    def pause(self) -> None:
        raise self._not_supported("pause")

    def resume(self) -> None:
        raise self._not_supported("resume")

    def _not_supported(self, what: str) -> HcsError:
        return HcsError(NOT_SUPPORTED, f"{what} of {self._id}", detail="it is a host process container")
