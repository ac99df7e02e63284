"""`runhcs`: command line tools around the shim. The module of a command is imported only when it is used.

To add a command: write `runhcs/<module>.py` with `configure(parser)` and `run(args) -> int`, and name it in `COMMANDS`.
`bench` is an exception: it has its own parser.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys

from runhcs import extras
from shim.platform import host

COMMANDS: dict[str, tuple[str, str]] = {
    "agent": ("runhcs.agent.command", "serve metrics of this node's shims, and export their traces"),
    "bench": ("runhcs.bench", "benchmark this shim against Microsoft's and others"),
    "config": ("runhcs.config.command", "print runtimes for containerd and RuntimeClasses for Kubernetes"),
    "create-scratch": ("runhcs.scratch.command", "create the scratch disk of Linux containers, for containerd"),
    "demo": ("runhcs.demo", "run containers on the emulator and show each step"),
    "doctor": ("runhcs.doctor.command", "check the prerequisites of this machine"),
    "emulator": ("runhcs.emulator", "control the HCS emulator: start, stop, status, journal, faults, latency"),
    "events": ("runhcs.events", "show task events of this node's shims, with -f as they happen"),
    "explain": ("runhcs.explain", "explain an error code and its next step"),
    "gc": ("runhcs.gc", "find, and with --yes release, resources that dead shims leaked"),
    "inspect": ("runhcs.inspect", "show everything about one shim: tasks, ledger, HCS properties, logs"),
    "install": ("runhcs.install.command", "install the shim where containerd finds it"),
    "node-install": ("runhcs.node.command", "keep the shim installed on a node of Kubernetes, as a DaemonSet"),
    "ps": ("runhcs.ps", "list the shims of this machine and their tasks"),
    "record": ("runhcs.recording.command", "record what shims do, without secrets, in one file for a bug report"),
    "replay": ("runhcs.replay.command", "replay a recording on the HCS emulator and show what differs"),
    "selftest": ("runhcs.selftest.command", "run containers on this node and verify what the shim needs of it"),
    "soak": ("runhcs.soak.command", "run containers for hours and verify that nothing grows or gets lost"),
    "stacks": ("runhcs.stacks", "dump the thread stacks of shims and of their VMs' guests"),
    "top": ("runhcs.top.command", "show the shims of this machine live: CPU, memory, calls in progress, errors"),
    "trace": ("runhcs.timeline.command", "show the lifecycle of a container as a timeline"),
}
# containerd gives these before the command, since hcsshim's runhcs.exe has them there.
CREATE_SCRATCH = "create-scratch"
GLOBAL_VALUES = ("--log", "--log-format", "--owner", "--root")
# These need the emulator, which does not run on Windows.
LINUX_ONLY = ("bench", "demo", "emulator", "replay")
# These need TLS, which the zip for Windows nodes does not contain; the image of the DaemonSet does.
NOT_IN_ZIP = {"node-install": "runhcs.node"}
# The extra of the wheel that a command needs; the others need `runhcs`.
COMMAND_EXTRAS = {"agent": "agent", "bench": "bench", "demo": "runhcs,emulator", "emulator": "runhcs,emulator",
                  "replay": "runhcs,emulator"}  # fmt: skip


def available() -> dict[str, tuple[str, str]]:
    return {name: one for name, one in COMMANDS.items() if host.IS_EMULATED or _is_on_windows(name)}


def _is_on_windows(name: str) -> bool:
    package = NOT_IN_ZIP.get(name)
    return name not in LINUX_ONLY and (package is None or importlib.util.find_spec(package) is not None)


def build_parser(load: tuple[str, ...] = ()) -> argparse.ArgumentParser:
    """The parser of `runhcs`, with the arguments of the commands in `load`; the others have only their summary."""
    parser = argparse.ArgumentParser(
        prog="runhcs",
        description="Tools around containerd-shim-runhcs-v1, which containerd runs for io.containerd.runhcs.v1.",
        epilog="runhcs COMMAND --help describes a command.",
    )
    if CREATE_SCRATCH in load:
        importlib.import_module(COMMANDS[CREATE_SCRATCH][0]).configure_global(parser)
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


def _chosen(arguments: list[str]) -> str | None:
    """The first word that names a command, which decides what is imported."""
    words = iter(arguments)
    for word in words:
        if word in COMMANDS:
            return word
        if word in GLOBAL_VALUES:
            next(words, None)
    return None


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    chosen = _chosen(arguments)
    if chosen is not None and chosen not in available():
        where = "in the image of deploy/" if chosen in NOT_IN_ZIP else "on Linux, with the HCS emulator"
        build_parser().error(f"{chosen} is available only {where}; see `runhcs doctor`")
    try:
        if chosen == "bench" and arguments[0] == chosen:
            from runhcs import bench

            return bench.main(arguments[1:])
        args = build_parser(() if chosen is None else (chosen,)).parse_args(arguments)
        return int(args.run(args))
    except ModuleNotFoundError as error:
        if f"{error.name}.".startswith("runhcs.agent."):  # the zip of a Windows node
            return _run_agent_zip(arguments)
        text = extras.missing_extra(error, COMMAND_EXTRAS.get(chosen or "", "runhcs"))
        if text is None:
            raise
        print(f"runhcs: {text}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1


def _run_agent_zip(arguments: list[str]) -> int:
    from runhcs import agent_zip

    if not agent_zip.is_unpacked():
        print(f"runhcs: {agent_zip.next_step()}", file=sys.stderr)
        return 1
    return agent_zip.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
