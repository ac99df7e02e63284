"""Run containers on the emulator and show each step, from the start of the shim to the check that nothing is leaked.

The parts:

  1  a process-isolated container that prints something and exits with a code: every call, event and line of
     output with its time, a timeline, and the HCS calls. The demo starts the shim and calls it exactly as
     containerd does, so that no containerd is needed
  2  a running container: exec, pids, stats, kill
  3  a hypervisor-isolated container, with the size of its utility VM
  4  a pod of two containers that share a VM
  5  the same as 1 and 2 with `ctr`, on a private containerd, if containerd and ctr are installed; the commands
     can be copied
  6  leak checks: no compute system, process, mount, socket, control group or file is left

  runhcs demo                 all parts, in a few seconds
  runhcs demo --keep          then wait, so that you can try things in another terminal, until Ctrl-C
  runhcs demo --json | jq .   the same as data

It needs root (containers need namespaces and mounts) and a C compiler. It creates everything in one temporary
directory. The exit code is 0 if everything worked and nothing was leaked, else 1.
"""

from __future__ import annotations

import argparse


class DemoError(Exception):
    """The demo cannot continue; the message names the reason and the next step."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as JSON and nothing else on stdout")
    parser.add_argument("--keep", action="store_true", help="wait for Ctrl-C before the cleanup, and suggest commands")
    parser.add_argument("--no-containerd", action="store_true", help="skip the part with ctr")


def run(args: argparse.Namespace) -> int:
    from runhcs.demo.run import show

    return show(json_output=args.json, keep=args.keep, with_containerd=not args.no_containerd)
