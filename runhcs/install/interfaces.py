"""What the installer needs of an operating system, and what it reports.

`windows` and `linux_node` have the layouts, `windows_system` and `linux_system` the calls into the system.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from attrs import define, field


class InstallError(Exception):
    """The message names the next step."""


class Layout(Protocol):
    """The files of a version. A version is a directory that is never changed once it is complete."""

    #: The file in the installation directory that runs `runhcs` of the installed version.
    wrapper: str
    #: Whether the runtimes are for the HCS emulator on Linux.
    emulator: bool

    def check_source(self, source: Path) -> None:
        """Raise InstallError for a directory without the files of a version."""

    def files(self, source: Path) -> list[Path]:
        """The files of a version below this directory, by relative path."""

    def program(self, version: Path) -> Path:
        """The shim that containerd runs."""

    def tool(self, version: Path) -> list[str]:
        """The command line of `runhcs` of this version."""

    def wrapper_text(self, version: Path) -> str: ...
    def finish(self, version: Path) -> None:
        """Write what depends on the place of the version, after its files are in place."""

    def is_damaged(self, version: Path) -> bool:
        """Whether the files differ from those that were installed."""

    def used_file(self, version: Path) -> Path:
        """What every process of this version has open."""


class System(Protocol):
    """The calls into the operating system."""

    def is_administrator(self) -> bool: ...
    def is_protected(self, path: Path) -> bool: ...
    def protect(self, path: Path) -> None:
        """Set the owner and the permissions of a file or directory."""

    def is_in_use(self, path: Path) -> bool:
        """Whether a process has this file open; for a directory, runs from it."""

    def has_event_source(self) -> bool: ...
    def add_event_source(self) -> None: ...
    def remove_event_source(self) -> None: ...
    def containerd_major(self, config: Path) -> int:
        """The major version of the installed containerd; 0 if unknown."""

    def service_pid(self, service: str) -> int | None:
        """0 if containerd is stopped; None if there is no such service."""

    def restart(self, service: str) -> None:
        """Returns when containerd serves requests again."""


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
    #: The version that was installed before this run; "" if none was.
    installed: str = ""
    directory: str = ""
    shim: str = ""
    #: The command line of `runhcs` of this version.
    tool: list[str] = field(factory=list)
    config: str = ""
    changed: bool = False
    dry_run: bool = False
    restart_needed: bool = False
    #: Whether --rollback has a version to return to: the last run had --keep-previous.
    is_unconfirmed: bool = False
    actions: list[Action] = field(factory=list)

    def kept(self) -> Iterable[str]:
        return (one.target for one in self.actions if one.outcome == "kept")
