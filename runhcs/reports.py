"""JSON in and out of `runhcs`: what shims report about themselves (`runhcs.inspect.v1`), and the `--json` output.

Reports come from other processes, possibly of another version: cattrs converts them into attrs classes and rejects
values of the wrong type; unknown members are kept in `raw`, which `runhcs inspect` shows whole.
"""

from __future__ import annotations

import json
from typing import Any

import cattrs
from attrs import field, frozen
from attrs.validators import deep_iterable, ge, instance_of, optional

_CONVERTER = cattrs.Converter()
_TEXT = instance_of(str)


class ReportError(ValueError):
    """A report that cannot be read."""


@frozen
class ExecReport:
    id: str = field(validator=_TEXT)
    state: str = field(default="", validator=_TEXT)


@frozen
class TaskReport:
    id: str = field(validator=_TEXT)
    state: str = field(default="", validator=_TEXT)
    deleted: bool = field(default=False, validator=instance_of(bool))
    execs: list[ExecReport] = field(factory=list, validator=deep_iterable(instance_of(ExecReport)))


@frozen
class VmReport:
    id: str = field(validator=_TEXT)


@frozen
class ShimReport:
    pid: int = field(validator=[instance_of(int), ge(0)])
    namespace: str = field(default="", validator=_TEXT)
    id: str = field(default="", validator=_TEXT)
    bundle: str = field(default="", validator=_TEXT)
    is_sandbox: bool = field(default=False, validator=instance_of(bool))
    #: Which pods its process serves: `pod`, or several of a `namespace` or `node`.
    scope: str = field(default="pod", validator=_TEXT)
    tasks: list[TaskReport] = field(factory=list, validator=deep_iterable(instance_of(TaskReport)))
    #: Ids of tasks whose Create is in progress.
    creating: list[str] = field(factory=list, validator=deep_iterable(_TEXT))
    vm: VmReport | None = field(default=None, validator=optional(instance_of(VmReport)))
    #: The report as received.
    raw: dict[str, Any] = field(factory=dict, repr=False)


def _no_coercion(value: Any, kind: type) -> Any:
    """cattrs converts scalars by calling the type (`str(5)`); a report with the wrong type is an error."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


for _kind in (str, int, bool):
    _CONVERTER.register_structure_hook(_kind, _no_coercion)


def read_shim_report(text: str) -> ShimReport:
    """Raises ReportError."""
    try:
        raw = json.loads(text)
        creating = raw.get("creating", raw.get("making", []))  # `making` is the key of 0.1.0
        return _CONVERTER.structure({**raw, "creating": creating, "raw": raw}, ShimReport)
    except (ValueError, TypeError, AttributeError, cattrs.BaseValidationError) as error:
        reasons = cattrs.transform_error(error) if isinstance(error, cattrs.BaseValidationError) else [str(error)]
        raise ReportError("; ".join(reasons)) from None


def as_json(value: Any) -> str:
    """attrs instances, and lists and dictionaries of them, for --json."""
    return json.dumps(_CONVERTER.unstructure(value), indent=2)
