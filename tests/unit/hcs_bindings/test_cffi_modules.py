"""The generated cffi modules: reproducible, with Windows' layout of structures, in step with the typed Protocols."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from shim.hcs_bindings import protocols
from shim.hcs_bindings._hcs_cffi import ffi

ROOT = Path(__file__).resolve().parents[3]


def build_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cffi_build", ROOT / "cffi_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("declarations", "module"), build_script().MODULES)
def test_generated_module_is_current(declarations: str, module: str, tmp_path: Path) -> None:
    again = tmp_path / Path(module).name
    build_script().generate(ROOT / declarations, again)
    assert again.read_text() == (ROOT / module).read_text(), "run `make native` and commit the result"


@pytest.mark.parametrize(
    ("struct", "size", "offsets"),
    [
        ("HCS_EVENT", 24, {"Type": 0, "EventData": 8, "Operation": 16}),
        (
            "HCS_PROCESS_INFORMATION",
            32,
            {"ProcessId": 0, "Reserved": 4, "StdInput": 8, "StdOutput": 16, "StdError": 24},
        ),
        ("WC_LAYER_DESCRIPTOR", 32, {"LayerId": 0, "Flags": 16, "Path": 24}),
        ("DriverInfo", 16, {"Flavour": 0, "HomeDir": 8}),
        ("RTL_OSVERSIONINFOW", 276, {"Size": 0, "Build": 12, "ServicePack": 20}),
        ("VIRTUAL_STORAGE_TYPE", 20, {"DeviceId": 0, "VendorId": 4}),
        (
            "CREATE_VIRTUAL_DISK_VERSION2",
            120,
            {"MaximumSize": 16, "BlockSizeInBytes": 24, "ParentPath": 40, "OpenFlags": 56, "ResiliencyGuid": 100},
        ),
        ("CREATE_VIRTUAL_DISK_PARAMETERS", 128, {"Version": 0, "Version2": 8}),
        ("GUID", 16, {"Data1": 0, "Data2": 4, "Data3": 6, "Data4": 8}),
    ],
)
def test_structures_have_windows_layout(struct: str, size: int, offsets: dict[str, int]) -> None:
    assert ffi.sizeof(struct) == size
    for field, offset in offsets.items():
        assert ffi.offsetof(struct, field) == offset


def declared() -> set[str]:
    names = set()
    for line in (ROOT / "shim/hcs_bindings/hcs.h").read_text().splitlines():
        if " WINAPI " in line and not line.startswith(("typedef", " *")):
            names.add(line.split(" WINAPI ")[1].split("(")[0])
    return names


def test_protocols_match_declarations() -> None:
    typed: list[str] = []
    libraries = (
        "ComputeCore", "ComputeStorage", "ComputeNetwork", "VmCompute", "CimFs", "Kernel32", "Ole32", "Ntdll",
        "VirtDisk",
    )  # fmt: skip
    for library in libraries:
        typed += [name for name in vars(getattr(protocols, library)) if name[0].isupper()]
    assert sorted(typed) == sorted(declared())
