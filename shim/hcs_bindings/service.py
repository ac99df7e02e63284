"""The compute service itself: its properties, and settings of no particular compute system. Synchronous calls."""

from __future__ import annotations

from shim.hcs_bindings import errors
from shim.hcs_bindings.library import computecore
from shim.hcs_bindings.strings import dump, dump_optional, load_object, out, take_local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Document = dict[str, Any]


def properties(*types: str) -> list[Any]:
    """One result for each of the named types (`Basic`, `ProcessorTopology`, `CpuGroup` …), in their order."""
    name = f"hcs::GetServiceProperties: {' '.join(types)}".rstrip(": ")
    query = {"PropertyTypes": list(types)} if types else None
    place = out()
    code = computecore.HcsGetServiceProperties(dump_optional(query), place)
    document = take_local(place)
    if code < 0:
        raise errors.from_document(code, name, document)
    found = load_object(document, name).get("Properties")
    answers = found if isinstance(found, list) else []
    if types and len(answers) != len(types):  # they are identified by position only
        detail = f"{len(types)} properties were asked for, {len(answers)} came"
        raise errors.HcsError(errors.UNEXPECTED, name, detail=detail)
    return answers


def modify(settings: Document) -> Document:
    """Change a setting of the service (`PropertyType`, `Settings`). Returns the result, if there is one."""
    name = f"hcs::ModifyServiceSettings: {settings.get('PropertyType', '')}".rstrip(": ")
    place = out()
    code = computecore.HcsModifyServiceSettings(dump(settings), place)
    document = take_local(place)
    if code < 0:
        raise errors.from_document(code, name, document)
    return load_object(document, name) if document.strip() else {}


def submit_crash_report(report: str) -> None:
    """Submit the data of a crash event to Windows Error Reporting."""
    code = computecore.HcsSubmitWerReport(report)
    if code < 0:
        raise errors.HcsError(code, "hcs::SubmitWerReport")
