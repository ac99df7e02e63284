"""`python -m bench`: the latency benchmark of shims. Candidates are interleaved in one run; results are ratios."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from bench import runner, suite
from bench.harness import selection
from bench.harness.prerequisites import PrerequisiteError
from bench.measures import relay_throughput, ttrpc_calls, wine, wine_scaling
from bench.report import artifacts, compare, gate, svg_export
from bench.report.results import ResultsError

# Commands that measure: each module has add_arguments(parser) and measure(context, arguments).
COMMANDS: dict[str, ModuleType] = {
    "suite": suite,
    "ttrpc_calls": ttrpc_calls,
    "relay_throughput": relay_throughput,
    "wine": wine,
    "wine_scaling": wine_scaling,
}
# Not part of `all`: they need more than a machine with containerd.
NOT_IN_ALL = {"wine", "wine_scaling"}
# Commands on existing results.
TOOLS: dict[str, tuple[ModuleType, Callable[[argparse.Namespace], int]]] = {
    "compare": (compare, compare.main),
    "report": (artifacts, artifacts.main),
    "charts": (svg_export, svg_export.main),
}

EPILOG = """\
examples:
  {prog}                                       everything, ours and Go's, into bench-results/<time>/
  {prog} --quick                               the same in a few minutes, as a smoke test
  {prog} suite --measure lifecycles --rounds 10  only lifecycles of one container
  {prog} suite --candidate mine=./my-shim      measure your own shim too
  {prog} suite --max-ratio start=1.2           for CI: exit 1 if slower than that, with confidence
  {prog} wine                                  the Windows shim and Microsoft's, under Wine
  {prog} wine_scaling                          the same with many pods, for each shim scope
  {prog} compare A/results.json B/results.json   compare two runs
  {prog} report results.json                   write the table, report.html and all other files again

Candidates are interleaved in one run; only their ratios are comparable between machines. docs/how-to/benchmarks.md
explains how to read the results and their limits.

exit status: 0 passed; 1 a bound exceeded with confidence, an error, events out of order, a leak; 2 wrong usage or a
missing prerequisite
"""


def parser(prog: str = "python -m bench") -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog=prog, description="Measures shims, interleaved in one run.", epilog=EPILOG.format(prog=prog),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", help="default: all")
    for name, module in COMMANDS.items():
        command = _add_command(subparsers, name, module)
        add_common_arguments(command)
        command.set_defaults(function=measure, modules=[name])
    everything = subparsers.add_parser("all", help="All of these except those under Wine in one run: the default.")
    suite.add_size_arguments(everything)
    add_common_arguments(everything)
    everything.set_defaults(function=measure, modules=[name for name in COMMANDS if name not in NOT_IN_ALL])
    for name, (module, function) in TOOLS.items():
        _add_command(subparsers, name, module).set_defaults(function=function)
    top.set_defaults(prog=prog)
    return top


def _add_command(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], name: str, module: ModuleType
) -> argparse.ArgumentParser:
    assert module.__doc__
    command: argparse.ArgumentParser = subparsers.add_parser(
        name, help=module.__doc__.splitlines()[0].replace("%", "%%"), description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    module.add_arguments(command)
    return command


def add_common_arguments(command: argparse.ArgumentParser) -> None:
    selection.add_arguments(command)
    command.add_argument("--seed", type=int, default=1, help="seed of the order of candidates (default 1)")
    command.add_argument("--output", type=Path, help="directory for the results (default bench-results/<time>)")
    command.add_argument("--details", action="store_true", help="print every distribution (always in results.txt)")
    command.add_argument("--quiet", action="store_true", help="no progress")
    gate.add_arguments(command)


def measure(arguments: argparse.Namespace) -> int:
    """Each part of `all` gets its own defaults and the common arguments."""
    given = vars(arguments)
    parts = []
    for name in arguments.modules:
        own = vars(parser().parse_args([name])) if len(arguments.modules) > 1 else given
        own = {key: given[key] if key in given and key != "command" else value for key, value in own.items()}
        parts.append(runner.Part(name, COMMANDS[name], argparse.Namespace(**own)))
    return runner.execute(parts, arguments, arguments.command_line)


def main(argv: list[str] | None = None, prog: str = "python -m bench") -> int:
    words = sys.argv[1:] if argv is None else argv
    command_line = [*prog.split(), *words]
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words = ["all", *words]
    arguments = parser(prog).parse_args(words)
    arguments.command_line = command_line
    try:
        status = int(arguments.function(arguments))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as `head`, has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ResultsError, gate.BoundError, PrerequisiteError) as error:
        print(f"bench: {error}", file=sys.stderr)
        print(f"see: {prog} {words[0]} --help", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
