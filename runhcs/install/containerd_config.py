"""containerd's configuration: our runtimes in a file of their own, which the main file imports.

The main file changes by one import and is otherwise preserved byte for byte. Every edit is verified: the edited text is
parsed and must equal the parsed original with the import added or removed.

How containerd merges an imported file depends on its version. containerd 2.x merges tables key by key. containerd 1.x
replaces the whole section of a plugin by that of the imported file
(https://github.com/containerd/containerd/blob/v1.7.0/services/server/config/config.go, mergeConfig): our file would
remove the registry and CNI settings of the main file. So for version 2 of the configuration, which containerd 1.x uses,
our file contains a copy of the plugin's section with the runtimes added.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from runhcs.config import containerd as runtimes_toml
from runhcs.config.runtimes import Runtime

IMPORT_FILE = "runhcs.toml"
MARK = "# added by `runhcs install`"
BOM = "\ufeff"
# containerd's major version by the version of the configuration.
MAJORS = {version: major for major, (version, _) in runtimes_toml.FORMATS.items()}
COPY_HEADER = """\
# Runtimes of Windows nodes for containerd 1.x, by `runhcs install`.
# containerd 1.x replaces the whole section of a plugin by that of an imported file. So this is a copy of the section
# in containerd's configuration with the runtimes added: after you change that section, run `runhcs install` again.
"""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_KEY = r'[ \t]*(?:{0}|"{0}"|\'{0}\')[ \t]*='


class ConfigError(ValueError):
    """A configuration that cannot be edited; the message names the next step."""


def parse(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix(BOM).replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is not valid TOML: {error}; containerd cannot read it either") from None


def version_of(settings: Mapping[str, Any], name: str) -> int:
    version = settings.get("version", 1)
    if version not in MAJORS:
        known = " and ".join(map(str, sorted(MAJORS)))
        step = "run `containerd config migrate`"
        raise ConfigError(f"{name} has version {version}; versions {known} are supported: {step}")
    return int(version)


def new_text(version: int, path: str) -> str:
    """A main file, for a containerd without one."""
    return f"version = {version}\nimports = [{_quoted(path)}] {MARK}\n"


# -- The import in the main file.


def with_import(text: str, path: str, name: str = "config.toml") -> str:
    """The text with this import, last; the same text if an import or a pattern of the file includes it."""
    settings = parse(text, name)
    imports = settings.get("imports", [])
    if any(_is_same(one, path) or fnmatchcase(_normal(path), _normal(one)) for one in imports):
        return text
    if "imports" in settings:
        start, last, _ = _imports(text, name)
        edited = text[:last] + (", " if last > start else "") + _quoted(path) + text[last:]
    else:
        at, newline = _after_version(text, name)
        edited = f"{text[:at]}imports = [{_quoted(path)}] {MARK}{newline}{text[at:]}"
    _verify(edited, {**settings, "imports": [*imports, path]}, name)
    return edited


def without_import(text: str, path: str, name: str = "config.toml") -> str:
    """The inverse of `with_import`."""
    settings = parse(text, name)
    imports = settings.get("imports", [])
    rest = [one for one in imports if not _is_same(one, path)]
    if rest == imports:
        return text
    expected = {**settings, "imports": rest}
    line = re.search(rf"^{_KEY.format('imports')}[ \t]*\[[^\n]*\][ \t]*{re.escape(MARK)}\r?\n", text, re.MULTILINE)
    if not rest and line is not None:
        del expected["imports"]
        edited = text[: line.start()] + text[line.end() :]
    else:
        elements = _imports(text, name)[2]
        at = next(at for at, one in enumerate(imports) if _is_same(one, path))
        begin, end = elements[at]
        if at:  # with the comma before it
            begin = elements[at - 1][1]
        elif len(elements) > 1:
            end = elements[1][0]
        edited = text[:begin] + text[end:]
    _verify(edited, expected, name)
    return edited


def _verify(text: str, expected: Mapping[str, Any], name: str) -> None:
    try:
        changed = parse(text, name) != expected
    except ConfigError:
        changed = True
    if changed:
        raise ConfigError(f"the imports of {name} cannot be edited: add the import by hand (see --dry-run)")


def _after_version(text: str, name: str) -> tuple[int, str]:
    """The offset after the line of the version, which every file of version 2 and 3 has, and its line ending."""
    match = re.search(rf"^{BOM}?{_KEY.format('version')}[^\r\n]*(\r?\n|\Z)", text, re.MULTILINE)
    if match is None:
        raise ConfigError(f"{name} has no line with its version: add `version = 2` or 3 first")
    if not match[1]:
        raise ConfigError(f"{name} ends in the line of its version: end the line first")
    return match.end(), match[1]


def _imports(text: str, name: str) -> tuple[int, int, list[tuple[int, int]]]:
    """The offsets after the opening bracket and after the last element, and those of each element."""
    match = re.search(rf"^{_KEY.format('imports')}[ \t]*\[", text, re.MULTILINE)
    if match is None:
        raise ConfigError(f"the imports of {name} are not written as `imports = […]`: add the import by hand")
    token = re.compile(r"""#[^\n]*|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[],\s]""")
    at = last = match.end()
    elements: list[tuple[int, int]] = []
    while found := token.match(text, at):
        at = found.end()
        if found[0] == "]":
            return match.end(), last, elements
        if found[0][0] in "\"'":
            elements.append(found.span())
            last = at
    raise ConfigError(f"the imports of {name} cannot be read at offset {at}")


def _is_same(one: str, path: str) -> bool:
    """Windows' paths are the same in any case and with any slash."""
    return _normal(one) == _normal(path)


def _normal(path: str) -> str:
    return re.sub(r"[\\/]+", "/", path).casefold()


# -- The imported file.


def load(path: Path, skip: str = "") -> list[dict[str, Any]]:
    """The main file and its imports, in the order in which containerd loads them, without the file `skip`."""
    pending, seen, loaded = [path], set(), []
    while pending:
        file = pending.pop(0)
        key = _normal(str(file))
        if key in seen or key == _normal(skip):
            continue
        seen.add(key)
        settings = parse(file.read_bytes().decode("utf-8"), str(file))
        loaded.append(settings)
        for one in settings.get("imports", []):
            target = Path(one) if PurePath(one).is_absolute() else file.parent / one
            pending += sorted(target.parent.glob(target.name)) if "*" in one else [target]
    return loaded


def effective_section(files: Sequence[Mapping[str, Any]], version: int) -> dict[str, Any]:
    """CRI's section as containerd merges it from these files."""
    plugin = runtimes_toml.FORMATS[MAJORS[version]][1]
    section: dict[str, Any] = {}
    for settings in files:
        found = settings.get("plugins", {}).get(plugin)
        if isinstance(found, dict):
            section = found if version == 2 else merged(section, found)
    return section


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Tables key by key; other values of `over` replace those of `base`."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def runtimes_text(
    runtimes: list[Runtime], version: int, program: str, section: Mapping[str, Any], emulator: bool = False
) -> str:
    """The imported file. `section` is CRI's section without it. A default runtime that is configured is kept, and a
    Linux node keeps runc."""
    has_default = emulator or bool(section.get("containerd", {}).get("default_runtime_name"))
    text = runtimes_toml.text(runtimes, MAJORS[version], program, with_default=not has_default, emulator=emulator)
    if version != 2 or not section:
        return text
    plugin = runtimes_toml.FORMATS[MAJORS[version]][1]
    ours = parse(text, "our runtimes")["plugins"][plugin]
    return f"{COPY_HEADER}version = {version}\n" + dump(merged(section, ours), ("plugins", plugin))


def is_copy_current(main: Path, imported: Path) -> bool:
    """Whether the imported file has every setting of the section that it replaces in containerd 1.x."""
    if not imported.exists():
        return True
    ours = parse(imported.read_bytes().decode("utf-8"), str(imported))
    if ours.get("version") != 2:
        return True
    section = effective_section(load(main, str(imported)), 2)
    copy = effective_section([ours], 2)
    known = copy.get("containerd", {}).get("runtimes", {})
    settings = dict(section.get("containerd", {}))
    settings["runtimes"] = {name: one for name, one in settings.get("runtimes", {}).items() if name not in known}
    return merged(copy, {**section, "containerd": settings}) == copy


def dump(table: Mapping[str, Any], path: tuple[str, ...]) -> str:
    """A table and its subtables as TOML."""
    values = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in values.items()]
    tables = {key: value for key, value in table.items() if isinstance(value, dict)}
    text = f"\n[{'.'.join(map(_key, path))}]\n" + "".join(f"{line}\n" for line in lines) if lines or not tables else ""
    return text + "".join(dump(value, (*path, key)) for key, value in tables.items())


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _basic(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, dict):  # in an array
        return "{" + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + "}"
    return str(value)  # numbers and times


def _quoted(text: str) -> str:
    """A literal string where possible: paths keep their backslashes."""
    if "'" not in text and text.isprintable():
        return f"'{text}'"
    return _basic(text)


def _basic(text: str) -> str:
    """A basic string: one of JSON, except that TOML also requires an escape for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
