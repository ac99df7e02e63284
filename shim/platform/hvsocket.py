"""Hyper-V sockets: the host's end of the connections that a utility VM's guest makes.

A service is known by the VM's runtime id and a GUID. Where HCS is emulated, a Unix socket of that name in the
emulator's directory stands in for it; on Windows it is an address of the family AF_HYPERV.

    listener = listen(vm_id, service_id)
    stream = listener.accept(timeout)      # recv, sendall, close; `detach` gives the descriptor
"""

from __future__ import annotations

import sys

from shim.platform.hvsocket_stream import Stream

if sys.platform == "win32":
    from shim.platform.windows.hvsocket import Listener, listen
else:
    from shim.platform.linux.hvsocket import Listener, listen

__all__ = ["Listener", "Stream", "listen"]
