"""Install the files of the zip from which this runs, and add the runtimes to containerd's configuration.

- DIR\\versions\\VERSION\\, writable by Administrators and SYSTEM only. A new version has a new directory, so running
  pods keep their shim. DIR\\runhcs.cmd runs `runhcs` of the installed version.
- runhcs.toml beside containerd's configuration, with the runtimes. containerd's configuration gets an import of it
  and is otherwise preserved; its previous content is in config.toml.runhcs-backup.
- The source containerd-shim-runhcs of the Application event log.

containerd is restarted only with --restart-containerd, and uses the installed version from its next start on. Running
the command again changes nothing.
"""

from __future__ import annotations

import argparse

from runhcs import shims


def configure(parser: argparse.ArgumentParser) -> None:
    if shims.WINDOWS:
        from runhcs.install import windows

        windows.configure(parser)
    else:
        from runhcs.install import linux

        parser.description = linux.__doc__
        linux.configure(parser)


def run(args: argparse.Namespace) -> int:
    if shims.WINDOWS:
        from runhcs.install import windows, windows_system

        return windows.run(args, windows_system.WindowsSystem())
    from runhcs.install import linux

    return linux.run(args)
