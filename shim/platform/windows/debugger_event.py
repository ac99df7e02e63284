r"""Waits for a debugger to attach, at Create: for developers of the shim, who set the variable in containerd's service.

The event is `Global\debugger-<pid>`; `docker-signal` or a script sets it. As in Microsoft's shim
(https://github.com/microsoft/hcsshim/blob/main/cmd/containerd-shim-runhcs-v1/serve.go), but not for ever.
"""

from __future__ import annotations

import _winapi
import nt

from shim.platform.windows._system_cffi import ffi
from shim.platform.windows.security import administrators_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST_WAIT = 3600.0


def wait(log: Any) -> None:
    """Block until the event is set. An event that cannot be created is ignored."""
    from shim.platform.hcs_library import system_library

    kernel32: Any = ffi.dlopen(system_library("kernel32"))
    name = f"Global\\debugger-{nt.getpid()}"
    event = kernel32.CreateEventW(ffi.cast("void *", administrators_only()), 0, 0, name)
    if event == ffi.NULL:
        return
    handle = int(ffi.cast("uintptr_t", event))
    try:
        log.info("Halting until signalled", event=name)
        if _winapi.WaitForSingleObject(handle, int(LONGEST_WAIT * 1000)):
            log.warning("no debugger has signalled the event: the shim continues", event=name)
    finally:
        _winapi.CloseHandle(handle)
