"""The compute libraries: each DLL is loaded, and each function looked up, with its first call.

Windows builds differ in what their DLLs export, and a missing function must not affect the others: its call fails with
ERROR_PROC_NOT_FOUND and the function's name. `shim.platform` knows the paths of the libraries.
"""

from __future__ import annotations

from shim import observers, spans
from shim.hcs_bindings import errors
from shim.hcs_bindings._hcs_cffi import ffi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.hcs_bindings.protocols import (
        CimFs,
        ComputeCore,
        ComputeNetwork,
        ComputeStorage,
        Kernel32,
        Ntdll,
        Ole32,
        VirtDisk,
        VmCompute,
    )


class Library:
    """One DLL. A function becomes an attribute when it is first looked up."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._handle: Any = None

    def _load(self) -> Any:
        if self._handle is None:
            from shim.platform.hcs_library import hcs_library

            path = hcs_library(self._name)
            try:
                self._handle = ffi.dlopen(path)
            except OSError as cause:
                raise errors.HcsError(errors.MODULE_NOT_FOUND, f"load {path}", detail=str(cause)) from cause
        return self._handle

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            function = getattr(self._load(), name)
        except (AttributeError, ffi.error) as cause:
            raise errors.HcsError(errors.PROCEDURE_NOT_FOUND, f"{self._name}!{name}") from cause
        if observers.call is not None:
            function = observers.call(name, function)
        function = spans.traced(spans.HCS + name, function)
        setattr(self, name, function)
        return function

    def reset(self) -> None:
        """Look functions up again: those that a standby has looked up are neither traced nor recorded."""
        for name in [name for name in list(self.__dict__) if not name.startswith("_")]:
            self.__dict__.pop(name, None)  # another thread may do the same


if TYPE_CHECKING:
    computecore: ComputeCore
    computestorage: ComputeStorage
    computenetwork: ComputeNetwork
    vmcompute: VmCompute
    cimfs: CimFs
    kernel32: Kernel32
    ntdll: Ntdll
    ole32: Ole32
    virtdisk: VirtDisk
else:
    computecore = Library("computecore")
    computestorage = Library("computestorage")
    computenetwork = Library("computenetwork")
    vmcompute = Library("vmcompute")
    cimfs = Library("cimfs")
    kernel32 = Library("kernel32")
    ntdll = Library("ntdll")
    ole32 = Library("ole32")
    virtdisk = Library("virtdisk")


def reset() -> None:
    for library in (computecore, computestorage, computenetwork, vmcompute, cimfs, kernel32, ntdll, ole32, virtdisk):
        if isinstance(library, Library):
            library.reset()


def has(library: object, function: str) -> bool:
    """Whether this Windows build exports the function."""
    try:
        getattr(library, function)
    except errors.HcsError as error:
        if error.code == errors.PROCEDURE_NOT_FOUND:
            return False
        raise
    return True
