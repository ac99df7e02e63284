"""The sandbox of a pod of host process containers. It holds only annotations that its containers inherit.

The containers share the host's network and nothing else, so no container has to hold anything for them.
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

INHERITED = (names.HOST_PROCESS_INHERIT_USER, names.HOST_PROCESS_ROOT)


class HostProcessSandbox(NullContainer):
    def __init__(self, id: str, spec: Spec, warn: Callable[[str], object]) -> None:
        super().__init__(id, warn)
        self.system = _IdleSystem(id)
        self._annotations = {key: spec.annotations.text(key) for key in INHERITED if key in spec.annotations}

    def admit(self, id: str, spec: Spec) -> None:
        """A container that joins must be a host process container. It inherits the pod's user and root directory."""
        if not spec.is_host_process:
            raise InvalidSpec(
                f"container {id!r} is to join pod {self.id!r}, whose containers are host processes and have the host's "
                f"network: set annotation {names.HOST_PROCESS} on it too, or on neither"
            )
        for key, value in self._annotations.items():
            spec.annotations.set(key, value)


class _IdleSystem(NullSystem):
    """Its stats are empty: clients request stats of every sandbox."""

    def properties(self, *types: str, timeout: float | None = None) -> Document:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S.0000000Z", time.gmtime())
        answer: Document = {"Statistics": {"Timestamp": moment}} if "Statistics" in types else {}
        return {**answer, "ProcessList": [{"ProcessId": PID}]} if "ProcessList" in types else answer
