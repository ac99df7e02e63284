"""Print configuration: containerd's runtimes, and the RuntimeClasses of Kubernetes that use them.

  runhcs config containerd                 all runtimes, for containerd 2.x
  runhcs config containerd --version 1     the same for containerd 1.x
  runhcs config containerd NAME ...        these only
  runhcs config runtimeclass NAME ...      RuntimeClasses of these names
  runhcs config list                       the default names and their meaning

The name of a runtime defines it; any build and size is allowed:

  runhcs-wcow-process                           process isolation: containers share the host's kernel
  runhcs-wcow-process-20348                     ... for images of this build
  runhcs-wcow-hypervisor                        hypervisor isolation: a pod runs in a utility VM
  runhcs-wcow-hypervisor-20348                  ... of this Windows build (or release: -1809)
  runhcs-wcow-hypervisor-20348-1vp2gb           ... with 1 virtual processor and 2 GiB
  runhcs-wcow-hypervisor-20348-reserve-4core    ... that sees 4 cores only, with all memory reserved
  runhcs-lcow                                   Linux images: a pod runs in a utility VM with a Linux guest
  runhcs-lcow-2vp4gb                            ... with 2 virtual processors and 4 GiB

The output has comments; docs/how-to/runtimeclasses.md describes each setting.
"""

from __future__ import annotations

import argparse
import sys

from runhcs.config import containerd as config_containerd
from runhcs.config import runtimeclass
from runhcs.config.runtimes import DEFAULTS, UnknownRuntime, runtime, runtimes
from shim.oci.errors import InvalidSpec
from shim.oci.windows_versions import parse

NAMES_HELP = "names of runtimes (default: all that `runhcs config list` shows)"


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    containerd = commands.add_parser(
        "containerd",
        help="runtimes for containerd's configuration file (TOML)",
        description="Print runtimes for containerd's configuration file.",
        epilog="Example: runhcs config containerd runhcs-wcow-process runhcs-wcow-hypervisor-ltsc2022-4vp8gb",
    )
    containerd.add_argument("names", nargs="*", metavar="NAME", help=NAMES_HELP)
    containerd.add_argument(
        "--version", type=int, choices=(1, 2), default=2, help="containerd's major version (default: %(default)s)"
    )
    containerd.add_argument(
        "--emulator",
        action="store_true",
        help="for a containerd on Linux with the HCS emulator: Linux images are in its default snapshotter",
    )
    classes = commands.add_parser(
        "runtimeclass",
        help="RuntimeClasses for Kubernetes (YAML)",
        description="Print RuntimeClasses for Kubernetes: handler, node selector, tolerations and pod overhead.",
        epilog="Example: runhcs config runtimeclass --node-build 20348 runhcs-wcow-hypervisor-1809",
    )
    classes.add_argument("names", nargs="*", metavar="NAME", help=NAMES_HELP)
    classes.add_argument(
        "--node-build",
        metavar="BUILD",
        default="",
        help="the nodes' build of Windows, or release (default: the build of each runtime). A VM's Windows may be "
        "older than its host's, so nodes of build 26100 run all of them",
    )
    classes.add_argument(
        "--installed",
        action="store_true",
        help="select only nodes on which the DaemonSet of deploy/ has installed the shim",
    )
    classes.add_argument(
        "--emulator", action="store_true", help="for Linux nodes with the HCS emulator, instead of Windows nodes"
    )
    commands.add_parser("list", help="the default runtimes and the meaning of their names")


def run(args: argparse.Namespace) -> int:
    try:
        print(_text(args), end="")
    except (UnknownRuntime, runtimeclass.NodeError, InvalidSpec) as error:
        print(f"runhcs config: {error}", file=sys.stderr)
        return 2
    return 0


def _text(args: argparse.Namespace) -> str:
    if args.what == "list":
        return "".join(f"{name:<45} {runtime(name).summary}\n" for name in DEFAULTS)
    chosen = runtimes(args.names)
    if args.what == "containerd":
        return config_containerd.text(chosen, args.version, emulator=args.emulator)
    node_build = parse(args.node_build, "--node-build") if args.node_build else 0
    return runtimeclass.text(chosen, node_build, emulator=args.emulator, installed=args.installed)
