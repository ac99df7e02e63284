"""The options of `runhcs install` for a node, which are the same on Windows and Linux, and the run of the installer."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from attrs import asdict

from runhcs.config.runtimes import UnknownRuntime
from runhcs.install.containerd_config import ConfigError
from runhcs.install.installer import Installer
from runhcs.install.interfaces import InstallError, Layout, Report, System


def configure(parser: argparse.ArgumentParser, directory: str, config: str, *, default_directory: bool) -> None:
    """`default_directory`: whether --directory may be omitted."""
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--upgrade", action="store_true", help="install this version in place of another one")
    action.add_argument("--uninstall", action="store_true", help="remove everything; files in use by pods are kept")
    action.add_argument("--stage", action="store_true", help="copy the files only; containerd keeps its version")
    action.add_argument(
        "--rollback", action="store_true", help="return to the version and runtimes before --keep-previous"
    )
    parser.add_argument(
        "--directory", metavar="DIR", default=directory if default_directory else "",
        help=f"where to install (default: {directory})" if default_directory
        else f"install a version as on a node, below this directory, such as {directory}",
    )  # fmt: skip
    parser.add_argument(
        "--config", metavar="FILE", default=config, help="containerd's configuration (default: %(default)s)"
    )
    parser.add_argument(
        "--runtime", action="append", metavar="NAME", default=[],
        help="add this runtime, may be repeated (default: all of `runhcs config list`)",
    )  # fmt: skip
    parser.add_argument(
        "--keep-previous", action="store_true",
        help="keep the previous version and runtimes for --rollback, until a run without this option",
    )  # fmt: skip
    parser.add_argument("--restart-containerd", action="store_true", help="restart containerd if it is necessary")
    parser.add_argument(
        "--service", metavar="NAME", default="containerd", help="the service of containerd (default: %(default)s)"
    )
    parser.add_argument("--dry-run", action="store_true", help="report what would change, and change nothing")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(args: argparse.Namespace, system: System, layout: Layout, source: Path) -> int:
    installer = Installer(args, system, layout, source)
    try:
        if args.uninstall:
            installer.uninstall()
        elif args.rollback:
            installer.rollback()
        else:
            installer.install()
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
        print(f"Restart the service {args.service} to apply the configuration")
    if any(report.kept()):
        print("Kept versions are in use: run this again after their pods have stopped and containerd has restarted")
