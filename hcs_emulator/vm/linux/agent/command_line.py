"""The command line of gcs, in the syntax of Go's `flag` package: `-name value`, `-name=value`, one or two dashes."""

from __future__ import annotations

_BOOLEANS = {
    "1": True, "t": True, "T": True, "true": True, "TRUE": True, "True": True,
    "0": False, "f": False, "F": False, "false": False, "FALSE": False, "False": False,
}  # fmt: skip

DEFAULTS: dict[str, str | int | bool] = {
    "loglevel": "debug",
    "core-dump-location": "",
    "kmsgLogLevel": 4,
    "logfile": "",
    "log-format": "text",
    "use-inouterr": False,
    "v4": False,
    "root-mem-reserve-bytes": 75 << 20,
    "gcs-mem-limit-bytes": 50 << 20,
    "disable-time-sync": False,
    "scrub-logs": True,
    "initial-policy-stance": "allow",
}


class UsageError(ValueError):
    """The command line is not one of gcs."""


def parse(arguments: list[str]) -> dict[str, str | int | bool]:
    flags = dict(DEFAULTS)
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--" or len(argument) < 2 or not argument.startswith("-"):
            break  # the agent takes no further arguments; gcs ignores them
        name, equals, value = argument[2 if argument.startswith("--") else 1 :].partition("=")
        if name not in flags:
            raise UsageError(f"flag provided but not defined: -{name}")
        if isinstance(flags[name], bool):
            if equals and value not in _BOOLEANS:
                raise UsageError(f'invalid boolean value "{value}" for -{name}: parse error')
            flags[name] = _BOOLEANS[value] if equals else True
            continue
        if not equals:
            if not rest:
                raise UsageError(f"flag needs an argument: -{name}")
            value = rest.pop(0)
        if isinstance(flags[name], int):
            try:
                flags[name] = int(value, 0)
            except ValueError:
                raise UsageError(f'invalid value "{value}" for flag -{name}: parse error') from None
        else:
            flags[name] = value
    return flags
