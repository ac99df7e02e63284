"""Install, upgrade and uninstall the files of the zip on a Windows node.

    DIR\\versions\\0.1.0-1a2b3c4d5e6f\\     the files of one zip; the suffix is a hash of them
    DIR\\runhcs.cmd                        runs `runhcs` of the installed version
    DIR\\installation.json                 what was installed: version, containerd's configuration, the imported file

Windows cannot replace the files of a running program, and a shim keeps the file with its modules open. So a version is
never changed in place. containerd runs a shim by its full path (`runtime_path`) and stores the path in the bundle of
each pod, for `delete`. So an old version is removed only when no process uses it and no bundle names it.

The calls into Windows are in `windows_system`; this module runs on Linux as well, for the tests.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from attrs import asdict, define, field

from runhcs import shims
from runhcs.config.runtimes import UnknownRuntime, runtimes
from runhcs.install import containerd_config
from runhcs.install.containerd_config import IMPORT_FILE, ConfigError, parse
from runhcs.installation import LIBRARY, NAME
from shim.version import VERSION

PROGRAM = f"{NAME}.exe"
TOOL = "runhcs.exe"
# What the zip contains beside its two programs and their folder.
DOCUMENTS = ("LICENSE*", "NOTICE*", "licenses/*", "*.cdx.json")
NAME_OF_SOURCE = "containerd-shim-runhcs"
STATE_FILE = "installation.json"
BACKUP_SUFFIX = ".runhcs-backup"
CONFIG = r"C:\Program Files\containerd\config.toml"
# A standby checks every 10 seconds whether its program was replaced, and exits then.
STANDBY_SECONDS = 15.0
POLL_SECONDS = 0.2


class InstallError(Exception):
    """The message names the next step."""


class System(Protocol):
    """The calls into Windows."""

    def is_administrator(self) -> bool: ...
    def is_protected(self, path: Path) -> bool: ...
    def protect(self, path: Path) -> None:
        """Set the owner and the access control list of a file or directory."""

    def is_in_use(self, path: Path) -> bool:
        """Whether a process has this file open."""

    def has_event_source(self) -> bool: ...
    def add_event_source(self) -> None: ...
    def remove_event_source(self) -> None: ...
    def containerd_major(self, config: Path) -> int:
        """The major version of the installed containerd; 0 if unknown."""

    def service_pid(self, service: str) -> int | None:
        """0 if the service is stopped; None if it does not exist."""

    def restart(self, service: str) -> None: ...


@define
class Action:
    """One element of `actions` in --json."""

    action: str
    target: str
    #: changed, unchanged, kept (in use, or until containerd is restarted), or planned, with --dry-run.
    outcome: str


@define
class Report:
    """The output of --json."""

    version: str = ""
    directory: str = ""
    shim: str = ""
    config: str = ""
    changed: bool = False
    dry_run: bool = False
    restart_needed: bool = False
    actions: list[Action] = field(factory=list)


def configure(parser: argparse.ArgumentParser) -> None:
    programs = os.environ.get("ProgramFiles", r"C:\Program Files")  # noqa: SIM112  # Windows' own spelling
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--upgrade", action="store_true", help="install this version in place of another one")
    action.add_argument("--uninstall", action="store_true", help="remove everything; files in use by pods are kept")
    parser.add_argument(
        "--directory", metavar="DIR", default=rf"{programs}\{LIBRARY}", help="where to install (default: %(default)s)"
    )
    parser.add_argument(
        "--config", metavar="FILE", default=CONFIG, help="containerd's configuration (default: %(default)s)"
    )
    parser.add_argument(
        "--runtime", action="append", metavar="NAME", default=[],
        help="add this runtime, may be repeated (default: all of `runhcs config list`)",
    )  # fmt: skip
    parser.add_argument("--restart-containerd", action="store_true", help="restart containerd if it is necessary")
    parser.add_argument(
        "--service", metavar="NAME", default="containerd", help="the service of containerd (default: %(default)s)"
    )
    parser.add_argument("--dry-run", action="store_true", help="report what would change, and change nothing")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(args: argparse.Namespace, system: System, source: Path | None = None) -> int:
    installer = Installer(args, system, source or Path(sys.executable).resolve().parent)
    try:
        installer.uninstall() if args.uninstall else installer.install()
    except (InstallError, ConfigError, UnknownRuntime, OSError) as error:
        print(f"runhcs install: {error}", file=sys.stderr)
        return 1
    _print(installer.report, args)
    return 0


def _print(report: Report, args: argparse.Namespace) -> None:
    if args.json:
        print(json.dumps(asdict(report), indent=2))
        return
    for one in report.actions:
        print(f"{one.outcome:10} {one.action}: {one.target}")
    if report.restart_needed:
        print(f"Restart containerd to apply the configuration: Restart-Service {args.service}")
    if any(one.outcome == "kept" for one in report.actions):
        print("Kept versions are in use: run this again after their pods have stopped and containerd has restarted")


def files_of(source: Path) -> list[Path]:
    """The files of the zip below this directory, by relative path. Other files, such as containerd's, are ignored."""
    folder = source / LIBRARY
    found = {path for path in folder.rglob("*") if path.is_file()}
    found |= {path for pattern in DOCUMENTS for path in source.glob(pattern) if path.is_file()}
    found |= {source / name for name in (PROGRAM, TOOL)}
    return sorted(path.relative_to(source) for path in found)


def version_name(source: Path) -> str:
    """The name of the directory for these files."""
    digest = hashlib.sha256()
    for path in files_of(source):
        digest.update(f"{path.as_posix()}\0{hashlib.sha256((source / path).read_bytes()).hexdigest()}\n".encode())
    return f"{VERSION}-{digest.hexdigest()[:12]}"


class Installer:
    def __init__(self, args: argparse.Namespace, system: System, source: Path) -> None:
        self._args = args
        self._system = system
        self._source = source
        self._root = Path(os.path.abspath(args.directory))
        self._state = self._read_state()
        self._config = Path(os.path.abspath(self._state.get("config", args.config) if args.uninstall else args.config))
        self._import = self._config.parent / IMPORT_FILE
        self._pid = system.service_pid(args.service)
        # Whether containerd runs with an earlier configuration: it is the process that ran when that was changed.
        self._is_restart_pending = bool(self._pid) and self._state.get("pending_pid") == self._pid
        self._created_config = False
        self.report = Report(directory=str(self._root), config=str(self._config), dry_run=args.dry_run)

    # -- Commands.

    def install(self) -> None:
        self._check_rights()
        if not (self._source / PROGRAM).is_file() or not (self._source / LIBRARY).is_dir():
            raise InstallError(f"{self._source} does not contain {PROGRAM} and its folder: run runhcs.exe of the zip")
        name = version_name(self._source)
        installed = self._state.get("version", "")
        if installed and installed != name and not self._args.upgrade:
            raise InstallError(f"version {installed} is installed in {self._root}: use --upgrade")
        if installed and self._state.get("config") != str(self._config):
            raise InstallError(f"{self._state.get('config')} has the runtimes: use --uninstall first, or this --config")
        target = self._versions / name
        self.report.version, self.report.shim = name, str(target / PROGRAM)
        self._install_files(target)
        self._write(self._root / "runhcs.cmd", f'@"%~dp0versions\\{name}\\{TOOL}" %*\r\n', "write")
        self._do("register event source", NAME_OF_SOURCE, not self._system.has_event_source(),
                 self._system.add_event_source)  # fmt: skip
        self._install_config(str(target / PROGRAM))
        self._write_state(name)  # before the restart, which may fail
        self._restart_containerd()
        if self._args.upgrade:
            self._remove_versions(keep=name)
        self._write_state(name)

    def uninstall(self) -> None:
        self._check_rights()
        self._remove_import()
        self._do("remove event source", NAME_OF_SOURCE, self._system.has_event_source(),
                 self._system.remove_event_source)  # fmt: skip
        self._restart_containerd()
        self._remove_versions()
        kept = any(action.outcome == "kept" for action in self.report.actions)
        for path in (self._root / "runhcs.cmd", self._root / STATE_FILE):
            # The state is needed as long as versions are left: `--uninstall` removes them later.
            if not (kept and path.name == STATE_FILE):
                self._do("remove", str(path), path.exists(), path.unlink)
        if kept:
            self._write_state("")
        elif self._root.exists():
            self._do("remove", str(self._root), True, lambda: _remove_empty(self._root))

    # -- Files.

    @property
    def _versions(self) -> Path:
        return self._root / "versions"

    def _check_rights(self) -> None:
        if not self._args.dry_run and not self._system.is_administrator():
            raise InstallError("administrator rights are needed: use an elevated session")

    def _install_files(self, target: Path) -> None:
        for path in (self._root, self._versions):
            self._do("create", str(path), not path.is_dir(), lambda path=path: path.mkdir(parents=True))  # type: ignore[misc]
        present = [path for path in (self._root, self._versions, target) if path.is_dir()]
        present += sorted(target.rglob("*"))
        exposed = [path for path in present if not self._system.is_protected(path)]
        needed = bool(exposed) or not self._root.is_dir()
        self._do("protect", str(self._root), needed, lambda: self._protect(exposed))
        is_damaged = target.is_dir() and _is_damaged(target)
        if is_damaged and self._system.is_in_use(target / LIBRARY / "lib" / "modules.bin"):
            raise InstallError(f"{target} was modified and is in use: stop its pods, then run this again")
        self._do("install files", str(target), not target.is_dir() or is_damaged, lambda: self._copy(target))

    def _protect(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self._system.protect(path)

    def _copy(self, target: Path) -> None:
        """All files or none: containerd may start a shim at any time."""
        partial = target.with_name(f".{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        for path in files_of(self._source):
            (partial / path).parent.mkdir(parents=True, exist_ok=True)
            (partial / path).write_bytes((self._source / path).read_bytes())
        self._protect([partial, *partial.rglob("*")])
        if target.is_dir():
            shutil.rmtree(target)
        partial.rename(target)

    def _remove_versions(self, keep: str = "") -> None:
        """Stop the standbys of the versions and remove the versions, except those in use. Until containerd has been
        restarted, it starts new pods with an old version."""
        found = [path for path in sorted(self._versions.glob("*")) if path.name != keep]
        if not self._args.dry_run:
            for path in found:
                _stop_standby(path / PROGRAM)
        deadline = time.monotonic() + STANDBY_SECONDS
        for path in found:
            is_used = self._is_restart_pending or self._has_bundles(path) or not self._is_released(path, deadline)
            if is_used or not (self._args.dry_run or _remove(path)):
                self.report.actions.append(Action("remove", str(path), "kept"))
            else:
                self._do("remove", str(path), True, lambda: None)

    def _is_released(self, version: Path, deadline: float) -> bool:
        """Whether no process runs from this version; standbys are waited for."""
        modules = version / LIBRARY / "lib" / "modules.bin"
        while self._system.is_in_use(modules):
            if self._args.dry_run or time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def _has_bundles(self, version: Path) -> bool:
        """Whether a pod's `delete` needs the shim of this version."""
        program = str(version / PROGRAM).casefold()
        for file in Path(self._containerd_state()).glob(f"{shims.BUNDLES}/shim-binary-path"):
            try:
                if file.read_text(errors="replace").strip().casefold() == program:
                    return True
            except OSError:
                continue  # the bundle has just been removed
        return False

    # -- containerd's configuration.

    def _files(self) -> list[dict[str, Any]]:
        return containerd_config.load(self._config, str(self._import)) if self._config.exists() else []

    def _containerd_state(self) -> str:
        return next((str(one["state"]) for one in reversed(self._files()) if one.get("state")), shims.STATE)

    def _install_config(self, program: str) -> None:
        files = self._files()
        self._created_config = not files or bool(self._state.get("created_config"))
        if files:
            version = containerd_config.version_of(files[0], str(self._config))
            old = _read(self._config)
            new = containerd_config.with_import(old, str(self._import), str(self._config))
        else:
            major = self._system.containerd_major(self._config)
            if major not in containerd_config.MAJORS.values():
                raise InstallError(f"{self._config} does not exist and containerd was not found: see --config")
            version = next(version for version, one in containerd_config.MAJORS.items() if one == major)
            old, new = "", containerd_config.new_text(version, str(self._import))
        section = containerd_config.effective_section(files, version)
        text = containerd_config.runtimes_text(runtimes(self._args.runtime), version, program, section)
        self._change_config(self._write(self._import, text, "write runtimes"))
        if old and old != new:
            self._write(self._config.with_name(self._config.name + BACKUP_SUFFIX), old, "back up")
        self._change_config(self._write(self._config, new, "add import"))

    def _remove_import(self) -> None:
        if self._config.exists():
            old = _read(self._config)
            new = containerd_config.without_import(old, str(self._import), str(self._config))
            if new != old and self._state.get("created_config") and parse(new, str(self._config)).keys() == {"version"}:
                self._change_config(self._do("remove", str(self._config), True, self._config.unlink))
            else:
                self._change_config(self._write(self._config, new, "remove import"))
        self._do("remove", str(self._import), self._import.exists(), self._import.unlink)

    def _change_config(self, changed: bool) -> None:
        """A stopped service reads the configuration when it starts."""
        self._is_restart_pending |= changed and self._pid != 0

    def _restart_containerd(self) -> None:
        if self._args.restart_containerd:
            needed = self._is_restart_pending
            self._do("restart", self._args.service, needed, lambda: self._system.restart(self._args.service))
            self._is_restart_pending = False
        self.report.restart_needed = self._is_restart_pending

    # -- Changes.

    def _do(self, action: str, target: str, needed: bool, change: Callable[[], object]) -> bool:
        """Make a change if it is needed, and report it. Whether it was needed."""
        outcome = "unchanged"
        if needed:
            outcome = "planned" if self._args.dry_run else "changed"
            self.report.changed = True
            if not self._args.dry_run:
                change()
        self.report.actions.append(Action(action, target, outcome))
        return needed

    def _write(self, path: Path, text: str, action: str) -> bool:
        return self._do(action, str(path), not path.exists() or _read(path) != text, lambda: _replace(path, text))

    def _read_state(self) -> dict[str, Any]:
        try:
            state = json.loads((self._root / STATE_FILE).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def _write_state(self, version: str) -> None:
        state = {
            "version": version,
            "config": str(self._config),
            "created_config": self._created_config,
            "pending_pid": self._pid if self._is_restart_pending else None,
        }
        if not self._args.dry_run and state != self._state:
            _replace(self._root / STATE_FILE, json.dumps(state, indent=2) + "\n")


def _is_damaged(version: Path) -> bool:
    """Whether files were changed, removed or added: a DLL beside a program is loaded by it."""
    files = {path.relative_to(version) for path in version.rglob("*") if path.is_file()}
    return not (version / PROGRAM).is_file() or files != {*files_of(version)} or version_name(version) != version.name


def _stop_standby(program: Path) -> None:
    """A standby exits when the time of its program changes. One that has become a daemon is not affected."""
    with suppress(OSError):
        os.utime(program)


def _remove(version: Path) -> bool:
    """Remove a version, all of it or nothing: Windows does not rename a directory with open files."""
    aside = version.with_name(f".{version.name}.removed")
    try:
        version.rename(aside)
    except OSError:
        return False
    shutil.rmtree(aside, ignore_errors=True)
    return True


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise InstallError(f"{path} is not UTF-8: containerd cannot read it either") from None


def _replace(path: Path, text: str) -> None:
    """Atomically: containerd may read it at any time. The file keeps its access control list, if it had one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(text.encode())
    os.replace(partial, path)


def _remove_empty(root: Path) -> None:
    for path in (root / "versions", root):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
