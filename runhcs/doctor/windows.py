"""What the shim needs of a Windows node. Each check reads only; none has been run on a Windows node by our tests."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable

from runhcs.doctor import checks
from runhcs.doctor.checks import Check
from shim.platform.hcs_library import hcs_library

CONFIG = r"C:\Program Files\containerd\config.toml"
DLLS = ("computecore", "computestorage", "computenetwork", "vmcompute")
# The oldest build that HCS v2 and containerd support: Server 2019.
OLDEST_BUILD = 17763
SERVICES = {
    "vmcompute": ("the Host Compute Service", "Install-WindowsFeature Containers; restart"),
    "hns": ("the Host Network Service", "Install-WindowsFeature Containers; restart"),
}
HYPERVISOR = ("vmms", "Hyper-V", "Install-WindowsFeature Hyper-V, for containers in utility VMs; restart")


def all_checks(args: argparse.Namespace) -> list[Check]:
    found = [checks.python(), _build(), _rights(), *_libraries(), *_services(), _schema()]
    found += [checks.containerd_version("containerd"), _shim()]
    return [*found, checks.containerd_config(args.config or CONFIG)]


def _shim() -> Check:
    """containerd looks in its PATH and beside itself."""
    places = os.environ.get("PATH", "")
    if containerd := shutil.which("containerd"):
        places = os.pathsep.join((os.path.dirname(containerd), places))
    return checks.shim_in(places, "containerd or this logon", "unpack the whole distribution beside containerd.exe")


def _build() -> Check:
    version: Callable[[], object] | None = getattr(sys, "getwindowsversion", None)
    build = int(getattr(version(), "build", 0)) if version is not None else 0
    if build < OLDEST_BUILD:
        return Check("build", "fail", f"build {build}", f"use Windows Server 2019 (build {OLDEST_BUILD}) or later")
    return Check("build", "ok", f"build {build}")


def _rights() -> Check:
    """The shims' pipes are below ProtectedPrefix\\Administrators, where only administrators may make one."""
    from shim.platform import endpoint

    try:
        endpoint.listen(endpoint.address_for("", "doctor", str(os.getpid()))).close()
    except endpoint.EndpointError:
        pass
    else:
        return Check("rights", "ok", "an administrator: may make the shims' pipes and talk to them")
    step = "use an elevated session; containerd itself runs as SYSTEM and may"
    return Check("rights", "warn", "not an administrator: shims cannot be reached from this logon", step)


def _libraries() -> list[Check]:
    missing = [name for name in DLLS if not os.path.exists(hcs_library(name))]
    if missing:
        step = "Install-WindowsFeature Containers; restart"
        return [Check("libraries", "fail", f"missing: {', '.join(f'{name}.dll' for name in missing)}", step)]
    return [Check("libraries", "ok", os.path.dirname(hcs_library(DLLS[0])))]


def _services() -> list[Check]:
    found = []
    for name, (what, step) in SERVICES.items():
        state = _service_state(name)
        running = Check(name, "ok", f"{what} runs")
        stopped = Check(name, "warn", f"{what} is {state}", f"sc start {name}")
        found.append(
            Check(name, "fail", f"{what} is not installed", step) if not state else
            running if state == "RUNNING" else stopped
        )  # fmt: skip
    name, what, step = HYPERVISOR
    has = bool(_service_state(name))
    found.append(Check("hyper-v", "ok" if has else "note", f"{what} is {'' if has else 'not '}installed", step))
    return found


def _service_state(name: str) -> str:
    """RUNNING, STOPPED …; "" if there is no such service."""
    for line in (checks.output("sc", "query", name) or "").splitlines():
        if line.strip().startswith("STATE"):
            return line.split()[-1]
    return ""


def _schema() -> Check:
    """Which versions of its documents HCS takes; asking shows that it answers at all."""
    from shim.hcs_bindings import service
    from shim.hcs_bindings.errors import HcsError

    try:
        answer = service.properties("Basic")[0]
    except (HcsError, OSError) as error:
        return Check("hcs", "fail", str(error), "`runhcs explain CODE` says what a code means")
    versions = answer.get("SupportedSchemaVersions", []) if isinstance(answer, dict) else []
    text = ", ".join(f"{one.get('Major')}.{one.get('Minor')}" for one in versions if isinstance(one, dict))
    if not any(isinstance(one, dict) and one.get("Major") == 2 for one in versions):
        step = "use Windows Server 2019 or later"
        return Check("hcs", "fail", f"HCS takes documents of version {text or 'none'}", step)
    return Check("hcs", "ok", f"HCS answers; document versions {text}")
