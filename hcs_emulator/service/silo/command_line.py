"""Windows command lines, parsed as Windows parses them.

Windows passes one string to a program. Two parsers matter: CreateProcess, which finds the program at its start, and
CommandLineToArgvW (the C runtime does the same), by which a program gets its arguments. Parsing by the same rules
reveals a shim that quotes wrongly.
"""

from __future__ import annotations

_BLANK = " \t"
# CreateProcess continues to the end of the string; names with more blanks than this do not occur.
_MOST_CANDIDATES = 8


def split_arguments(command_line: str) -> list[str]:
    """The arguments, the program's own name first, by the rules of CommandLineToArgvW."""
    if not command_line:
        return []
    first, position = _program_name(command_line)
    arguments = [first]
    end = len(command_line)
    while True:
        while position < end and command_line[position] in _BLANK:
            position += 1
        if position == end:
            return arguments
        argument, position = _argument(command_line, position)
        arguments.append(argument)


def program_candidates(command_line: str) -> list[str]:
    """The names that CreateProcess tries for the program, in order.

    A quoted name is used as it is. An unquoted one ends at the first blank, unless no such file exists: then at the
    next blank, and so on. That is how `C:\\Program Files\\app.exe` works without quotes.
    """
    text = command_line.lstrip(_BLANK)
    if not text:
        return []
    if text[0] == '"':
        name = text[1:].partition('"')[0]
        return [name] if name else []
    candidates = []
    for position, character in enumerate(text):
        if character in _BLANK and text[position - 1] not in _BLANK:
            candidates.append(text[:position])
            if len(candidates) == _MOST_CANDIDATES:
                return candidates
    candidates.append(text.rstrip(_BLANK))
    return list(dict.fromkeys(candidates))


def command_tail(command_line: str) -> str:
    """The text after the program's name, unchanged: cmd parses it by its own rules."""
    if not command_line:
        return ""
    return command_line[_program_name(command_line)[1] :].lstrip(_BLANK)


def _program_name(text: str) -> tuple[str, int]:
    """The first argument: quotes group, and a backslash has no meaning, since no file name holds a quote."""
    if text[0] == '"':
        name, _, _ = text[1:].partition('"')
        return name, min(len(name) + 2, len(text))
    end = next((i for i, character in enumerate(text) if character in _BLANK), len(text))
    return text[:end], end


def _argument(text: str, position: int) -> tuple[str, int]:
    """One further argument.

    2n backslashes before a quote are n, one more makes the quote literal, and so does doubling it within quotes.
    """
    parts: list[str] = []
    quoted = False
    end = len(text)
    while position < end:
        character = text[position]
        if character == "\\":
            start = position
            while position < end and text[position] == "\\":
                position += 1
            count = position - start
            if position < end and text[position] == '"':
                parts.append("\\" * (count // 2))
                if count % 2:
                    parts.append('"')
                    position += 1
            else:
                parts.append("\\" * count)
            continue
        if character == '"':
            if quoted and text[position + 1 : position + 2] == '"':
                parts.append('"')
                position += 1
            quoted = not quoted
        elif character in _BLANK and not quoted:
            break
        else:
            parts.append(character)
        position += 1
    return "".join(parts), position
