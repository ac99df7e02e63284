"""Hyper-V sockets with Winsock: the address is the VM's runtime id and the service's GUID
(https://learn.microsoft.com/en-us/virtualization/hyper-v-on-windows/user-guide/make-integration-service).

Winsock is loaded with the first socket: a shim without a VM needs none.
"""

from __future__ import annotations

from shim.platform.hvsocket_stream import Stream, shut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import Any

AF_HYPERV = 34
HV_PROTOCOL_RAW = 1
BACKLOG = 16
_READ_WRITE = 0xC0000000
_CREATE_NEW = 1
_INVALID_HANDLE = 0xFFFFFFFFFFFFFFFF
_UPDATE = 0x21C004
# The GUID is that of a compartment within the VM.
_PASS_THROUGH = 1


class Listener:
    """Listens for one service of one VM. `close` wakes a thread that blocks in `accept`."""

    __slots__ = ("_socket", "service_id")

    def __init__(self, listening: socket, service_id: str) -> None:
        self._socket = listening
        self.service_id = service_id

    def accept(self, timeout: float | None) -> Stream:
        """The next connection. TimeoutError when none comes in time, OSError when the listener was closed."""
        from _socket import SOCK_STREAM, socket

        self._socket.settimeout(timeout)
        descriptor, _ = self._socket._accept()  # type: ignore[attr-defined]
        connection = socket(AF_HYPERV, SOCK_STREAM, HV_PROTOCOL_RAW, descriptor)
        connection.settimeout(None)
        return Stream(connection)

    def close(self) -> None:
        shut(self._socket)


def listen(vm_id: str, service_id: str) -> Listener:
    """Raises OSError, for example if there is no such VM."""
    from _socket import SOCK_STREAM, socket

    listening = socket(AF_HYPERV, SOCK_STREAM, HV_PROTOCOL_RAW)
    try:
        listening.bind((vm_id, service_id))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return Listener(listening, service_id)


class AddressInfo:
    r"""An entry of the Hyper-V socket driver: connections to the GUID of a container go to that container in its VM, so
    that programs of the host reach its sockets. It exists as long as the handle
    (https://github.com/microsoft/hcsshim/blob/main/internal/hvsocket/hvsocket.go)."""

    __slots__ = ("_handle",)

    def __init__(self, system_id: str, vm_id: str) -> None:
        """Raises OSError."""
        from shim.platform.hcs_library import system_library
        from shim.platform.windows._system_cffi import ffi

        path = f"\\\\.\\HvSocketSystem\\AddressInfo\\{{{system_id}}}"
        kernel32: Any = ffi.dlopen(system_library("kernel32"))
        device = kernel32.CreateFileW(path, _READ_WRITE, 0, ffi.NULL, _CREATE_NEW, 0, ffi.NULL)
        self._handle = int(ffi.cast("uintptr_t", device))
        if self._handle == _INVALID_HANDLE:
            code, message = ffi.getwinerror()
            raise OSError(code, f"{path} cannot be opened: {message}")
        data = address_info(system_id, vm_id)
        used = ffi.new("uint32_t *")
        if not kernel32.DeviceIoControl(device, _UPDATE, data, len(data), ffi.NULL, 0, used, ffi.NULL):
            code, message = ffi.getwinerror()
            self.close()
            raise OSError(code, f"the address of {system_id} cannot be set: {message}")

    def close(self) -> None:
        import _winapi

        handle, self._handle = self._handle, 0
        if handle:
            _winapi.CloseHandle(handle)


def address_info(system_id: str, vm_id: str) -> bytes:
    """The driver's structure: GUIDs of the system, its VM and its silo (none), and flags."""
    return _guid(system_id) + _guid(vm_id) + bytes(16) + _PASS_THROUGH.to_bytes(4, "little")


def _guid(text: str) -> bytes:
    first, second, third, *rest = text.strip("{}").split("-")
    swapped = b"".join(bytes.fromhex(part)[::-1] for part in (first, second, third))
    return swapped + bytes.fromhex("".join(rest))
