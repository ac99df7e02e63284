"""results.json: loads and dumps a `Run` through cattrs.

Fields of a later version are ignored. A name that was changed since is mapped when an old file is loaded, so that old
and new runs stay comparable.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve
from cattrs import Converter, transform_error
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from bench.report.results import ResultsError, Run, Series

# The number changes when a reader of the old format would misread the new one.
SCHEMA = "containerd-shim-bench/1"

# Names of measures, series and x axes in older files.
RENAMED = {
    "CPU per life": "CPU per lifecycle",
    "lives per second": "lifecycles per second",
    "lives at once": "concurrent lifecycles",
    "pod to gone": "pod teardown",
}

Points = dict[str, dict[float, list[float]]]


def _strict(*accepted: type) -> Callable[[Any, Any], Any]:
    """A hook that converts nothing: by default cattrs converts "3" to 3.0 and anything to a string."""

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
            raise TypeError
        return value

    return structure


_number = _strict(int, float)


def _structure_points(value: Any, _: Any) -> Points:
    return {
        name: {_number(x, float): [_number(one, float) for one in samples] for x, samples in points}
        for name, points in value.items()
    }


def _unstructure_points(points: Points) -> dict[str, list[list[Any]]]:
    return {name: [[x, samples] for x, samples in sorted(many.items())] for name, many in points.items()}


def _converter() -> Converter:
    converter = Converter()
    for one in (str, bool, int):
        converter.register_structure_hook(one, _strict(one))
    converter.register_structure_hook(float, _number)
    points = override(struct_hook=_structure_points, unstruct_hook=_unstructure_points)
    converter.register_structure_hook(Series, make_dict_structure_fn(Series, converter, points=points))
    converter.register_unstructure_hook(Series, make_dict_unstructure_fn(Series, converter, points=points))
    series = override(rename="series")
    converter.register_structure_hook(Run, make_dict_structure_fn(Run, converter, all_series=series))
    converter.register_unstructure_hook(Run, make_dict_unstructure_fn(Run, converter, all_series=series))
    return converter


CONVERTER = _converter()


def to_document(run: Run) -> dict[str, Any]:
    """The content of results.json without the summaries, which `artifacts` adds for readers."""
    return {"schema": SCHEMA, **CONVERTER.unstructure(run)}


def from_document(document: Any) -> Run:
    if not isinstance(document, dict) or "schema" not in document:
        raise ResultsError("not a results file: give a results.json written by `python -m bench`")
    if document["schema"] != SCHEMA:
        raise ResultsError(f"schema: {document['schema']!r} is not supported, expected {SCHEMA!r}: measure again")
    try:
        return _with_current_names(CONVERTER.structure(document, Run))
    except BaseValidationError as error:
        first, *more = transform_error(error, path="results", format_exception=_reason)
        reason, _, place = first.rpartition(" @ ")
        field = place.replace("results.all_series", "results.series")
        raise ResultsError(f"{field}: {reason}{f' (and {len(more)} more)' if more else ''}") from error


def _reason(error: BaseException, expected: type | None) -> str:
    if isinstance(error, ResultsError):
        return str(error)
    if isinstance(error, KeyError):
        return "required field is missing"
    if isinstance(error, ValueError) and error.args:
        return str(error.args[0])
    return f"invalid value, expected {getattr(expected, '__name__', expected) or 'another type'}"


def _with_current_names(run: Run) -> Run:
    measures = [evolve(one, name=RENAMED.get(one.name, one.name)) for one in run.measures]
    series = [evolve(one, name=RENAMED.get(one.name, one.name), x=RENAMED.get(one.x, one.x)) for one in run.all_series]
    return evolve(run, measures=measures, all_series=series)


def load(path: Path) -> Run:
    try:
        return from_document(json.loads(path.read_text()))
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ResultsError(f"{path}: not JSON: {error}") from error
    except ResultsError as error:
        raise ResultsError(f"{path}: {error}") from error
