"""Run containers on the emulator and show what happens, from containerd's first step to the proof that nothing is left.

What you see:

  1  a process-isolated container that prints something and ends with a code: every call, event and byte of
     output with its time, a timeline, and the HCS calls it took. The demo starts the shim and speaks to it
     exactly as containerd does, so no containerd is needed
  2  a container that is looked into while it runs: exec, pids, stats, kill
  3  a hypervisor-isolated container, with the size of its utility VM
  4  a pod of two containers that share a VM
  5  the same as 1 and 2 by `ctr`, on a private containerd, if containerd and ctr are installed; the commands can
     be copied
  6  the proof: no compute system, process, mount, socket, control group or file is left

  runhcs demo                 all of it, in a few seconds
  runhcs demo --keep          then wait, so that you can try things in another terminal; Ctrl-C ends it
  runhcs demo --json | jq .   the same as data

It needs root (containers are made of namespaces and mounts) and a C compiler. Everything it makes is in one
temporary directory. The exit code is 0 if everything worked and nothing was left behind, else 1.
"""

from __future__ import annotations

import argparse


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to do."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as JSON and nothing else on stdout")
    parser.add_argument(
        "--keep", action="store_true", help="wait before cleaning up, and say what can be tried meanwhile"
    )
    parser.add_argument("--no-containerd", action="store_true", help="leave out the part with ctr")


def run(args: argparse.Namespace) -> int:
    from runhcs.demo.run import show

    return show(as_json=args.json, keep=args.keep, with_containerd=not args.no_containerd)
