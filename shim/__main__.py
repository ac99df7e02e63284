"""containerd-shim-runhcs-v1: from argv to a command.

containerd runs this at least twice per container, so nothing is imported before the command is known, and then only
what that command needs: `tests/support/import_budget.py` lists the modules. argparse alone would cost more than
everything `start` does.
"""

from __future__ import annotations

import sys

from shim.commands import CommandError, Flags, exit_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

TEXT_FLAGS = (
    "namespace", "address", "publish-binary", "id", "bundle", "socket", "listener", "log-pipe", "scope", "standby",
)  # fmt: skip
SWITCHES = ("debug", "is-sandbox", "spawned")
QUERIES = {"v": "version", "version": "version", "info": "info", "h": "help", "help": "help"}
ACTIONS = ("start", "delete", "serve")
BOOLEANS = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}


def parse(arguments: list[str]) -> tuple[str, Flags]:
    """The command, and the flags. The action may be at any position; containerd puts it last."""
    flags = Flags()
    action = ""
    query = ""
    rest = iter(arguments)
    for word in rest:
        if not word.startswith("-") or word == "-":
            if word not in ACTIONS:
                raise CommandError(f"unknown action {word!r}: use start, delete or serve, or -help")
            if action:
                raise CommandError(f"two actions, {action} and {word}: give one")
            action = word
            continue
        name, equals, value = word[2 if word.startswith("--") else 1 :].partition("=")
        if name in TEXT_FLAGS:
            if not equals:
                following = next(rest, None)
                if following is None:
                    raise CommandError(f"-{name} needs a value: -{name} VALUE")
                value = following
            setattr(flags, name.replace("-", "_"), value)
        elif name in SWITCHES or name in QUERIES:
            if equals and value.lower() not in BOOLEANS:
                raise CommandError(f"-{name}={value} is neither true nor false")
            on = BOOLEANS[value.lower()] if equals else True
            if name in SWITCHES:
                setattr(flags, name.replace("-", "_"), on)
            elif on:
                query = query or QUERIES[name]
        else:
            raise CommandError(f"unknown flag {word.partition('=')[0]}: -help lists the flags")
    if not (query or action):
        raise CommandError("no action: use start, delete or serve, or -help")
    return query or action, flags


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    command = ""
    try:
        words = sys.argv[1:] if arguments is None else arguments
        if words[:1] == ["standby"]:
            from shim.commands.standby import command as standby

            return standby.run(words[1:], parse)
        command, flags = parse(words)
        if command == "start":
            given = sys._xoptions.get("runhcs_daemon")
            if isinstance(given, str):
                from shim.commands import adopted

                adopted.run(flags, given)
            from shim.commands import start

            return start.run(flags, parse)
        if command == "delete":
            from shim.commands import delete

            return delete.run(flags)
        if command == "serve":
            if flags.spawned and flags.scope:
                from shim.commands.shared import spawned as shared

                shared.serve(flags, parse)
            if flags.spawned:
                from shim.commands import spawned

                spawned.serve(flags)
            from shim.commands import serve

            return serve.run(flags)
        if command == "info":
            from shim.commands import info

            return info.run()
        if command == "version":
            from shim.version import NAME, VERSION

            python = sys.version.partition(" ")[0]
            sys.stdout.write(f"{NAME}:\n  Version: {VERSION}\n  Python version: {python}\n")
        else:
            from shim.commands.usage import help_text

            sys.stdout.write(help_text())
    except CommandError as error:
        return fail(command, str(error))
    except Exception as error:
        # A traceback would become the message that containerd's users see. The exception's type identifies the failure.
        return fail(command, f"unexpected {type(error).__name__}: {error}; please report this")
    return 0


def fail(command: str, message: str) -> int:
    line = " ".join(message.split())
    sys.stderr.write(f"containerd-shim-runhcs-v1: {command + ': ' if command else ''}{line}\n")
    return 1


def command() -> NoReturn:
    """The entry point. It exits without the interpreter's finalization, which takes as long as some commands."""
    exit_process(main())


if __name__ == "__main__":
    command()
