"""Queries of HCS and HCN. They only read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from runhcs.selftest.runner import Context, Step, StepFailed
from shim.hcs_bindings import network, service
from shim.hcs_bindings.errors import HcsError
from shim.hcs_bindings.system import ComputeSystem

MISSING = "00000000-0000-0000-0000-00000000dead"


def _record(context: Context, call: str, query: str, run: Callable[[], Any]) -> Any:
    """Run a query and record its answer, or the code with which it fails."""
    try:
        answer = run()
    except HcsError as error:
        context.node.recording.queries.append({"call": call, "query": query, "result": f"0x{error.code:08X}"})
        raise
    context.node.recording.queries.append({"call": call, "query": query, "result": "0x00000000", "answer": answer})
    return answer


def _must(context: Context, call: str, query: str, run: Callable[[], Any]) -> Any:
    try:
        return _record(context, call, query, run)
    except HcsError as error:
        raise StepFailed(str(error), error.next_step) from None


def hcs(context: Context) -> str:
    basic = _must(context, "HcsGetServiceProperties", "Basic", lambda: service.properties("Basic")[0])
    versions = [f"{one.get('Major')}.{one.get('Minor')}" for one in basic.get("SupportedSchemaVersions", [])]
    if not any(version.startswith("2.") for version in versions):
        raise StepFailed(f"HCS supports schema versions {versions}", "use Windows Server 2019 or later")
    try:
        _record(context, "HcsGetServiceProperties", "NoSuchType", lambda: service.properties("NoSuchType"))
    except HcsError as error:
        context.details["unknown property type"] = f"0x{error.code:08X}"
    systems = _must(context, "HcsEnumerateComputeSystems", "", lambda: len(ComputeSystem.enumerate()))
    try:
        _record(context, "HcsOpenComputeSystem", "missing", lambda: ComputeSystem.open("selftest-missing").close())
    except HcsError as error:
        context.details["missing system"] = f"0x{error.code:08X}"
    else:
        raise StepFailed("HcsOpenComputeSystem opens a system that does not exist")
    return f"schema versions {', '.join(versions)}; {systems} compute systems"


def _count(query: Callable[[], list[str]]) -> int:
    return len(query())


def hcn(context: Context) -> str:
    counts = {}
    for name, query in (("networks", network.networks), ("endpoints", network.endpoints),
                        ("namespaces", network.namespaces)):  # fmt: skip
        counts[name] = _must(context, f"HcnEnumerate{name.capitalize()}", "", partial(_count, query))
    for name, read in (("Network", network.network), ("Endpoint", network.endpoint), ("Namespace", network.namespace)):
        try:
            _record(context, f"HcnOpen{name}", MISSING, partial(read, MISSING))
        except HcsError as error:
            context.details[f"missing {name.lower()}"] = f"0x{error.code:08X}"
        else:
            raise StepFailed(f"HcnOpen{name} opens an object that does not exist")
    return ", ".join(f"{count} {name}" for name, count in counts.items())


STEPS = [
    Step("hcs", "HCS answers: service properties, schema versions, enumeration, a missing system", hcs),
    Step("hcn", "HCN answers: networks, endpoints, namespaces, missing objects", hcn),
]
