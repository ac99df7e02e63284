"""calls.def, the table of HCS calls: every row has an export function and agrees with the declarations of the shim."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hcs_emulator.service import dispatch  # noqa: F401 - fills the registry
from hcs_emulator.service.exports.registry import EXPORTS
from hcs_emulator.service.transport.wire import CALLS_BY_NAME, CallDefinition

ROOT = Path(__file__).resolve().parents[3]
TABLE = ROOT / "hcs_emulator" / "native" / "library" / "calls.def"
DECLARATIONS = ROOT / "shim" / "hcs_bindings" / "hcs.h"

_STRING = {"PCWSTR", "const GUID *"}  # a GUID travels as text
_HANDLE = {"HCS_SYSTEM", "HCS_PROCESS", "HANDLE"}
_NUMBER = {"DWORD", "ULONG", "int32_t", "uint32_t", "uint64_t"}
# An array and the type of its length; all of it is sent as further strings.
_ARRAYS = {"WC_LAYER_DESCRIPTOR *": "ULONG", "const CIMFS_IMAGE_PATH *": "uint32_t"}
# Handled in the library or without a service argument of their own.
_LOCAL = {
    "HCS_OPERATION", "HCS_EVENT_CALLBACK", "DriverInfo *", "const void *", "void *", "size_t *", "PWSTR", "GUID *",
    "HANDLE *", "HCS_SYSTEM *", "HCS_PROCESS *", "PWSTR *", "ULONG *", "RTL_OSVERSIONINFOW *",
}  # fmt: skip
# The job object calls marshal structures: the handle is the job's name, and the object attributes hold it.
# CreateVirtualDisk sends members of its parameters.
_MARSHALLED = {"NtOpenJobObject", "NtSetInformationJobObject", "CreateVirtualDisk"}
# Of two numbers of HcsOpenProcess only the pid is sent; the identity of HcsModifyComputeSystem is a number.
_NUMBERS = {"HcsOpenProcess": 2, "HcsModifyComputeSystem": 0}


def declared() -> dict[str, list[str]]:
    """The parameter types of every function in hcs.h."""
    found = re.findall(r"^[\w ]+WINAPI (\w+)\(([^)]*)\);", DECLARATIONS.read_text(), re.MULTILINE)
    return {name: [_type(parameter) for parameter in parameters.split(",")] for name, parameters in found}


def _type(parameter: str) -> str:
    kind, _ = re.fullmatch(r"\s*(.*?)(\w+)\s*", parameter, re.DOTALL).groups()  # type: ignore[union-attr]
    return " ".join(kind.split())


BOUND = {name: types for name, types in declared().items() if name in CALLS_BY_NAME}


def test_table_rows_are_well_formed_and_unique() -> None:
    rows = [line for line in TABLE.read_text().splitlines() if line.startswith("CALL(")]
    numbers = {definition.number for definition in CALLS_BY_NAME.values()}
    assert len(rows) == len(CALLS_BY_NAME) == len(numbers)


def test_every_call_has_an_export_function() -> None:
    assert sorted(EXPORTS) == sorted(CALLS_BY_NAME)


def test_shim_binds_most_of_the_table() -> None:
    assert len(BOUND) > 70


@pytest.mark.parametrize("name", sorted(set(BOUND) - _MARSHALLED))
def test_call_arguments_match_the_declaration_of_the_shim(name: str) -> None:
    definition: CallDefinition = CALLS_BY_NAME[name]
    types = list(BOUND[name])
    variadic = [argument for argument in definition.strings if argument.startswith("*")]
    arrays = [kind for kind in types if kind in _ARRAYS]
    assert len(arrays) == len(variadic)
    for array in arrays:
        types.remove(array)
        types.remove(_ARRAYS[array])
    assert set(types) <= _STRING | _HANDLE | _NUMBER | _LOCAL, "a parameter type that this test does not know"
    assert types.count("PCWSTR") + types.count("const GUID *") == len(definition.strings) - len(variadic)
    assert any(kind in _HANDLE for kind in types) == bool(definition.handle)
    numbers = sum(kind in _NUMBER for kind in types)
    assert numbers == _NUMBERS.get(name, int(bool(definition.number_argument)))
