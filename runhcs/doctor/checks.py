"""The result of a check, and the checks that are the same on Linux and Windows."""

from __future__ import annotations

import marshal
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from attrs import define, field
from attrs.validators import in_, min_len

from runhcs.install import containerd_config as install_config
from runhcs.installation import NAME, ROOT, library
from shim.platform import host
from shim.version import VERSION

RUNTIME = "io.containerd.runhcs.v1"
COMMAND_SECONDS = 20.0
# The oldest version that is tested.
OLDEST_CONTAINERD = (1, 6)


OUTCOMES = ("ok", "note", "warn", "fail")


@define
class Check:
    """One element of `checks` in `doctor --json`."""

    name: str = field(validator=min_len(1))
    outcome: str = field(validator=in_(OUTCOMES))
    finding: str
    next_step: str = ""


def python() -> Check:
    return Check("python", "ok", f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}")


def output(*command: str) -> str | None:
    """The stdout of a program; None if it is missing or fails."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def containerd_version(program: str) -> Check:
    """The version of the program in PATH; a running daemon may be another."""
    path = shutil.which(program)
    if path is None:
        step = "install containerd 1.6 or later"
        if host.IS_EMULATED:
            step += "; `runhcs demo` and the tests also run shims without it"
        return Check("containerd", "warn", "not in PATH", step)
    text = output(path, "--version") or ""
    match = re.search(r"v?(\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        step = f"run `{path} --version`: is it containerd?"
        return Check("containerd", "warn", f"{path} prints no version", step)
    version = match[0].removeprefix("v")
    if (int(match[1]), int(match[2])) < OLDEST_CONTAINERD:
        return Check("containerd", "fail", f"{path} is {version}", "install containerd 1.6 or later")
    return Check("containerd", "ok", f"{version}, {path}")


def shim_in(path: str, whose: str, install: str = "run `runhcs install`") -> Check:
    """Whether containerd finds the shim in this PATH, and whether it has this version; `install` is the next step if
    not."""
    name = NAME + ("" if host.IS_EMULATED else ".exe")
    found = shutil.which(name, path=path)
    if found is None:
        step = f"{install}, into a directory of that PATH" if host.IS_EMULATED else install
        return Check("shim", "fail", f"{name} is not in the PATH of {whose}", step)
    return shim(found, f"in the PATH of {whose}", install)


def shim(found: str, where: str, install: str = "run `runhcs install`") -> Check:
    """Whether this program runs and has this version."""
    text = output(found, "-v") or ""
    match = re.search(r"Version:\s*(\S+)", text)
    if match is None:
        step = f"its checkout, environment or directory was removed: {install} again"
        return Check("shim", "fail", f"{found} does not run", step)
    if match[1] != VERSION:
        step = f"{install} to use {VERSION}, the version of this runhcs"
        return Check("shim", "warn", f"{found} is version {match[1]}", step)
    if (root := _checkout(found)) is not None and root != ROOT:
        return Check("shim", "note", f"{found} runs {root}", "run `runhcs install` to use this checkout")
    if root is not None and _is_behind(found, root):
        step = "it imports the changed sources, which takes longer: run `runhcs install` again"
        return Check("shim", "note", f"{found} was installed before its sources were changed", step)
    return Check("shim", "ok", f"{match[1]}, {found}, {where}")


def _program(launcher: str) -> Path:
    """The program that `runhcs install` compiled for this launcher."""
    return library(Path(launcher).resolve().parent) / f"{NAME}.pyc"


def _checkout(launcher: str) -> Path | None:
    """The checkout that a launcher of `runhcs install` runs; None if it cannot be determined."""
    try:
        code = marshal.loads(_program(launcher).read_bytes()[16:])
    except (OSError, ValueError, EOFError, TypeError):
        return None
    words = [word for word in getattr(code, "co_consts", ()) if isinstance(word, str) and os.path.isabs(word)]
    return next((Path(word) for word in words if os.path.isdir(os.path.join(word, "shim"))), None)


def _is_behind(launcher: str, root: Path) -> bool:
    compiled = _program(launcher).stat().st_mtime
    return any(path.stat().st_mtime > compiled for path in (root / "shim").rglob("*.py"))


def containerd_config(path: str) -> Check:
    """Only CRI needs the runtime in the configuration; ctr names it on the command line."""
    try:
        files = install_config.load(Path(path))
    except FileNotFoundError as error:
        if error.filename != path:
            step = "remove the import, or create the file: containerd does not start without it"
            return Check("config", "fail", f"{path} imports {error.filename}, which does not exist", step)
        step = "ctr needs none; for Kubernetes, `runhcs config` prints the content"
        return Check("config", "note", f"no {path}", step)
    except (OSError, ValueError) as error:
        return Check("config", "warn", f"{path}: {error}", "fix it: containerd does not start with it either")
    handlers = dict.fromkeys(name for name, one in _runtimes(files) if one.get("runtime_type") == RUNTIME)
    if not handlers:
        step = "ctr needs none; for Kubernetes, `runhcs config` prints what to add"
        return Check("config", "note", f"{path} names no runtime of type {RUNTIME}", step)
    imported = Path(path).with_name(install_config.IMPORT_FILE)
    if not install_config.is_copy_current(Path(path), imported):
        step = "run `runhcs install` again: containerd 1.x uses the copy"
        return Check("config", "warn", f"{path} was changed after its section for CRI was copied to {imported}", step)
    return Check("config", "ok", f"{path}: {', '.join(handlers)}")


def configured_shim(path: str) -> str:
    """The program that the runtimes of containerd's configuration name; "" if they name none."""
    try:
        files = install_config.load(Path(path))
    except (OSError, ValueError):
        return ""
    runtimes = [one for _, one in _runtimes(files) if one.get("runtime_type") == RUNTIME]
    return next((str(one["runtime_path"]) for one in reversed(runtimes) if one.get("runtime_path")), "")


def linux_boot_files(config: str, directory: str = "") -> Check:
    """The boot files of VMs with a Linux guest. They matter only where Linux images run. `directory` is that of the
    shim, which looks for them beside itself first; without it, that of this program."""
    from shim.oci.annotations.container import VM_BOOT_FILES, Annotations
    from shim.oci.errors import InvalidSpec
    from shim.platform import boot_directory
    from shim.uvm.linux import boot_files
    from shim.uvm.linux.settings import KERNEL_DIRECT_BUILD

    try:
        files = install_config.load(Path(config))
    except (OSError, ValueError):
        files = []
    configured = [name for name, one in _runtimes(files) if _is_linux(one)]
    beside = os.path.join(directory, boot_directory.NAME) if directory else ""
    given: dict[str, str] = {VM_BOOT_FILES: beside} if beside and os.path.isdir(beside) else {}
    found = boot_files.BootFiles(Annotations(given), kernel_direct=_build() >= KERNEL_DIRECT_BUILD)
    try:
        found.check()
    except InvalidSpec as error:
        finding, _, step = str(error).partition(" not found: ")
        outcome = "warn" if configured else "note"
        return Check("linux boot files", outcome, f"{finding} not found: no Linux images", step)
    return Check("linux boot files", "ok", f"{found.kernel_name} and {found.rootfs_name} in {found.directory}")


def _build() -> int:
    from shim.hcs_bindings.windows_version import windows_build

    return windows_build()


def _is_linux(runtime: dict[str, Any]) -> bool:
    options = runtime.get("options")
    platform = str(options.get("SandboxPlatform", "")) if isinstance(options, dict) else ""
    return runtime.get("runtime_type") == RUNTIME and platform.startswith("linux/")


def _runtimes(files: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The runtimes of CRI in any version of the configuration."""
    found = []
    for plugin in (one for settings in files for one in settings.get("plugins", {}).values()):
        if isinstance(plugin, dict):
            runtimes = plugin.get("containerd", {}).get("runtimes", {})
            found += [(name, one) for name, one in runtimes.items() if isinstance(one, dict)]
    return found


def hcs_schema() -> Check:
    """The schema versions that HCS supports; the query also shows that HCS answers."""
    from shim.hcs_bindings import service
    from shim.hcs_bindings.errors import HcsError

    try:
        answer = service.properties("Basic")[0]
    except (HcsError, OSError) as error:
        return Check("hcs", "fail", str(error), "`runhcs explain CODE` explains the code")
    versions = answer.get("SupportedSchemaVersions", []) if isinstance(answer, dict) else []
    text = ", ".join(f"{one.get('Major')}.{one.get('Minor')}" for one in versions if isinstance(one, dict))
    if not any(isinstance(one, dict) and one.get("Major") == 2 for one in versions):
        step = "use Windows Server 2019 or later"
        return Check("hcs", "fail", f"HCS supports schema versions {text or 'none'}", step)
    return Check("hcs", "ok", f"HCS answers; schema versions {text}")
