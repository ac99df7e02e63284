"""Rules for packages and module names: dependencies point one way (docs/explanation/architecture.md), only
`shim/platform` knows the operating system, and modules have names that an engineer searches for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

# Package of the shim -> other packages of the shim that it may import. Every package needs an entry.
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
    "telemetry": {"api", "platform", "ttrpc"},
    "recording": {"api", "hcs_bindings", "oci", "platform", "task", "ttrpc", "uvm"},
    "commands": {
        "api", "container", "hcs_bindings", "logs", "oci", "platform", "recording", "task", "telemetry", "ttrpc", "uvm",
    },
    "__main__": {"commands"},
    "__init__": set(),
}
# Leaf modules without dependencies, which every package may import.
LEAVES = {"version", "lean_json", "observers", "spans", "threads"}

# Module names that were metaphors of this project, and the term to use instead.
METAPHORS = {
    "absent": "null_container",
    "announce": "task_events",
    "family": "process_tree",
    "figures": "stats",
    "freeing": "cleanup",
    "held": "lease",
    "hosted": "container",
    "hosting": "isolation",
    "joined": "pod_members",
    "keeping": "keep",
    "lab": "context or fixtures",
    "lives": "lifecycles",
    "making": "create",
    "needs": "requirements",
    "outputs": "artifacts",
    "pictures": "svg_export",
    "prelude": "normalize",
    "running": "runner",
    "seam": "interfaces",
    "senders": "transports",
    "waiters": "one_shot",
    "wishes": "scenarios",
    "world": "environment",
}


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
def test_shim_module_imports_allowed_packages_only(path: Path) -> None:
    package = path.relative_to(ROOT / "shim").parts[0].removesuffix(".py")
    if package in LEAVES:
        allowed: set[str] = set()
    else:
        assert package in ALLOWED, f"shim/{package} is a new package: add to ALLOWED what it may import"
        allowed = ALLOWED[package]
    for name in imports(path):
        parts = name.split(".")
        assert parts[0] not in {"hcs_emulator", "runhcs", "bench", "launcher", "tests"}, f"{name}: not from the shim"
        if parts[0] == "shim" and len(parts) > 1 and parts[1] != package:
            assert parts[1] in allowed | LEAVES, f"shim/{package} must not import shim/{parts[1]}"


def test_emulator_imports_nothing_of_the_shim() -> None:
    """It stands for Windows: a mistake in shared code would be in both and stay unseen."""
    files = (ROOT / "hcs_emulator").rglob("*.py")
    found = {f"{path.relative_to(ROOT)}: {name}" for path in files for name in imports(path)}
    assert not {one for one in found if one.split(": ")[1].split(".")[0] in {"shim", "runhcs", "bench", "tests"}}


def test_only_platform_asks_for_the_operating_system() -> None:
    found = []
    exempt = set((ROOT / "shim" / "platform").rglob("*.py"))
    for path in sorted({*SHIM_FILES, *(ROOT / "runhcs").rglob("*.py")} - exempt):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                pair = (node.value.id, node.attr)
                if pair in {("sys", "platform"), ("os", "name")}:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not found, f"use shim.platform instead: {found}"


@pytest.mark.parametrize(
    ("linux", "windows"),
    [("files.py", "files.py"), ("fifos.py", "stdio_pipes.py"), ("shared.py", "shared.py")],
    ids=["files", "stdio", "shared"],
)
def test_both_systems_offer_the_same_functions(linux: str, windows: str) -> None:
    """`shim.platform` exports one of two modules: what a caller uses must be in both."""
    offered = []
    for path in (ROOT / "shim/platform/linux" / linux, ROOT / "shim/platform/windows" / windows):
        names = {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
        offered.append({name for name in names if not name.startswith("_")})
    assert offered[0] <= offered[1], f"missing on Windows: {offered[0] - offered[1]}"


def test_every_shim_package_has_a_docstring() -> None:
    packages = {path.parent for path in SHIM_FILES}
    missing = []
    for package in sorted(packages):
        init = package / "__init__.py"
        if not init.exists() or not ast.get_docstring(ast.parse(init.read_text())):
            missing.append(str(package.relative_to(ROOT)))
    assert not missing, f"write a docstring in __init__.py that says what the package does: {missing}"


def test_shim_init_has_no_code() -> None:
    """Every command imports it first."""
    assert len(ast.parse((ROOT / "shim" / "__init__.py").read_text()).body) == 1


def test_module_names_are_standard_terms() -> None:
    found = []
    for tree in ("bench", "hcs_emulator", "launcher", "runhcs", "scripts", "shim", "tests"):
        for path in (ROOT / tree).rglob("*"):
            if path.suffix in {".py", ".c", ".h"}:
                for part in path.relative_to(ROOT).with_suffix("").parts:
                    if (word := part.removeprefix("test_")) in METAPHORS:
                        found.append(f"{path.relative_to(ROOT)}: use {METAPHORS[word]}")
    assert not found
