"""A container in a VM as a compute system: what tasks ask of one on the host."""

from __future__ import annotations

from shim.hcs_bindings.errors import NOT_SUPPORTED, HcsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.uvm.container import VmContainer

    Document = dict[str, Any]


class VmContainerSystem:
    def __init__(self, container: VmContainer) -> None:
        self._container = container

    def properties(self, *types: str, timeout: float | None = None) -> Document:
        return self._container.vm.guest.properties(self._container.id, *types, timeout=timeout)

    def modify(self, request: Document, timeout: float | None = None) -> None:
        if request.get("ResourcePath") == "Container/MappedDirectories" and request.get("RequestType") == "Add":
            self._container.add_directory(request["Settings"], timeout)
        else:
            self._container.vm.guest.modify(self._container.id, request, timeout)

    def pause(self) -> None:
        raise self._cannot("pause")

    def resume(self) -> None:
        raise self._cannot("resume")

    def _cannot(self, verb: str) -> HcsError:
        return HcsError(NOT_SUPPORTED, f"{verb} {self._container.id}", detail="containers in a VM cannot be paused")
