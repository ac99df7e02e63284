"""The kernel command line of a Linux VM: arguments of the kernel, `--`, then arguments of init.

Init takes `-e PORT` (entropy), `-w` (writable overlays) and `-d SHELL`, then the command that it runs:
`/bin/vsockexec [-i PORT] [-o PORT] -e PORT PROGRAM ARGUMENT…` connects streams of a program to ports of the host. With
a console the command is `sh -c "COMMAND & exec sh"`.
"""

from __future__ import annotations

import shlex

AGENT = "/bin/gcs"
_RELAY = "/bin/vsockexec"
_STREAMS = {"-i": "stdin", "-o": "stdout", "-e": "stderr"}
_PORTS = range(1, 1 << 32)

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


class CommandLineError(ValueError):
    """The kernel or init would not understand the command line."""


class BootCommand:
    """What the command line asks for. `ports` are the host's ports for the streams of the agent."""

    def __init__(self) -> None:
        self.kernel: dict[str, str | None] = {}
        self.entropy_port = 0
        self.writable_overlays = False
        self.console = False
        self.ports: dict[str, int] = {}
        self.arguments: list[str] = []

    def for_worker(self) -> dict[str, object]:
        return {
            "entropy_port": self.entropy_port,
            "ports": self.ports,
            "arguments": self.arguments,
            "console": self.console,
        }


def parse(line: str) -> BootCommand:
    command = BootCommand()
    try:
        words = shlex.split(line, posix=True)
    except ValueError as error:
        raise CommandLineError(f"the kernel command line has an open quotation: {error}") from None
    if "--" not in words:
        raise CommandLineError("the kernel command line has no arguments for init: they follow `--`")
    border = words.index("--")
    for word in words[:border]:
        _kernel_argument(command, word)
    _init_arguments(command, words[border + 1 :])
    return command


def _kernel_argument(command: BootCommand, word: str) -> None:
    name, equals, value = word.partition("=")
    if not name or not set(name) <= _NAME or name.startswith("-"):
        raise CommandLineError(f"{word} has not the form of a kernel argument")
    command.kernel[name] = value if equals else None


def _init_arguments(command: BootCommand, words: list[str]) -> None:
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "-w":
            command.writable_overlays = True
        elif option == "-e":
            command.entropy_port = _port(words, option)
        elif option == "-d":
            _value(words, option)
        else:
            raise CommandLineError(f"init has no option {option}")
    if not command.entropy_port:
        raise CommandLineError("init has no port for entropy (-e): add it to the kernel command line")
    if words[:2] == ["sh", "-c"] and len(words) == 3:
        command.console = True
        words = _without_console(words[2])
    if not words or words.pop(0) != _RELAY:
        raise CommandLineError(f"init runs {_RELAY}, which connects the agent's log to the host")
    while words and words[0] in _STREAMS:
        stream = _STREAMS[words.pop(0)]
        command.ports[stream] = _port(words, stream)
    if not words or words[0] != AGENT:
        raise CommandLineError(f"the image has the agent {AGENT}, not {words[0] if words else 'nothing'}")
    command.arguments = words


def _without_console(text: str) -> list[str]:
    part, separator, rest = text.partition("&")
    if not separator or rest.split() != ["exec", "sh"]:
        raise CommandLineError("the command of a console is `COMMAND & exec sh`")
    return shlex.split(part)


def _value(words: list[str], option: str) -> str:
    if not words:
        raise CommandLineError(f"{option} needs a value")
    return words.pop(0)


def _port(words: list[str], option: str) -> int:
    value = _value(words, option)
    if not value.isdecimal() or int(value) not in _PORTS:
        raise CommandLineError(f"{option} needs a port, not {value}")
    return int(value)
