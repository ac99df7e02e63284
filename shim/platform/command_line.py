r"""A Windows command line: which program it may name, and its arguments.

CreateProcess takes a quoted name as it is; an unquoted one ends at the first blank, or, if there is no such file, at
the next, and so on (https://learn.microsoft.com/en-us/windows/win32/api/processthreadsapi/nf-processthreadsapi-createprocessw).
Arguments are parsed as by CommandLineToArgvW.
"""

from __future__ import annotations

_BLANK = " \t"
_MAX_CANDIDATES = 8


def programs(line: str) -> list[str]:
    """The candidates for the program, most likely first."""
    text = line.lstrip(_BLANK)
    if text.startswith('"'):
        name = text[1:].partition('"')[0]
        return [name] if name else []
    ends = [at for at, char in enumerate(text) if char in _BLANK and text[at - 1] not in _BLANK]
    names = [text[:end] for end in ends[:_MAX_CANDIDATES]]
    whole = text.rstrip(_BLANK)
    if len(names) < _MAX_CANDIDATES and whole and whole not in names:
        names.append(whole)
    return names


def tail(line: str) -> str:
    """The part after the program's name."""
    return line[_end_of_program(line) :].lstrip(_BLANK)


def arguments(line: str) -> list[str]:
    """All arguments, the program's name first."""
    end = _end_of_program(line)
    found = [line[:end].strip('"')]
    at = end
    while True:
        while at < len(line) and line[at] in _BLANK:
            at += 1
        if at >= len(line):
            return found
        argument, at = _argument(line, at)
        found.append(argument)


def _end_of_program(line: str) -> int:
    if line.startswith('"'):
        closing = line.find('"', 1)
        return len(line) if closing < 0 else closing + 1
    return next((at for at, char in enumerate(line) if char in _BLANK), len(line))


def _argument(line: str, at: int) -> tuple[str, int]:
    """2n backslashes before a quote are n, one more makes the quote literal; so does a second quote within quotes."""
    parts: list[str] = []
    quoted = False
    while at < len(line) and (quoted or line[at] not in _BLANK):
        if line[at] == "\\":
            start = at
            while line[at : at + 1] == "\\":
                at += 1
            count = at - start
            before_quote = line[at : at + 1] == '"'
            parts.append("\\" * (count // 2 if before_quote else count))
            if before_quote and count % 2:
                parts.append('"')
                at += 1
            continue
        if line[at] == '"':
            if quoted and line[at + 1 : at + 2] == '"':
                parts.append('"')
                at += 1
            else:
                quoted = not quoted
        else:
            parts.append(line[at])
        at += 1
    return "".join(parts), at
