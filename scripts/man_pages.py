"""The man pages runhcs(1) and containerd-shim-runhcs-v1(8), in roff, from the argument parsers of the programs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from bench.__main__ import parser as bench_parser
from runhcs.__main__ import COMMANDS, build_parser
from shim.commands import usage
from shim.version import VERSION

NOTE = '.\\" Made by `make docs` (scripts/man_pages.py): change the argument parsers instead.\n'
HEADER = '{note}.TH {name} {section} "" "containerd-shim-runhcs {version}"\n'
ENVIRONMENT = (
    ("HCS_EMULATOR_DIR", "directory of the emulator instance (default: /run/hcs-emulator)"),
    ("RUNHCS_SOCKET_DIR", "directory of the shims' sockets (default: /run/containerd/s)"),
    ("NO_COLOR", "if set, terminals get no colours; pipes never do"),
)
RUNHCS_EXIT = (
    ("0", "success"),
    ("1", "the command failed; `doctor`: a prerequisite is missing; `gc`: something was not released"),
    ("2", "invalid arguments"),
    ("130", "interrupted"),
)
SHIM_EXIT = (("0", "success"), ("1", "failure; one line on stderr names the reason"))


def pages() -> dict[str, str]:
    return {"man/runhcs.1": runhcs_page(), "man/containerd-shim-runhcs-v1.8": shim_page()}


def runhcs_page() -> str:
    parser = build_parser(tuple(name for name in COMMANDS if name != "bench"))
    parsers = _children(parser)
    out = [
        HEADER.format(note=NOTE, name="RUNHCS", section=1, version=VERSION),
        ".SH NAME\nrunhcs \\- tools around containerd\\-shim\\-runhcs\\-v1\n",
        ".SH SYNOPSIS\n.B runhcs\n.I COMMAND\n.RI [ ARGUMENTS ]\n",
        f".SH DESCRIPTION\n{_text(parser.description or '')}",
        ".SH COMMANDS\n",
    ]
    for name, (_, summary) in COMMANDS.items():
        out.append(f".SS {_escape('runhcs ' + name)}\n")
        if name == "bench":
            out.append(_bench(summary))
        else:
            out.append(_text(parsers[name].description or ""))
            out.extend(_options(parsers[name], f"runhcs {name}"))
    out += [_list("ENVIRONMENT", ENVIRONMENT), _list("EXIT STATUS", RUNHCS_EXIT)]
    out.append(".SH SEE ALSO\n.BR containerd\\-shim\\-runhcs\\-v1 (8),\n.BR containerd (8),\n.BR ctr (8)\n")
    return "".join(out)


def shim_page() -> str:
    name = _escape("containerd-shim-runhcs-v1")
    out = [
        HEADER.format(note=NOTE, name="CONTAINERD\\-SHIM\\-RUNHCS\\-V1", section=8, version=VERSION),
        f".SH NAME\n{name} \\- shim of containerd for Windows containers on the Host Compute Service\n",
        ".SH SYNOPSIS\n",
    ]
    for index, (arguments, _) in enumerate(usage.COMMANDS):
        break_before = ".br\n" if index else ""
        out.append(f"{break_before}.B {name}\n{_words(arguments)}")
    out.append(f".SH DESCRIPTION\n{_text(usage.SUMMARY)}.PP\n{_escape(usage.STDIN)}\n")
    out.append(_list("COMMANDS", [(arguments.removeprefix("FLAGS "), effect) for arguments, effect in usage.COMMANDS]))
    out.append(".SH OPTIONS\nFlags take one dash or two, and a value after a space or after `='.\n")
    for flag, value, meaning, used in usage.FLAGS:
        out.append(f".TP\n.B \\-{_escape(flag)}{_value(value)}\n{_escape(meaning)}{f' ({used})' if used else ''}\n")
    out += [_list("ENVIRONMENT", usage.ENVIRONMENT), _list("EXIT STATUS", SHIM_EXIT)]
    out.append(".SH SEE ALSO\n.BR runhcs (1),\n.BR containerd (8),\n.BR ctr (8)\n")
    return "".join(out)


def _bench(summary: str) -> str:
    """Only the commands of the suite: most of its options are common to all of them."""
    parser = bench_parser()
    out = [_text(f"{summary[0].upper()}{summary[1:]}. It needs the extra `bench` of the wheel.")]
    out.append(".PP\n.B runhcs bench\n.RI [ COMMAND ]\n.RI [ OPTIONS ]\n")
    for name in _children(parser):
        out.append(f".TP\n.B {_escape(name)}\n{_inline(_summary(parser, name))}\n")
    out.append(".PP\n" + _inline("`runhcs bench COMMAND --help` lists the options of a command.") + "\n")
    return "".join(out)


def _children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _options(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """The synopsis and the arguments of a command, then those of its own commands."""
    children = _children(parser)
    positional = [action for action in parser._actions if not action.option_strings]
    words = [_metavar(action) for action in positional]
    flags = [action for action in parser._actions if action.option_strings and action.dest != "help"]
    line = f".PP\n.B {_escape(name)}\n" + (".RI [ OPTIONS ]\n" if flags else "")
    yield line + "".join(f".I {_escape(word)}\n" for word in words)
    for action in positional:
        if not isinstance(action, argparse._SubParsersAction):
            yield f".TP\n.I {_escape(_metavar(action))}\n{_help(action)}\n"
    for action in flags:
        names = ", ".join(_escape(one) for one in action.option_strings)
        yield f".TP\n.B {names}{_value(_metavar(action))}\n{_help(action)}\n"
    for child, one in children.items():
        summary = _summary(parser, child)
        yield f".PP\n{_inline(summary[:1].upper() + summary[1:].rstrip('.'))}:\n" if summary else ""
        yield from _options(one, f"{name} {child}")


def _summary(parser: argparse.ArgumentParser, child: str) -> str:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                if choice.dest == child:
                    return (choice.help or "").replace("%%", "%")
    return ""


def _metavar(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None and not isinstance(action, argparse._SubParsersAction):
        return "{" + ",".join(str(choice) for choice in action.choices) + "}"
    return action.dest.upper().replace("_", "-") if action.option_strings else action.dest.upper()


def _help(action: argparse.Action) -> str:
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    return _inline(text)


def _value(value: str) -> str:
    return f" \\fI{_escape(value)}\\fR" if value else ""


def _words(arguments: str) -> str:
    return "".join(f".I {word}\n" if word.isupper() else f".B {_escape(word)}\n" for word in arguments.split())


def _list(title: str, rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> str:
    return f".SH {title}\n" + "".join(f".TP\n.B {_escape(name)}\n{_inline(text)}\n" for name, text in rows)


def _text(text: str) -> str:
    """Paragraphs as they are filled, indented blocks as examples."""
    out = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.splitlines()
        out.append(".PP\n" if out else "")  # none after a heading
        if all(line.startswith("  ") for line in lines):
            out.append(".EX\n" + "".join(f"{_escape(line)}\n" for line in lines) + ".EE\n")
        else:
            out.append("".join(f"{_inline(line.strip())}\n" for line in lines))
    return "".join(out)


def _inline(text: str) -> str:
    """Text in backticks is bold."""
    return re.sub(r"`([^`]+)`", r"\\fB\1\\fR", _escape(text))


def _escape(text: str) -> str:
    """For roff: backslashes, hyphens that are to be copied, and control characters at the beginning of a line."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return f"\\&{text}" if text.startswith((".", "'")) else text
