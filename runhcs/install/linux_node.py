"""The files of a version on a Linux node, where HCS is emulated.

    packages/     the Python packages: shim, emulator, `runhcs`, and the libraries that they need
    bin/, lib/    the launcher for containerd and the compiled modules of the shim, written on the node: they contain
                  paths, and bytecode of the node's own Python

The node needs a Python of the version for which the packages were made.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import shlex
import sys
from pathlib import Path

from runhcs.install import options
from runhcs.install.files import version_name
from runhcs.install.interfaces import InstallError
from runhcs.install.linux import python, write_launcher
from runhcs.install.linux_system import DEFAULT_RESTART, LinuxSystem
from runhcs.installation import LIBRARY, NAME, ROOT

CONFIG = "/etc/containerd/config.toml"
PACKAGES = "packages"
METADATA = "containerd_shim_runhcs-*.dist-info"


def configure(parser: argparse.ArgumentParser) -> None:
    options.configure(parser, f"/opt/{LIBRARY}", CONFIG, default_directory=False)
    parser.add_argument(
        "--restart-command", metavar="COMMAND", default="",
        help=f"how to restart containerd (default: {' '.join(DEFAULT_RESTART)} SERVICE)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    system = LinuxSystem(Path(args.config), shlex.split(args.restart_command))
    return options.run(args, system, LinuxLayout(), ROOT.parent)


class LinuxLayout:
    wrapper = "runhcs"
    emulator = True

    def check_source(self, source: Path) -> None:
        packages = source / PACKAGES
        if not any(packages.glob(METADATA)):
            step = "run it from a directory of scripts/node_image.py; without --directory it installs a checkout"
            raise InstallError(f"{packages} does not contain the installed packages: {step}")
        suffixes = importlib.machinery.EXTENSION_SUFFIXES
        if not any((packages / f"_cffi_backend{suffix}").exists() for suffix in suffixes):
            found = ", ".join(path.name for path in packages.glob("_cffi_backend*")) or "no cffi"
            step = "use an image that was built for this version (scripts/node_image.py linux --python)"
            raise InstallError(f"the packages are for another Python than {sys.version.split()[0]} ({found}): {step}")

    def files(self, source: Path) -> list[Path]:
        found = (path for path in (source / PACKAGES).rglob("*") if path.is_file())
        return sorted(path.relative_to(source) for path in found if path.parent.name != "__pycache__")

    def program(self, version: Path) -> Path:
        return version / "bin" / NAME

    def tool(self, version: Path) -> list[str]:
        return ["env", f"PYTHONPATH={version / PACKAGES}", python(), "-sPB", "-m", "runhcs"]

    def wrapper_text(self, version: Path) -> str:
        return f'#!/bin/sh\nexec {shlex.join(self.tool(version))} "$@"\n'

    def finish(self, version: Path) -> None:
        """The launcher is the last file: a version without it is incomplete."""
        packages = version / PACKAGES
        write_launcher(version / "bin", linked=False, root=packages, packages=str(packages))

    def is_damaged(self, version: Path) -> bool:
        is_whole = version_name(version, self.files(version)) == version.name
        return not is_whole or not self.program(version).is_file()

    def used_file(self, version: Path) -> Path:
        return version
