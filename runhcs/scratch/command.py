"""Create the scratch disk of Linux containers: a VHDX with an empty ext4 file system.

  runhcs create-scratch --destpath C:\\scratch.vhdx              20 GB
  runhcs create-scratch --destpath C:\\scratch.vhdx --sizeGB 50

containerd's snapshotter `windows-lcow` runs this command as runhcs.exe, from its PATH or beside containerd.exe, for the
first container of each size. A utility VM with a Linux guest formats the disk, so the host needs the boot files of such
VMs; `runhcs doctor` checks them. Options before the command: --debug, --log FILE, --log-format text|json, --owner NAME.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys

from attrs import frozen

from runhcs.scratch.log import FORMATS, open_log
from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.windows_version import windows_build
from shim.logs import Log
from shim.oci.errors import InvalidSpec

DEFAULT_GB = 20
# The largest VHDX.
MAX_GB = 64 << 10
OLDEST_BUILD = 17763
OWNER = "runhcs"


class ScratchError(Exception):
    """The disk was not created. The message has the cause and, where there is one, the next step."""


@frozen
class Request:
    destination: str
    size_gb: int
    cache: str
    virtual_memory: bool
    owner: str


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--destpath", default="", metavar="FILE", help="the disk to create; it must not exist")
    parser.add_argument(
        "--sizeGB", dest="size_gb", type=_size, default=0, metavar="N", help=f"its size (default: {DEFAULT_GB})"
    )
    parser.add_argument(
        "--cache-path",
        default="",
        metavar="FILE",
        help=f"a disk of {DEFAULT_GB} GB to copy, if it exists; otherwise the new disk is copied there",
    )
    parser.add_argument(
        "--use-virtual-memory", action="store_true", help="a VM whose memory is not reserved from the start"
    )


def configure_global(parser: argparse.ArgumentParser) -> None:
    """The options that come before the command, as `runhcs.exe` of hcsshim has them."""
    group = parser.add_argument_group("options of create-scratch, before the command")
    group.add_argument("--debug", action="store_true", help="write debug messages to the log")
    group.add_argument("--log", default="", metavar="FILE", help="append the log to this file (default: no log)")
    group.add_argument("--log-format", choices=FORMATS, default=FORMATS[0], help="(default: %(default)s)")
    group.add_argument("--owner", default=OWNER, help="owner of the compute system (default: %(default)s)")
    group.add_argument("--root", default="", help="accepted and ignored: there is no state to keep")


def _size(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MAX_GB:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size in GB from 1 to {MAX_GB}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    try:
        log = open_log(args.log, args.log_format, args.debug)
    except OSError as error:
        print(f"runhcs create-scratch: the log {args.log} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    request = Request(args.destpath, args.size_gb or DEFAULT_GB, args.cache_path, args.use_virtual_memory, args.owner)
    # An interrupted command removes what it has created.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        create(request, log)
    except (ScratchError, InvalidSpec, HcsError, OSError) as error:
        log.error("create-scratch failed", error=error)
        print(f"runhcs create-scratch: {error}", file=sys.stderr)
        return 1
    finally:
        log.close()
    return 0


def create(request: Request, log: Log) -> None:
    """Create the disk, or nothing."""
    if not request.destination:
        raise ScratchError("'destpath' is required: give the path of the new disk")
    destination = os.path.abspath(request.destination)
    if os.path.lexists(destination):
        raise ScratchError(f"{destination} exists: remove it, or give another path")
    if windows_build() < OLDEST_BUILD:
        raise ScratchError(f"LCOW is not supported pre-RS5: use Windows Server 2019 (build {OLDEST_BUILD}) or later")
    log.debug("lcow::CreateScratch opts", dest=destination, sizeGB=request.size_gb, cache=request.cache)
    cache = os.path.abspath(request.cache) if request.cache and request.size_gb == DEFAULT_GB else ""
    if cache and os.path.exists(cache):
        _copy(cache, destination)
        log.debug("lcow::CreateScratch copied from cache", dest=destination, cache=cache)
        return
    from runhcs.scratch import vm

    vm.create_formatted(destination, request.size_gb, request.virtual_memory, request.owner, log)
    if cache:
        _copy(destination, cache)
    log.debug("lcow::CreateScratch created (non-cache)", dest=destination)


def _copy(source: str, target: str) -> None:
    """A whole copy or none: another process may be looking for the file."""
    part = f"{target}.{os.getpid()}.tmp"
    try:
        shutil.copyfile(source, part)
        os.replace(part, target)
    except OSError as error:
        raise ScratchError(f"{source} cannot be copied to {target}: {error.strerror or error}") from error
    finally:
        if os.path.exists(part):
            os.remove(part)
