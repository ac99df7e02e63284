"""`runhcs`: command line tools around the shim. The module of a command is imported only when it is used.

To add a command: write `runhcs/<module>.py` with `configure(parser)` and `run(args) -> int`, and name it in `COMMANDS`.
`bench` is an exception: it has its own parser.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from runhcs import extras
from shim.platform import host

COMMANDS: dict[str, tuple[str, str]] = {
    "bench": ("runhcs.bench", "benchmark this shim against Microsoft's and others"),
    "config": ("runhcs.config.command", "print runtimes for containerd and RuntimeClasses for Kubernetes"),
    "demo": ("runhcs.demo", "run containers on the emulator and show each step"),
    "doctor": ("runhcs.doctor.command", "check the prerequisites of this machine"),
    "emulator": ("runhcs.emulator", "control the HCS emulator: start, stop, status, journal, faults, latency"),
    "explain": ("runhcs.explain", "explain an error code and its next step"),
    "gc": ("runhcs.gc", "find, and with --yes release, resources that dead shims leaked"),
    "inspect": ("runhcs.inspect", "show everything about one shim: tasks, ledger, HCS properties, logs"),
    "install": ("runhcs.install.command", "install the shim where containerd finds it"),
    "ps": ("runhcs.ps", "list the shims of this machine and their tasks"),
    "selftest": ("runhcs.selftest.command", "run containers on this node and verify what the shim needs of it"),
    "stacks": ("runhcs.stacks", "dump the thread stacks of shims and of their VMs' guests"),
}
# These need the emulator, which does not run on Windows.
LINUX_ONLY = ("bench", "demo", "emulator")
# The extra of the wheel that a command needs; the others need `runhcs`.
COMMAND_EXTRAS = {"bench": "bench", "demo": "runhcs,emulator", "emulator": "runhcs,emulator"}


def available() -> dict[str, tuple[str, str]]:
    return {name: one for name, one in COMMANDS.items() if host.IS_EMULATED or name not in LINUX_ONLY}


def build_parser(load: tuple[str, ...] = ()) -> argparse.ArgumentParser:
    """The parser of `runhcs`, with the arguments of the commands in `load`; the others have only their summary."""
    parser = argparse.ArgumentParser(
        prog="runhcs",
        description="Tools around containerd-shim-runhcs-v1, which containerd runs for io.containerd.runhcs.v1.",
        epilog="runhcs COMMAND --help describes a command.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module_name, summary) in available().items():
        if name not in load:
            commands.add_parser(name, help=summary)
            continue
        module = importlib.import_module(module_name)
        child = commands.add_parser(
            name, help=summary, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.configure(child)
        child.set_defaults(run=module.run)
    return parser


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    # The first word that names a command decides which module is imported.
    chosen = next((word for word in arguments if word in COMMANDS), None)
    if chosen is not None and chosen not in available():
        build_parser().error(f"{chosen} is available only on Linux, with the HCS emulator; see `runhcs doctor`")
    try:
        if chosen == "bench" and arguments[0] == chosen:
            from runhcs import bench

            return bench.main(arguments[1:])
        args = build_parser(() if chosen is None else (chosen,)).parse_args(arguments)
        return int(args.run(args))
    except ModuleNotFoundError as error:
        text = extras.missing_extra(error, COMMAND_EXTRAS.get(chosen or "", "runhcs"))
        if text is None:
            raise
        print(f"runhcs: {text}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    sys.exit(main())
