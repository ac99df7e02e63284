"""Checks of a Windows node. They only read.

Services, group membership, privileges and the event log are queried by pywin32. Without it (`pip install` without the
`runhcs` extra) these checks are replaced by one that names the command to install it. The tests run this module on Wine
and have never run it on a Windows node.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import sys
import winreg
from collections.abc import Iterator
from datetime import datetime, timedelta

from runhcs.doctor import checks
from runhcs.doctor.checks import Check
from runhcs.extras import pip_command
from shim.platform.hcs_library import hcs_library

CONFIG = r"C:\Program Files\containerd\config.toml"
DLLS = ("computecore", "computestorage", "computenetwork", "vmcompute")
# The oldest build that HCS v2 and containerd support: Windows Server 2019.
OLDEST_BUILD = 17763
# CPython publishes fixes every two months or so; an interpreter older than this is outdated.
PYTHON_DAYS = 365
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
VERSION_KEY = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion"
INSTALL_CONTAINERS = "Install-WindowsFeature Containers; restart"
SERVICES = {"vmcompute": "the Host Compute Service", "hns": "the Host Network Service"}
HYPER_V_SERVICE = "vmms"
# HCS imports and exports layers with these; a service that runs as SYSTEM has them.
PRIVILEGES = ("SeBackupPrivilege", "SeRestorePrivilege")
EVENT_CHANNEL = "Microsoft-Windows-Hyper-V-Compute-Admin"
EVENT_HOURS = 24
# Windows error codes.
ERROR_SERVICE_DOES_NOT_EXIST = 1060
ERROR_EVT_CHANNEL_NOT_FOUND = 15007


def all_checks(args: argparse.Namespace) -> list[Check]:
    found = [_python(), _build(), _pipes(), _libraries(), *_pywin32_checks(), checks.hcs_schema()]
    config = args.config or CONFIG
    found += [checks.containerd_version("containerd"), _shim(config), checks.containerd_config(config)]
    return [*found, checks.linux_boot_files(config, os.path.dirname(checks.configured_shim(config)))]


def _pywin32_checks() -> Iterator[Check]:
    if importlib.util.find_spec("win32service") is None:
        finding = "pywin32 is not installed: services, privileges and the event log are not checked"
        yield Check("pywin32", "note", finding, pip_command("runhcs"))
        return
    yield _administrator()
    yield _privileges()
    yield from _services()
    yield _event_log()


def _shim(config: str) -> Check:
    """The program that the configuration names, else the one in containerd's PATH and its own directory."""
    if program := checks.configured_shim(config):
        return checks.shim(program, f"by {config}")
    places = os.environ.get("PATH", "")
    if containerd := shutil.which("containerd"):
        places = os.pathsep.join((os.path.dirname(containerd), places))
    return checks.shim_in(places, "containerd or this logon", "run `runhcs install` of the zip")


def _python() -> Check:
    """The interpreter of the zip gets no updates from Windows: an old one lacks security fixes."""
    found = checks.python()
    built = build_date(sys.version)
    if built is None or datetime.now() - built < timedelta(days=PYTHON_DAYS):
        return found
    step = "use a distribution built with a newer CPython (make dist-windows PYTHON_EMBED=…)"
    return Check("python", "warn", f"{found.finding}, built in {built:%Y-%m}: security fixes may be missing", step)


def build_date(version: str) -> datetime | None:
    """From `sys.version`: 3.13.2 (tags/v3.13.2:4f8bb39, Feb  4 2025, 15:23:48) [MSC v.1942 64 bit (AMD64)]."""
    match = re.search(r", (\w{3}) +(\d+) (\d{4}), ", version)
    if match is None or match[1] not in MONTHS:
        return None
    return datetime(int(match[3]), MONTHS.index(match[1]) + 1, int(match[2]))


def _build() -> Check:
    from shim.hcs_bindings.windows_version import windows_build

    build = windows_build()  # sys.getwindowsversion() depends on the program's manifest
    name = " ".join(filter(None, (_version_value("ProductName"), _version_value("DisplayVersion"))))
    finding = f"build {build}.{_version_value('UBR') or 0}{', ' + name if name else ''}"
    if build < OLDEST_BUILD:
        return Check("build", "fail", finding, f"use Windows Server 2019 (build {OLDEST_BUILD}) or later")
    return Check("build", "ok", finding)


def _version_value(name: str) -> str:
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, VERSION_KEY) as key:
            return str(winreg.QueryValueEx(key, name)[0])
    except OSError:
        return ""


def _pipes() -> Check:
    """The pipes of shims are below ProtectedPrefix\\Administrators, where only administrators can create one."""
    from shim.platform import endpoint

    try:
        endpoint.listen(endpoint.address_for("", "doctor", str(os.getpid()))).close()
    except endpoint.EndpointError:
        step = "use an elevated session; containerd itself runs as SYSTEM"
        return Check("rights", "warn", "this logon cannot create or reach the pipes of shims", step)
    return Check("rights", "ok", "this logon can create and reach the pipes of shims")


def _administrator() -> Check:
    import win32security

    administrators = win32security.CreateWellKnownSid(win32security.WinBuiltinAdministratorsSid, None)
    name = "\\".join(reversed(win32security.LookupAccountSid("", administrators)[:2]))
    if win32security.CheckTokenMembership(None, administrators):  # type: ignore[arg-type]  # None: this thread's token
        return Check("administrator", "ok", f"a member of {name}, elevated")
    step = "use an elevated session; containerd itself runs as SYSTEM"
    return Check("administrator", "warn", f"not a member of {name}, or not elevated", step)


def _privileges() -> Check:
    import win32api
    import win32security

    token = win32security.OpenProcessToken(win32api.GetCurrentProcess(), win32security.TOKEN_QUERY)
    entries = win32security.GetTokenInformation(token, win32security.TokenPrivileges)
    held = {win32security.LookupPrivilegeName("", luid) for luid, _ in entries}
    missing = [name for name in PRIVILEGES if name not in held]
    if missing:
        step = "use an elevated session; layers cannot be created without them"
        return Check("privileges", "warn", f"missing: {', '.join(missing)}", step)
    return Check("privileges", "ok", ", ".join(PRIVILEGES))


def _services() -> list[Check]:
    found = []
    for name, title in SERVICES.items():
        state = _service_state(name)
        if not state:
            found.append(Check(name, "fail", f"{title} is not installed", INSTALL_CONTAINERS))
        elif state != "running":
            found.append(Check(name, "warn", f"{title} is {state}", f"sc start {name}"))
        else:
            found.append(Check(name, "ok", f"{title} is running"))
    if _service_state(HYPER_V_SERVICE):
        found.append(Check("hyper-v", "ok", "Hyper-V is installed"))
    else:
        step = "Install-WindowsFeature Hyper-V, for containers in utility VMs; restart"
        found.append(Check("hyper-v", "note", "Hyper-V is not installed", step))
    return found


def _service_state(name: str) -> str:
    """running, stopped, …; "" if the service does not exist."""
    import win32service

    states = {
        win32service.SERVICE_RUNNING: "running",
        win32service.SERVICE_STOPPED: "stopped",
        win32service.SERVICE_PAUSED: "paused",
        win32service.SERVICE_START_PENDING: "starting",
        win32service.SERVICE_STOP_PENDING: "stopping",
    }
    manager = win32service.OpenSCManager(None, None, win32service.SC_MANAGER_CONNECT)
    try:
        service = win32service.OpenService(manager, name, win32service.SERVICE_QUERY_STATUS)
    except win32service.error as error:
        if error.winerror == ERROR_SERVICE_DOES_NOT_EXIST:
            return ""
        raise
    finally:
        win32service.CloseServiceHandle(manager)
    try:
        state = win32service.QueryServiceStatus(service)[1]
    finally:
        win32service.CloseServiceHandle(service)
    return states.get(state, f"in state {state}")


def _event_log() -> Check:
    """Recent errors of HCS."""
    import win32evtlog

    age = f"timediff(@SystemTime) <= {EVENT_HOURS * 3600 * 1000}"
    query = f"*[System[(Level=1 or Level=2) and TimeCreated[{age}]]]"
    count = 0
    try:
        events = win32evtlog.EvtQuery(EVENT_CHANNEL, win32evtlog.EvtQueryChannelPath, query, None)
        while batch := win32evtlog.EvtNext(events, 64, -1, 0):
            count += len(batch)
    except win32evtlog.error as error:
        if error.winerror == ERROR_EVT_CHANNEL_NOT_FOUND:
            return Check("event log", "note", f"there is no channel {EVENT_CHANNEL}", INSTALL_CONTAINERS)
        step = f"look into {EVENT_CHANNEL} with the Event Viewer"
        return Check("event log", "note", f"{EVENT_CHANNEL} cannot be read: {error.strerror}", step)
    if count:
        step = f"Get-WinEvent -LogName {EVENT_CHANNEL} -MaxEvents 20"
        return Check("event log", "note", f"{count} errors of HCS in the last {EVENT_HOURS} hours", step)
    return Check("event log", "ok", f"no errors of HCS in the last {EVENT_HOURS} hours")


def _libraries() -> Check:
    missing = [name for name in DLLS if not os.path.exists(hcs_library(name))]
    if missing:
        names = ", ".join(f"{name}.dll" for name in missing)
        return Check("libraries", "fail", f"missing: {names}", INSTALL_CONTAINERS)
    return Check("libraries", "ok", os.path.dirname(hcs_library(DLLS[0])))
