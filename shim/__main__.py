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

TEXT_FLAGS = ("namespace", "address", "publish-binary", "id", "bundle", "socket", "listener", "standby")
SWITCHES = ("debug", "is-sandbox", "spawned")
QUERIES = {"v": "version", "version": "version", "info": "info", "h": "help", "help": "help"}
ACTIONS = ("start", "delete", "serve")
BOOLEANS = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}

HELP = """\
containerd-shim-runhcs-v1 is run by containerd, not by hand: it serves the containers of one pod whose runtime is
io.containerd.runhcs.v1. To see it work, use `ctr run --runtime io.containerd.runhcs.v1 ...` or `runhcs --help`.

  containerd-shim-runhcs-v1 FLAGS start     in a bundle directory: start the daemon, or find the pod's, and print its
                                            address
  containerd-shim-runhcs-v1 FLAGS delete    release what a container left behind, print a DeleteResponse
  containerd-shim-runhcs-v1 FLAGS serve     run the daemon in the foreground (needs -socket)
  containerd-shim-runhcs-v1 -info           print a RuntimeInfo
  containerd-shim-runhcs-v1 -version        print versions

Flags take one dash or two, a value after a space or after '=':
  -namespace NAME         containerd's namespace                      start, delete, serve
  -address PATH           containerd's gRPC address                   start, delete, serve
  -publish-binary PATH    containerd, to publish events               start, delete, serve
  -id ID                  container or sandbox                        start, delete, serve
  -bundle DIR             the container's bundle                      delete; serve (default: current directory)
  -socket ADDRESS         address to listen on                        serve
  -is-sandbox             the id is a pod sandbox                     serve
  -debug                  log at debug level

Runtime options are read from stdin by start, serve and -info (a protobuf Any, or BootstrapParams; empty is fine).
TTRPC_ADDRESS in the environment is the address for events, RUNHCS_SOCKET_DIR the directory of sockets (default
/run/containerd/s).
"""


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

            return start.run(flags)
        if command == "delete":
            from shim.commands import delete

            return delete.run(flags)
        if command == "serve":
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
            sys.stdout.write(HELP)
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
