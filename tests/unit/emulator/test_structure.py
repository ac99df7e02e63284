"""Packages of the service depend one way, in the order that hcs_emulator/service/__init__.py describes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SERVICE = Path(__file__).resolve().parents[3] / "hcs_emulator" / "service"
# From top to bottom: a package may import those in lines below it.
ORDER = [
    {"__main__"},
    {"run"},
    {"control"},
    {"dispatch"},
    {"exports"},
    {"host"},
    {"virtual_machine"},
    {"compute_system"},
    {"wine"},
    {"silo"},
    {"storage", "network"},
    {"service_properties", "journal", "faults", "latency", "memory", "malloc", "events"},
    {"handles", "transport", "convert", "directory"},
    {"schema"},
    {"errors", "__init__"},
]
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}


def runtime_imports(node: ast.AST) -> Iterator[str]:
    """Imported modules, without those for type checks."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and child.module:
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        yield from runtime_imports(child)


def package(path: Path) -> str:
    return path.relative_to(SERVICE).parts[0].removesuffix(".py")


def test_every_package_has_a_level() -> None:
    assert {package(path) for path in SERVICE.rglob("*.py")} == set(LEVEL)


def test_imports_point_down() -> None:
    wrong = []
    for path in SERVICE.rglob("*.py"):
        importer = package(path)
        for name in runtime_imports(ast.parse(path.read_text())):
            parts = name.split(".")
            if parts[:2] != ["hcs_emulator", "service"] or parts[2] == importer:
                continue
            if LEVEL[parts[2]] <= LEVEL[importer]:
                wrong.append(f"{path.relative_to(SERVICE)} imports {name}")
    assert wrong == []


def test_service_does_not_import_the_vm_worker() -> None:
    """It may find the program of Microsoft's agent, which is built outside of the VM."""
    allowed = {"hcs_emulator.vm.linux.gcs.build"}
    for path in SERVICE.rglob("*.py"):
        imports = set(runtime_imports(ast.parse(path.read_text())))
        assert not [name for name in imports - allowed if name.startswith("hcs_emulator.vm")], path
