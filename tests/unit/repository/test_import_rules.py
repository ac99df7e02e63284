"""Dependencies point one way (docs/explanation/architecture.md); only `shim/platform` knows the operating system."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

# What a room of the shim may import from other rooms of the shim. A room that is not named here may not exist.
ALLOWED: dict[str, set[str]] = {
    "api": set(),
    "ttrpc": {"api"},
    "platform": set(),
    "hcs_bindings": {"platform"},
    "oci": {"api", "platform"},
    "container": {"api", "hcs_bindings", "oci", "platform"},
    "hostprocess": {"api", "container", "hcs_bindings", "oci", "platform"},
    "uvm": {"api", "container", "hcs_bindings", "logs", "oci", "platform"},
    "task": {"api", "container", "hcs_bindings", "hostprocess", "logs", "oci", "platform", "ttrpc", "uvm"},
    "logs": {"platform"},
    "commands": {"api", "container", "hcs_bindings", "logs", "oci", "platform", "task", "ttrpc", "uvm"},
    "__main__": {"commands"},
    "__init__": set(),
}
# Leaf modules that carry no knowledge of their room (plain codecs and readers, a note pad); anyone may use them.
EVERYONE = {"version", "lean_json", "spans"}
# Packages that neither the shim nor the emulator may import.
OTHER_PACKAGES = {"launcher", "runhcs", "bench", "tests"}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            if node.level:
                package = list(path.relative_to(ROOT).with_suffix("").parts[: -node.level])
                base = ".".join([*package, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


SHIM_FILES = sorted((ROOT / "shim").rglob("*.py"))


@pytest.mark.parametrize("path", SHIM_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    room = path.relative_to(ROOT / "shim").parts[0].removesuffix(".py")
    if room in EVERYONE:
        allowed: set[str] = set()
    else:
        assert room in ALLOWED, f"shim/{room} is a new room: say in ALLOWED what it may import"
        allowed = ALLOWED[room]
    for name in imports(path):
        parts = name.split(".")
        assert parts[0] not in {*OTHER_PACKAGES, "hcs_emulator"}, f"{name}: the shim must not know it"
        if parts[0] == "shim" and len(parts) > 1 and parts[1] != room:
            assert parts[1] in allowed | EVERYONE, f"shim/{room} must not import shim/{parts[1]}"


def test_the_emulator_knows_nothing_of_the_shim() -> None:
    """docs/explanation/decisions/0028-no-shared-code.md"""
    files = (ROOT / "hcs_emulator").rglob("*.py")
    found = {f"{path.relative_to(ROOT)}: {name}" for path in files for name in imports(path)}
    assert not {one for one in found if one.split(": ")[1].split(".")[0] in {*OTHER_PACKAGES, "shim"}}


def test_only_platform_looks_at_the_operating_system() -> None:
    guilty = []
    # The demo refuses to run anywhere but on Linux, which is another question.
    exempt = {*(ROOT / "shim" / "platform").rglob("*.py"), ROOT / "runhcs" / "demo" / "requirements.py"}
    for path in sorted({*SHIM_FILES, *(ROOT / "runhcs").rglob("*.py")} - exempt):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                pair = (node.value.id, node.attr)
                if pair in {("sys", "platform"), ("os", "name")}:
                    guilty.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not guilty, f"ask shim.platform instead: {guilty}"


def test_both_systems_have_the_same_files() -> None:
    """`shim.platform.files` is one of two modules: what one command uses must be in both."""
    offered = []
    for system in ("linux", "windows"):
        tree = ast.parse((ROOT / "shim" / "platform" / system / "files.py").read_text())
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        offered.append({name for name in names if not name.startswith("_")})
    assert offered[0] <= offered[1], f"missing on Windows: {offered[0] - offered[1]}"


def test_launcher_imports_none_of_our_packages() -> None:
    """`runhcs install` and scripts/dist_windows.py use it. It knows modules of the shim by name only, except boot.py,
    which ends in running the shim."""
    boot = ROOT / "launcher" / "linux" / "boot.py"
    for path in {*(ROOT / "launcher").rglob("*.py")} - {boot}:
        found = {name.split(".")[0] for name in imports(path)}
        assert not found & {"shim", "hcs_emulator", "runhcs", "bench", "tests"}, path
