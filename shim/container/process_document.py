"""The process document (`ProcessParameters` of HCS), from an OCI process."""

from __future__ import annotations

from shim.oci.errors import InvalidSpec
from shim.oci.section import Section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Document = dict[str, Any]

# CreateProcessW takes 32,767 characters, the terminating zero among them.
MAX_COMMAND_LINE = 32_766
# A variable, `NAME=value`, likewise.
MAX_VARIABLE = 32_766
# Windows has no limit for all of them together, programs do: this is far above what any was seen to survive.
MAX_ENVIRONMENT = 262_144

# A pause container that is a bare shell exits at once without a terminal; this command does not.
PAUSE_SHELL = "c:\\windows\\system32\\cmd.exe"
PAUSE_COMMAND = "cmd /c ping -t 127.0.0.1 > nul"


def quote(argument: str) -> str:
    """Quote one argument, so that CommandLineToArgvW and the C runtime parse it back unchanged."""
    quoted = not argument or " " in argument or "\t" in argument
    out = []
    backslashes = 0
    for char in argument:
        if char == "\\":
            backslashes += 1
        else:
            if char == '"':
                # Backslashes are special only before a quote: they are doubled, and one more escapes the quote.
                out.append("\\" * (backslashes + 1))
            backslashes = 0
        out.append(char)
    if quoted:
        # The closing quote must not be escaped by what comes before it.
        return '"' + "".join(out) + "\\" * backslashes + '"'
    return "".join(out)


def command_line(process: Section, container: Section | None = None) -> str:
    """`commandLine` has precedence over `args`.

    A client that creates an exec by copying the container's process and setting `args` leaves the container's
    `commandLine` in it, and does not mean to run that again: `args` have precedence over the container's own
    `commandLine` (`container`).
    """
    line = process.text("commandLine")
    args = process.texts("args")
    if line and not (args and container is not None and line == container.text("commandLine")):
        return line
    if not args or not args[0]:
        raise InvalidSpec(f"{process.path} names no program: give {process.path}.args or {process.path}.commandLine")
    return " ".join(quote(argument) for argument in args)


def parameters(
    process: Section,
    *,
    stdin: bool,
    stdout: bool,
    stderr: bool,
    terminal: bool | None = None,
    container: Section | None = None,
) -> Document:
    """The document of a process.

    `stdin`, `stdout` and `stderr` request pipes; `terminal` overrides the spec's. `container` is the container's own
    process, for an exec.
    """
    console = process.flag("terminal") if terminal is None else terminal
    document: Document = {"CommandLine": _checked_line(command_line(process, container), process)}
    if user := process.section("user").text("username"):
        document["User"] = user
    if directory := _directory(process):
        document["WorkingDirectory"] = directory
    if environment := _environment(process):
        document["Environment"] = environment
    if console:
        document["EmulateConsole"] = True
    if stdin:
        document["CreateStdInPipe"] = True
    if stdout:
        document["CreateStdOutPipe"] = True
    if stderr and not console:  # a console has no error stream of its own
        document["CreateStdErrPipe"] = True
    if process.has("consoleSize"):
        document["ConsoleSize"] = _console_size(process.section("consoleSize"))
    return document


def keep_alive(document: Document) -> Document:
    """A sandbox whose process is a bare shell: run a command that does not exit."""
    if document.get("CommandLine", "").lower() == PAUSE_SHELL:
        return {**document, "CommandLine": PAUSE_COMMAND}
    return document


def _checked_line(line: str, process: Section) -> str:
    _refuse_zero(line, f"{process.path}.args")
    if length(line) > MAX_COMMAND_LINE:
        raise InvalidSpec(
            f"the command line of {process.path} has {length(line)} characters and Windows takes {MAX_COMMAND_LINE}: "
            "shorten it, or hand the rest over in a file"
        )
    return line


def _directory(process: Section) -> str:
    directory = process.text("cwd")
    _refuse_zero(directory, f"{process.path}.cwd")
    if directory and not is_absolute_in_container(directory):
        raise InvalidSpec(
            f"{process.path}.cwd is {directory!r}, a relative path: give an absolute one, such as C:\\work"
        )
    return directory


def is_absolute_in_container(path: str) -> bool:
    """`C:\\dir`, `C:/dir`, `\\dir`, `/dir`; not `dir` and not `C:dir`."""
    return path.startswith(("\\", "/")) or (len(path) > 2 and path[0].isalpha() and path[1] == ":" and path[2] in "\\/")


def _environment(process: Section) -> dict[str, str]:
    """Variables. On Windows one without a value does not exist, so such entries are dropped."""
    variables = {}
    total = 0
    for index, entry in enumerate(process.texts("env")):
        name, _, value = entry.partition("=")
        _refuse_zero(entry, f"{process.path}.env[{index}]")
        if not name or "=" not in entry or not value:
            continue
        size = length(entry)
        if size > MAX_VARIABLE:
            raise InvalidSpec(
                f"environment variable {name[:100]} ({process.path}.env[{index}]) has {size} characters and "
                f"{MAX_VARIABLE} is the most: hand it over in a file"
            )
        total += size + 1
        variables[name] = value
    if total > MAX_ENVIRONMENT:
        raise InvalidSpec(
            f"{process.path}.env has {total} characters in all and {MAX_ENVIRONMENT} is the most: hand some of it "
            "over in a file"
        )
    return variables


def _console_size(size: Section) -> list[int]:
    height, width = size.number("height"), size.number("width")
    if max(height, width) > 0xFFFF:
        raise InvalidSpec(f"{size.path} is {width}x{height}: 65535 is the most in either direction")
    return [height, width]


def _refuse_zero(text: str, where: str) -> None:
    if "\0" in text:
        raise InvalidSpec(f"{where} holds a NUL character: remove it")


def length(text: str) -> int:
    """In UTF-16 units, as Windows counts."""
    return len(text) + sum(char > "\uffff" for char in text) if not text.isascii() else len(text)
