"""The wheel in a fresh virtual environment: with its extras the commands work, without them they name the extra.

pip takes the dependencies from the index as configured; the versions are those of requirements/dev.lock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from tests.support.wheel import PACKAGES, ROOT, build_prebuilt_wheel, build_wheel

TIMEOUT = 280


class Environment:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        venv.create(directory, with_pip=False)

    def install(self, *arguments: str) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self.directory / "bin" / "python"), "install", "-q"]
        done = subprocess.run([*pip, *arguments], capture_output=True, text=True, timeout=TIMEOUT, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """With nothing of the tree in the path."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HCS_"))}
        environment |= variables
        command = [str(self.directory / "bin" / program), *arguments]
        return subprocess.run(
            command, cwd=self.directory, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The locked versions, without hashes, which pip refuses in constraints for a local wheel."""
    lines = (ROOT / "requirements" / "dev.lock").read_text().splitlines()
    path = tmp_path_factory.mktemp("constraints") / "constraints.txt"
    path.write_text("".join(f"{line.split()[0]}\n" for line in lines if "==" in line))
    return path


def test_wheel_has_the_packages_of_pyproject(wheel: Path) -> None:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {name.rstrip("*") for name in found} == set(PACKAGES)


def test_base_install_runs_the_shim_and_names_missing_extras(wheel: Path, constraints: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env")
    environment.install("-c", str(constraints), str(wheel))
    assert "Version:" in environment.run("containerd-shim-runhcs-v1", "-v").stdout
    assert environment.run("runhcs", "--help").returncode == 0
    for command, extra in (("ps", "runhcs"), ("doctor", "runhcs"), ("bench", "bench")):
        done = environment.run("runhcs", command)
        assert done.returncode == 1 and not done.stdout, done.stdout + done.stderr
        assert done.stderr.count("\n") == 1 and f"pip install 'containerd-shim-runhcs[{extra}]'" in done.stderr


def test_install_with_all_extras_runs_every_command(wheel: Path, constraints: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env")
    environment.install("-c", str(constraints), f"{wheel}[all]")
    assert environment.run("runhcs", "--help").returncode == 0
    done = environment.run("runhcs", "doctor", "--json")
    assert not done.stderr, done.stderr
    checks = {check["name"] for check in json.loads(done.stdout)["checks"]}
    assert {"python", "rights", "containerd", "shim", "config"} <= checks
    assert json.loads(environment.run("runhcs", "ps", "--json", "--state", "/nowhere").stdout) == []
    done = environment.run("runhcs", "bench", "--help")
    assert done.returncode == 0 and "suite" in done.stdout
    script = "import runhcs.containerd.sandboxes, hcs_emulator.service.run, bench.__main__"
    done = environment.run("python", "-c", script)
    assert done.returncode == 0, done.stderr


def test_prebuilt_wheel_needs_no_compiler(wheel: Path, constraints: Path, tmp_path: Path) -> None:
    prebuilt = build_prebuilt_wheel(wheel, tmp_path)
    assert "linux" in prebuilt.name
    environment = Environment(tmp_path / "env")
    environment.install("-c", str(constraints), f"{prebuilt}[runhcs,emulator]")
    script = "from hcs_emulator.native.build import build; print(*build())"
    done = environment.run("python", "-c", script, CC="/bin/false")
    assert done.returncode == 0 and str(tmp_path / "env") in done.stdout, done.stderr
    bindir = tmp_path / "bin"
    done = environment.run("runhcs", "install", "--no-link-interpreter", "--bindir", str(bindir), CC="/bin/false")
    assert done.returncode == 0, done.stderr
    assert (bindir / "containerd-shim-runhcs-v1").read_bytes()[:4] == b"\x7fELF", "compiled, not a script"
