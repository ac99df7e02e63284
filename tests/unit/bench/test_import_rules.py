"""The dependency rule of bench/__init__.py."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.unit.repository.test_import_rules import ROOT, imports

# Package -> prefixes of bench modules that it may import.
ALLOWED = {
    "report": ("bench.report",),
    "harness": ("bench.harness", "bench.report.results"),
    "measures": ("bench.measures", "bench.harness", "bench.report.results"),
}
NOT_FOR_HARNESS = "bench.report.results_json"
MODULES = sorted(path for package in ALLOWED for path in (ROOT / "bench" / package).glob("*.py"))


def bench_imports(path: Path) -> set[str]:
    """Modules only: `from bench.harness import standby` is bench.harness.standby."""
    names = {name for name in imports(path) if name.split(".")[0] == "bench"}
    return {name for name in names if (ROOT / name.replace(".", "/")).with_suffix(".py").is_file()}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_bench_package_imports(path: Path) -> None:
    package = path.parent.name
    for name in bench_imports(path):
        assert name.startswith(ALLOWED[package]), f"bench.{package} must not import {name}"
        assert package == "report" or name != NOT_FOR_HARNESS, f"bench.{package} must not import {name}"


def test_every_bench_package_has_a_rule() -> None:
    assert {path.parent.name for path in (ROOT / "bench").glob("*/__init__.py")} == set(ALLOWED)


@pytest.mark.parametrize(
    ("module", "variable", "target"),
    [
        ("wine_lifecycles", "driver", "tests/wine/driver.py"),
        ("wine_lifecycles", "scenarios", "tests/wine/shim_scenarios.py"),
        ("wine_lifecycles", "linux", "tests/wine/lcow_driver.py"),
        ("wine_pods", "driver", "tests/wine/driver.py"),
        ("wine_pods", "scenarios", "tests/wine/shim_scenarios.py"),
        ("wine_pods", "client", "bench/measures/wine_client.py"),
        ("wine_lifecycles", "client", "bench/measures/wine_client.py"),
        ("wine", "images", "tests/support/lcow_image.py"),
        ("wine", "support", "tests/wine/conftest.py"),
    ],
)
def test_names_of_wine_test_modules_exist(module: str, variable: str, target: str) -> None:
    """bench imports these modules at run time only, where no type checker sees a renamed function."""
    tree = ast.parse((ROOT / "bench" / "measures" / f"{module}.py").read_text())
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == variable
    }
    defined = {
        name
        for node in ast.parse((ROOT / target).read_text()).body
        for name in (
            [node.name]
            if isinstance(node, (ast.FunctionDef, ast.ClassDef))
            else [alias.asname or alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom)
            else [target.id for target in node.targets if isinstance(target, ast.Name)]
            if isinstance(node, ast.Assign)
            else []
        )
    }
    assert used and used <= defined
