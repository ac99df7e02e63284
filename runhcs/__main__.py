"""`runhcs`: what people run around the shim. A subcommand's module is imported only when it is asked for.

To add one: write `runhcs/<module>.py` with `configure(parser)` and `run(args) -> int`, and name it in `COMMANDS`.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from shim.platform import host

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("runhcs.demo", "run containers on the emulator, show what happens, leave nothing behind"),
    "config": ("runhcs.config.command", "print runtimes for containerd and RuntimeClasses for Kubernetes"),
    "doctor": ("runhcs.doctor.command", "check whether this machine can run the shim, and say what is missing"),
    "emulator": ("runhcs.emulator", "start, stop and look into the HCS emulator; faults, journal, latency"),
    "explain": ("runhcs.explain", "say what an error code means and what to do"),
    "gc": ("runhcs.gc", "find, and with --yes free, what dead shims left behind"),
    "inspect": ("runhcs.inspect", "everything about one shim or container: tasks, ledger, HCS's properties, logs"),
    "install": ("runhcs.install", "put a fast launcher of the shim where containerd finds it"),
    "ps": ("runhcs.ps", "list the shims of this machine and what they run"),
    "stacks": ("runhcs.stacks", "show what the threads of shims are doing, and their VMs' guests"),
}
# They are about the emulator, which is not on a Windows machine.
LINUX_ONLY = ("demo", "emulator", "install")


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(
        prog="runhcs",
        description="Tools around containerd-shim-runhcs-v1, which containerd runs for io.containerd.runhcs.v1.",
        epilog="runhcs COMMAND --help explains a command.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    # The first word that names a command decides which module is needed; the others only lend their help line.
    chosen = next((word for word in arguments if word in COMMANDS), None)
    if not host.IS_EMULATED and chosen in LINUX_ONLY:
        parser.error(f"{chosen} is for Linux, where HCS is emulated; `runhcs doctor` looks at this machine")
    for name, (module_name, summary) in COMMANDS.items():
        if not host.IS_EMULATED and name in LINUX_ONLY:
            continue
        if name != chosen:
            commands.add_parser(name, help=summary)
            continue
        module = importlib.import_module(module_name)
        child = commands.add_parser(
            name, help=summary, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.configure(child)
        child.set_defaults(run=module.run)
    args = parser.parse_args(arguments)
    try:
        return int(args.run(args))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    sys.exit(main())
