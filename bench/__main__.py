"""`python -m bench`: what a shim costs, measured beside others in the same run and told as ratios."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from bench.harness import runner, session, suite
from bench.measures import relay_throughput, ttrpc_calls, wine
from bench.report import artifacts, compare, gate, svg_export
from bench.report.results import ResultsError

# Each has add_arguments(parser) and measure(session, arguments), and enters what it finds into session.run.
MEASURES: dict[str, Any] = {"suite": suite, "rpc": ttrpc_calls, "stdio": relay_throughput, "wine": wine}
# These need more than a machine with containerd, and are run by name only.
BY_NAME = {"wine"}
# What works on results that are there.
TOOLS: dict[str, Any] = {
    "compare": (compare, compare.main),
    "report": (artifacts, artifacts.main),
    "charts": (svg_export, svg_export.main),
}

EPILOG = """\
examples:
  python -m bench                                     everything, ours and Go's, into bench-results/<time>/
  python -m bench --quick                             the same in a few minutes, to see that it works
  python -m bench suite --measure lives --rounds 10   one container's life only
  python -m bench suite --candidate mine=./my-shim    your own shim beside the others
  python -m bench suite --max-ratio start=1.2         for CI: exit 1 if slower than that, with confidence
  python -m bench wine                                the Windows shim and Microsoft's own, under Wine
  python -m bench compare A/results.json B/results.json   what became faster or slower, and whether that is noise
  python -m bench report results.json                 table, report.html and all other files once more

Candidates take turns in one run; only their ratios hold for another machine. docs/how-to/benchmarks.md tells how to
read the results and what they do not show.

exit status: 0 passed; 1 a bound broken with confidence, an error, events out of order, a leak; 2 wrong usage
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="bench", description="Measures shims, interleaved in one run.", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    subparsers = made.add_subparsers(dest="command", metavar="COMMAND", help="default: all")
    for name, module in MEASURES.items():
        assert module.__doc__
        one = subparsers.add_parser(name, help=module.__doc__.splitlines()[0], description=module.__doc__)
        module.add_arguments(one)
        add_common(one)
        one.set_defaults(function=measure, modules=[name])
    everything = subparsers.add_parser("all", help="All of these in one run: what `python -m bench` alone does.")
    suite.add_size(everything)
    add_common(everything)
    everything.set_defaults(function=measure, modules=[name for name in MEASURES if name not in BY_NAME])
    for name, (module, function) in TOOLS.items():
        assert module.__doc__
        one = subparsers.add_parser(
            name, help=module.__doc__.splitlines()[0], description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        module.add_arguments(one)
        one.set_defaults(function=function)
    return made


def add_common(one: argparse.ArgumentParser) -> None:
    session.add_arguments(one)
    one.add_argument("--seed", type=int, default=1, help="decides the order of candidates (default 1)")
    one.add_argument("--output", type=Path, help="directory for the results (default bench-results/<time>)")
    one.add_argument("--details", action="store_true", help="print every distribution (results.txt has them anyway)")
    one.add_argument("--quiet", action="store_true", help="no progress")
    gate.add_arguments(one)


def measure(arguments: argparse.Namespace) -> int:
    """Each part gets its own defaults, and what was said for all of them."""
    said = vars(arguments)
    parts = []
    for name in arguments.modules:
        own = vars(parser().parse_args([name])) if len(arguments.modules) > 1 else said
        own = {key: said[key] if key in said and key != "command" else value for key, value in own.items()}
        parts.append((name, MEASURES[name], argparse.Namespace(**own)))
    return runner.execute(parts, arguments)


def main(argv: list[str] | None = None) -> int:
    made = parser()
    words = sys.argv[1:] if argv is None else argv
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words = ["all", *words]
    arguments = made.parse_args(words)
    try:
        status = int(arguments.function(arguments))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ResultsError, gate.GateError, FileNotFoundError) as error:
        print(f"bench: {error}", file=sys.stderr)
        print(f"see: python -m bench {shlex.join(words[:1])} --help", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
