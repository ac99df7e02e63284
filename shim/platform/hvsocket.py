"""Hyper-V sockets: the host's end of the connections that a utility VM's guest makes.

A service is addressed by the VM's runtime id and a GUID. On Windows the address family is AF_HYPERV; where HCS is
emulated, the emulator provides Unix sockets of these names in its directory.

    listener = listen(vm_id, service_id)
    stream = listener.accept(timeout)      # recv, sendall, close; `detach` gives the descriptor
    address = AddressInfo(system_id, vm_id)  # until close, host programs reach a container's sockets by its GUID
"""

from __future__ import annotations

import sys

from shim.platform.hvsocket_stream import Stream

if sys.platform == "win32":
    from shim.platform.windows.hvsocket import AddressInfo, Listener, listen
else:
    from shim.platform.linux.hvsocket import AddressInfo, Listener, listen

__all__ = ["AddressInfo", "Listener", "Stream", "listen"]
