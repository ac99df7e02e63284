"""The sandbox of a pod of host process containers: nothing but what its containers take over from it.

They share the host's network and have nothing else in common, so no container has to hold anything for them.
"""

from __future__ import annotations

import time

from shim.container.null_container import PID, NullContainer, NullSystem
from shim.oci.annotations import container as names
from shim.oci.errors import InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shim.oci.spec import Spec

    Document = dict[str, Any]

OF_THE_POD = (names.HOST_PROCESS_INHERIT_USER, names.HOST_PROCESS_ROOT)


class HostProcessSandbox(NullContainer):
    def __init__(self, id: str, spec: Spec, warn: Callable[[str], object]) -> None:
        super().__init__(id, warn)
        self.system = _Idle(id)
        self._annotations = {key: spec.annotations.text(key) for key in OF_THE_POD if key in spec.annotations}

    def admit(self, id: str, spec: Spec) -> None:
        """A container that joins: it must be of the same kind, and takes over whose rights and which place."""
        if not spec.is_host_process:
            raise InvalidSpec(
                f"container {id!r} is to join pod {self.id!r}, whose containers are host processes and have the host's "
                f"network: set annotation {names.HOST_PROCESS} on it too, or on neither"
            )
        for key, value in self._annotations.items():
            spec.annotations.set(key, value)


class _Idle(NullSystem):
    """It uses nothing, and says so: clients want figures of every sandbox."""

    def properties(self, *types: str, timeout: float | None = None) -> Document:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S.0000000Z", time.gmtime())
        answer: Document = {"Statistics": {"Timestamp": moment}} if "Statistics" in types else {}
        return {**answer, "ProcessList": [{"ProcessId": PID}]} if "ProcessList" in types else answer
