"""The calls into Windows that `runhcs install` makes: access control lists, the event log's registry, services.

pywin32 makes them, except for the registry, which Python has itself.
"""

from __future__ import annotations

import _winapi
import re
import shutil
import time
import winreg
from pathlib import Path
from typing import TYPE_CHECKING, Any

import win32security
import win32service

from runhcs.doctor import checks
from runhcs.install.installer import NAME_OF_SOURCE
from runhcs.install.interfaces import InstallError

if TYPE_CHECKING:
    from _win32typing import PySC_HANDLE, PySID

# Owner Administrators; full control for SYSTEM and Administrators, read and execute for Users. Protected: nothing is
# inherited, so that a permissive parent directory does not let other accounts write.
DIRECTORY_SECURITY = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)"
FILE_SECURITY = "O:BAD:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;0x1200a9;;;BU)"
# To write, append, delete, or change attributes, the list or the owner; GENERIC_WRITE and GENERIC_ALL.
WRITE_RIGHTS = 0x500D0156
# A program of Windows whose message table has a text for every event identifier up to 1000.
MESSAGE_FILE = r"%SystemRoot%\System32\EventCreate.exe"
SOURCE_KEY = rf"SYSTEM\CurrentControlSet\Services\EventLog\Application\{NAME_OF_SOURCE}"
# Errors, warnings and information.
EVENT_TYPES = 7
SERVICE_SECONDS = 120.0
POLL_SECONDS = 0.5

_ERROR_SHARING_VIOLATION = 32
_SECURITY = win32security.OWNER_SECURITY_INFORMATION | win32security.DACL_SECURITY_INFORMATION


class WindowsSystem:
    def is_administrator(self) -> bool:
        administrators = _sid(win32security.WinBuiltinAdministratorsSid)
        return bool(win32security.CheckTokenMembership(None, administrators))  # type: ignore[arg-type]  # this thread's

    def is_protected(self, path: Path) -> bool:
        """Whether the owner is right, nothing is inherited, and only SYSTEM and Administrators may write."""
        descriptor = win32security.GetNamedSecurityInfo(str(path), win32security.SE_FILE_OBJECT, _SECURITY)
        trusted = (_sid(win32security.WinBuiltinAdministratorsSid), _sid(win32security.WinLocalSystemSid))
        control = descriptor.GetSecurityDescriptorControl()[0]
        dacl = descriptor.GetSecurityDescriptorDacl()
        if dacl is None or not control & win32security.SE_DACL_PROTECTED:
            return False
        if descriptor.GetSecurityDescriptorOwner() not in trusted:
            return False
        entries = [dacl.GetAce(at) for at in range(dacl.GetAceCount())]
        return all(
            entry[0][0] != win32security.ACCESS_ALLOWED_ACE_TYPE or not entry[1] & WRITE_RIGHTS or entry[-1] in trusted
            for entry in entries
        )

    def protect(self, path: Path) -> None:
        text = DIRECTORY_SECURITY if path.is_dir() else FILE_SECURITY
        parsed = win32security.ConvertStringSecurityDescriptorToSecurityDescriptor(text, win32security.SDDL_REVISION_1)
        try:
            win32security.SetNamedSecurityInfo(
                str(path), win32security.SE_FILE_OBJECT, _SECURITY | win32security.PROTECTED_DACL_SECURITY_INFORMATION,
                parsed.GetSecurityDescriptorOwner(), None, parsed.GetSecurityDescriptorDacl(), None,
            )  # fmt: skip
        except win32security.error as error:
            raise InstallError(f"the access control list of {path} cannot be set: {error.strerror}") from None

    def is_in_use(self, path: Path) -> bool:
        try:
            handle = _winapi.CreateFile(str(path), _winapi.GENERIC_READ, 0, 0, _winapi.OPEN_EXISTING, 0, 0)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.winerror == _ERROR_SHARING_VIOLATION:
                return True
            raise
        _winapi.CloseHandle(handle)
        return False

    def has_event_source(self) -> bool:
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, SOURCE_KEY) as key:
                return bool(winreg.QueryValueEx(key, "EventMessageFile")[0] == MESSAGE_FILE)
        except FileNotFoundError:
            return False

    def add_event_source(self) -> None:
        with winreg.CreateKey(winreg.HKEY_LOCAL_MACHINE, SOURCE_KEY) as key:
            winreg.SetValueEx(key, "EventMessageFile", 0, winreg.REG_EXPAND_SZ, MESSAGE_FILE)
            winreg.SetValueEx(key, "TypesSupported", 0, winreg.REG_DWORD, EVENT_TYPES)

    def remove_event_source(self) -> None:
        winreg.DeleteKey(winreg.HKEY_LOCAL_MACHINE, SOURCE_KEY)

    def containerd_major(self, config: Path) -> int:
        places = (config.parent / "containerd.exe", config.parent / "bin" / "containerd.exe")
        program = next((str(path) for path in places if path.exists()), shutil.which("containerd"))
        match = re.search(r"v?(\d+)\.\d+\.\d+", checks.output(program, "--version") or "") if program else None
        return int(match[1]) if match else 0

    def service_pid(self, service: str) -> int | None:
        try:
            manager = win32service.OpenSCManager(None, None, win32service.SC_MANAGER_CONNECT)
            handle = win32service.OpenService(manager, service, win32service.SERVICE_QUERY_STATUS)
            status: Any = win32service.QueryServiceStatusEx(handle)  # a dictionary
            return int(status["ProcessId"])
        except win32service.error:
            return None

    def restart(self, service: str) -> None:
        """Stop and start a service. Pods keep running: their shims are processes of their own."""
        access = win32service.SERVICE_START | win32service.SERVICE_STOP | win32service.SERVICE_QUERY_STATUS
        try:
            manager = win32service.OpenSCManager(None, None, win32service.SC_MANAGER_CONNECT)
            handle = win32service.OpenService(manager, service, access)
            if win32service.QueryServiceStatus(handle)[1] != win32service.SERVICE_STOPPED:
                win32service.ControlService(handle, win32service.SERVICE_CONTROL_STOP)
                _wait(handle, service, win32service.SERVICE_STOPPED)
            win32service.StartService(handle, None)
            _wait(handle, service, win32service.SERVICE_RUNNING)
        except win32service.error as error:
            raise InstallError(f"the service {service} cannot be restarted: {error.strerror}") from None


def _sid(kind: int) -> PySID:
    return win32security.CreateWellKnownSid(kind, None)


def _wait(handle: PySC_HANDLE, service: str, state: int) -> None:
    deadline = time.monotonic() + SERVICE_SECONDS
    while win32service.QueryServiceStatus(handle)[1] != state:
        if time.monotonic() > deadline:
            raise InstallError(f"the service {service} did not reach its state within {SERVICE_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)
