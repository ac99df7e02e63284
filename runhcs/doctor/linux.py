"""Checks of a Linux machine: the kernel features that the emulator needs, the emulator, and containerd."""

from __future__ import annotations

import argparse
import os
import shutil
import stat
from pathlib import Path

from runhcs import emulator, shims
from runhcs.doctor import checks
from runhcs.doctor.checks import Check
from shim.platform.hcs_library import hcs_library

CONFIG = "/etc/containerd/config.toml"
CAP_SYS_ADMIN = 21
# What a Linux guest of the emulator runs.
GUEST_PROGRAMS = {"runc": "runc", "mkfs.ext4": "e2fsprogs"}
NAMESPACES = ("mnt", "pid", "uts", "ipc", "net")
CONTROLLERS = ("memory", "cpu", "pids")
# The path of a Unix socket has at most 106 characters; the name of a shim's socket takes 65.
LONGEST_DIRECTORY = 106 - 65


def machine(args: argparse.Namespace) -> list[Check]:
    return [checks.python(), _rights(), _namespaces(), _overlay(), _cgroups()]


def _rights() -> Check:
    effective = next((line for line in _lines("/proc/self/status") if line.startswith("CapEff:")), "CapEff: 0")
    if int(effective.split()[1], 16) >> CAP_SYS_ADMIN & 1:
        return Check("rights", "ok", "can create namespaces and mounts")
    return Check("rights", "fail", "CAP_SYS_ADMIN is missing", "run as root; inside a container, as a privileged one")


def _namespaces() -> Check:
    missing = [name for name in NAMESPACES if not os.path.exists(f"/proc/self/ns/{name}")]
    if missing:
        return Check("namespaces", "fail", f"this kernel has no {', '.join(missing)} namespaces", "use another kernel")
    return Check("namespaces", "ok", ", ".join(NAMESPACES))


def _overlay() -> Check:
    if any(line.split()[-1] == "overlay" for line in _lines("/proc/filesystems")):
        return Check("overlay", "ok", "layers can be mounted")
    step = "run `modprobe overlay`; without it only containers with a prepared root file system run"
    return Check("overlay", "warn", "the kernel has no overlay file system", step)


def _cgroups() -> Check:
    from hcs_emulator.service.silo import cgroup

    where = cgroup.host_hierarchies()
    available = set(where.bases)
    if where.unified is not None:
        available |= set(" ".join(_lines(str(where.unified / "cgroup.controllers"))).split())
    missing = [name for name in CONTROLLERS if name not in available]
    version = "version 2" if where.unified is not None and not where.bases else "version 1"
    if missing:
        step = "limits that need them are accepted but not enforced; mount or delegate them to enforce"
        return Check("cgroups", "warn", f"{version}, no controller for {', '.join(missing)}", step)
    return Check("cgroups", "ok", f"{version}: {', '.join(CONTROLLERS)}")


def emulator_checks(args: argparse.Namespace) -> list[Check]:
    return [_library(), _service(), _sockets(), _linux_guest()]


def _linux_guest() -> Check:
    missing = [name for name in GUEST_PROGRAMS if shutil.which(name) is None]
    if missing:
        step = f"install {' '.join(GUEST_PROGRAMS[name] for name in missing)}, for Linux images"
        return Check("linux guest", "warn", f"{' and '.join(missing)} not in PATH", step)
    return Check("linux guest", "ok", f"{', '.join(GUEST_PROGRAMS)} for Linux images in utility VMs")


def _library() -> Check:
    library = hcs_library("computecore")
    directory = os.path.dirname(library)
    if not os.path.exists(library):
        return Check("library", "fail", f"{library} is missing", "build it: `make native` in the checkout")
    if not os.environ.get("HCS_LIBRARY_PATH"):
        sources = Path(directory).parent.glob("*.[ch]")
        built = os.stat(library).st_mtime
        newer = sorted(path.name for path in sources if path.stat().st_mtime > built + 1)
        if newer:
            step = "`make native` rebuilds it"
            return Check("library", "note", f"{library} may be older than {', '.join(newer)}", step)
    return Check("library", "ok", library)


def _service() -> Check:
    directory = os.environ.get("HCS_EMULATOR_DIR") or emulator.DEFAULT_DIRECTORY
    try:
        status = emulator.command(directory, "status")
    except emulator.ControlError:
        return Check("emulator", "ok", f"not running in {directory}: the first container starts it")
    found = f"running in {directory} as build {status['build']}, {len(status['systems'])} compute systems"
    if status["faults"]:
        step = "`runhcs emulator fault clear` removes them"
        return Check("emulator", "warn", f"{found}, {len(status['faults'])} faults are set", step)
    return Check("emulator", "ok", found)


def _sockets() -> Check:
    directory = shims.SOCKETS
    if len(directory) > LONGEST_DIRECTORY:
        step = f"set RUNHCS_SOCKET_DIR for containerd to one of at most {LONGEST_DIRECTORY} characters"
        return Check("sockets", "fail", f"{directory} is too long for sockets", step)
    try:
        found = os.lstat(directory)
    except OSError:
        return Check("sockets", "ok", f"{directory} is created by the first shim")
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        step = f"chmod 700 {directory}, or set RUNHCS_SOCKET_DIR of containerd to another directory"
        return Check("sockets", "fail", f"{directory} is accessible to other users, so shims refuse it", step)
    return Check("sockets", "ok", f"{directory}, for its owner only")


def containerd_checks(args: argparse.Namespace) -> list[Check]:
    daemons = _daemons()
    config = args.config or CONFIG
    found = [checks.containerd_version("containerd")]
    if program := checks.configured_shim(config):
        found += [Check("daemon", "ok", f"pid {pid}, {_address(pid)}") for pid in daemons]
        return [*found, checks.shim(program, f"by {config}"), checks.containerd_config(config)]
    if not daemons:
        found.append(Check("daemon", "note", "containerd is not running", "start it; `runhcs demo` starts its own"))
        found.append(checks.shim_in(os.environ.get("PATH", os.defpath), "this shell"))
    shims_found = []
    for pid, environment in daemons.items():
        found.append(Check("daemon", "ok", f"pid {pid}, {_address(pid)}"))
        shims_found.append(checks.shim_in(environment.get("PATH", os.defpath), f"containerd (pid {pid})"))
    if any(check.outcome != "fail" for check in shims_found):
        for check in shims_found:  # one daemon that finds the shim is enough
            check.outcome = "note" if check.outcome == "fail" else check.outcome
    return [*found, *shims_found, checks.containerd_config(config)]


def _daemons() -> dict[int, dict[str, str]]:
    """Running containerd processes and their environments, which their shims inherit."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isascii() and entry.isdigit() and _lines(f"/proc/{entry}/comm") == ["containerd"]:
            try:
                raw = Path(f"/proc/{entry}/environ").read_bytes()
            except OSError:
                continue
            words = [word.partition("=") for word in raw.decode(errors="replace").split("\0") if "=" in word]
            if words:
                found[int(entry)] = {name: value for name, _, value in words}
    return dict(sorted(found.items()))


def _address(pid: int) -> str:
    words = "\n".join(_lines(f"/proc/{pid}/cmdline")).split("\0")
    for flag in ("-a", "--address"):
        if flag in words[:-1]:
            return words[words.index(flag) + 1]
    return next((word.partition("=")[2] for word in words if word.startswith("--address=")), "its default address")


def wine(args: argparse.Namespace) -> list[Check]:
    path = shutil.which("wine")
    if path is None:
        return [Check("wine", "note", "not installed", "install it to run the Windows build of the shim")]
    return [Check("wine", "ok", f"{(checks.output(path, '--version') or 'no version').strip()}, {path}")]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []
