"""Install, upgrade, roll back and uninstall versions of the shim on a node.

    DIR/versions/0.1.0-1a2b3c4d5e6f/     the files of one version; the suffix is a hash of them
    DIR/runhcs.cmd (Linux: runhcs)       runs `runhcs` of the installed version
    DIR/installation.json                what was installed: version, containerd's configuration, the previous version

A version is never changed in place: Windows cannot replace the files of a running program, and a shim imports modules
while it runs. containerd runs a shim by its full path (`runtime_path`) and stores the path in the bundle of each pod,
for `delete`. So an old version is removed only when no process uses it and no bundle names it.

A run may be killed at any point, and the next one completes it. So a change for which containerd has to be restarted
is recorded before it is made, and files are replaced as a whole. The file with the runtimes names the version:
replacing it switches all runtimes at once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from runhcs import shims
from runhcs.config.runtimes import runtimes
from runhcs.install import containerd_config, files
from runhcs.install.containerd_config import IMPORT_FILE, parse
from runhcs.install.interfaces import Action, InstallError, Layout, Report, System

NAME_OF_SOURCE = "containerd-shim-runhcs"
STATE_FILE = "installation.json"
BACKUP_SUFFIX = ".runhcs-backup"
# A standby checks every 10 seconds whether its program was replaced, and exits then.
STANDBY_SECONDS = 15.0
POLL_SECONDS = 0.2


class Installer:
    def __init__(self, args: argparse.Namespace, system: System, layout: Layout, source: Path) -> None:
        self._args = args
        self._system = system
        self._layout = layout
        self._source = source
        self._root = Path(os.path.abspath(args.directory))
        self._versions = self._root / "versions"
        self._state = self._read_state()
        is_return = args.uninstall or args.rollback
        self._config = Path(os.path.abspath(self._state.get("config", args.config) if is_return else args.config))
        self._import = self._config.parent / IMPORT_FILE
        self._pid = system.service_pid(args.service)
        # Whether containerd runs with an earlier configuration: it is the process that ran when that was changed.
        self._is_restart_pending = bool(self._pid) and self._state.get("pending_pid") == self._pid
        self._created_config = bool(self._state.get("created_config"))
        self._previous: dict[str, Any] | None = self._state.get("previous")
        self.report = Report(
            installed=str(self._state.get("version", "")),
            directory=str(self._root),
            config=str(self._config),
            dry_run=args.dry_run,
        )

    # -- Commands.

    def install(self) -> None:
        self._check_rights()
        self._layout.check_source(self._source)
        name = files.version_name(self._source, self._layout.files(self._source))
        target = self._versions / name
        program = self._layout.program(target)
        self.report.version, self.report.shim = name, str(program)
        self.report.tool = self._layout.tool(target)
        if not self._args.stage:
            self._check_state(name)
        self._install_files(target)
        if self._args.stage:
            self.report.is_unconfirmed = self._state.get("previous") is not None
            return
        self._switch(name, program)
        self._restart_containerd()
        if not self._args.keep_previous:
            self._previous = None
        self._write_state(name)
        if self._args.upgrade:
            self._remove_versions(name, str((self._previous or {}).get("version", "")))
        self.report.is_unconfirmed = self._state.get("previous") is not None

    def rollback(self) -> None:
        """Return to what was configured before the first run with --keep-previous, and remove the newer version."""
        self._check_rights()
        if self._previous is None:
            raise InstallError("no previous version is kept: only a run with --keep-previous can be rolled back")
        name, text = str(self._previous["version"]), self._previous["runtimes"]
        if text is None:
            self._remove_import()
            self._remove_wrapper()
        else:
            self._change_config(self._write(self._import, str(text), "write runtimes"))
            self._write_wrapper(self._versions / name)
            self.report.version, self.report.shim = name, str(self._layout.program(self._versions / name))
            self.report.tool = self._layout.tool(self._versions / name)
        self._write_state(name)
        self._restart_containerd()
        self._remove_versions(name)
        self._previous = None
        self._write_state(name)

    def uninstall(self) -> None:
        self._check_rights()
        self._remove_import()
        self._do("remove event source", NAME_OF_SOURCE, self._system.has_event_source(),
                 self._system.remove_event_source)  # fmt: skip
        self._restart_containerd()
        self._remove_versions()
        kept = any(self.report.kept())
        self._remove_wrapper()
        self._previous = None
        if kept:  # the state is needed as long as versions are left: `--uninstall` removes them later
            self._write_state("")
        else:
            state = self._root / STATE_FILE
            self._do("remove", str(state), state.exists(), state.unlink)
            if self._root.exists():
                self._do("remove", str(self._root), True, lambda: files.remove_if_empty(self._versions, self._root))

    # -- Files.

    def _check_rights(self) -> None:
        if not self._args.dry_run and not self._system.is_administrator():
            raise InstallError("administrator rights are needed: use an elevated session, or root on Linux")

    def _check_state(self, name: str) -> None:
        installed = self._state.get("version", "")
        if installed and installed != name and not self._args.upgrade:
            raise InstallError(f"version {installed} is installed in {self._root}: use --upgrade")
        if installed and self._state.get("config") != str(self._config):
            raise InstallError(f"{self._state.get('config')} has the runtimes: use --uninstall first, or this --config")

    def _install_files(self, target: Path) -> None:
        for path in (self._root, self._versions):
            self._do("create", str(path), not path.is_dir(), lambda path=path: path.mkdir(parents=True))  # type: ignore[misc]
        present = [path for path in (self._root, self._versions, target) if path.is_dir()]
        present += sorted(target.rglob("*"))
        exposed = [path for path in present if not self._system.is_protected(path)]
        needed = bool(exposed) or not self._root.is_dir()
        self._do("protect", str(self._root), needed, lambda: self._protect(exposed))
        is_damaged = target.is_dir() and self._layout.is_damaged(target)
        if is_damaged and self._system.is_in_use(self._layout.used_file(target)):
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
        for path in self._layout.files(self._source):
            (partial / path).parent.mkdir(parents=True, exist_ok=True)
            (partial / path).write_bytes((self._source / path).read_bytes())
            if self._layout.emulator:  # Linux; Windows has no executable bit
                shutil.copymode(self._source / path, partial / path)
        self._protect([partial, *partial.rglob("*")])
        if target.is_dir():
            shutil.rmtree(target)
        partial.rename(target)
        self._layout.finish(target)

    def _write_wrapper(self, version: Path) -> None:
        mode = 0 if self._layout.wrapper.endswith(".cmd") else 0o755
        self._write(self._root / self._layout.wrapper, self._layout.wrapper_text(version), "write", mode)

    def _remove_wrapper(self) -> None:
        wrapper = self._root / self._layout.wrapper
        self._do("remove", str(wrapper), wrapper.exists(), wrapper.unlink)

    def _remove_versions(self, *keep: str) -> None:
        """Stop the standbys of the versions and remove the versions, except those in use. Until containerd has been
        restarted, it starts new pods with an old version."""
        found = [path for path in sorted(self._versions.glob("*")) if path.name not in keep]
        if not self._args.dry_run:
            for path in found:  # a standby exits when the time of its program changes; one that is a daemon does not
                files.touch(self._layout.program(path))
        deadline = time.monotonic() + STANDBY_SECONDS
        for path in found:
            is_used = self._is_restart_pending or self._has_bundles(path) or not self._is_released(path, deadline)
            if is_used or not (self._args.dry_run or files.remove_directory(path)):
                self.report.actions.append(Action("remove", str(path), "kept"))
            else:
                self._do("remove", str(path), True, lambda: None)

    def _is_released(self, version: Path, deadline: float) -> bool:
        """Whether no process runs from this version; standbys are waited for."""
        while self._system.is_in_use(self._layout.used_file(version)):
            if self._args.dry_run or time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def _has_bundles(self, version: Path) -> bool:
        """Whether a pod's `delete` needs the shim of this version."""
        program = str(self._layout.program(version)).casefold()
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

    def _switch(self, name: str, program: Path) -> None:
        """Let containerd's configuration name this version. The previous one is recorded first."""
        imported = self._files()
        if imported:
            version = containerd_config.version_of(imported[0], str(self._config))
            old = files.read(self._config)
            new = containerd_config.with_import(old, str(self._import), str(self._config))
        else:
            version = self._new_config_version()
            old, new = "", containerd_config.new_text(version, str(self._import))
        self._created_config = not imported or self._created_config
        section = containerd_config.effective_section(imported, version)
        text = containerd_config.runtimes_text(
            runtimes(self._args.runtime), version, str(program), section, emulator=self._layout.emulator
        )
        current = files.read(self._import) if self._import.exists() else None
        if text != current or old != new:
            self._begin_switch(None if old != new else current)
        self._write_wrapper(self._versions / name)
        self._do("register event source", NAME_OF_SOURCE, not self._system.has_event_source(),
                 self._system.add_event_source)  # fmt: skip
        self._change_config(self._write(self._import, text, "write runtimes"))
        if old and old != new:
            self._write(self._config.with_name(self._config.name + BACKUP_SUFFIX), old, "back up")
        self._change_config(self._write(self._config, new, "add import"))
        self._write_state(name)  # before the restart, which may fail

    def _new_config_version(self) -> int:
        major = self._system.containerd_major(self._config)
        if major not in containerd_config.MAJORS.values():
            raise InstallError(f"{self._config} does not exist and containerd was not found: see --config")
        return next(version for version, one in containerd_config.MAJORS.items() if one == major)

    def _begin_switch(self, current: str | None) -> None:
        """`current`: the runtimes that containerd uses; None if it imports none."""
        if self._args.keep_previous and self._previous is None:
            self._previous = {"version": self._state.get("version", "") if current else "", "runtimes": current}
        self._change_config(True)
        self._write_state(str(self._state.get("version", "")))

    def _remove_import(self) -> None:
        if self._config.exists():
            old = files.read(self._config)
            new = containerd_config.without_import(old, str(self._import), str(self._config))
            if new != old:
                self._change_config(True)
                if self._root.is_dir():
                    self._write_state(str(self._state.get("version", "")))
            if new != old and self._created_config and parse(new, str(self._config)).keys() == {"version"}:
                self._do("remove", str(self._config), True, self._config.unlink)
            else:
                self._write(self._config, new, "remove import")
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

    def _write(self, path: Path, text: str, action: str, mode: int = 0) -> bool:
        needed = not path.exists() or files.read(path) != text
        return self._do(action, str(path), needed, lambda: files.replace(path, text, mode))

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
            "previous": self._previous,
        }
        if not self._args.dry_run and state != self._state:
            files.replace(self._root / STATE_FILE, json.dumps(state, indent=2) + "\n")
            self._state = state
