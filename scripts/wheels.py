"""`make wheels`: the wheels of the project, under dist/.

    containerd_shim_runhcs-<version>-py3-none-any.whl                 for any system; Linux compiles on first use
    containerd_shim_runhcs-<version>-py3-none-manylinux_*_x86_64.whl  with the emulator's programs and the launcher,
                                                                      compiled here; needs no C compiler

Run it on the oldest distribution to support: the tag of the second wheel has the version of glibc.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from hcs_emulator.native import build as emulator_build  # noqa: E402
from launcher.linux import build as launcher_build  # noqa: E402

PACKAGES = ("shim", "hcs_emulator", "launcher", "runhcs", "bench")
FILES = ("pyproject.toml", "README.md", "LICENSE")
# For reproducible archives: 2020-01-01.
MEMBER_TIME = "1577836800"


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": MEMBER_TIME}, stdout=sys.stderr)


def build_pure(target: Path, work: Path) -> Path:
    """From a copy of the tree, because setuptools writes into its source directory."""
    source = work / "source"
    source.mkdir()
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "build"))
    for name in FILES:
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", target, source)
    return next(target.glob("*-none-any.whl"))


def build_prebuilt(pure: Path, target: Path, work: Path) -> Path:
    """The pure wheel with the programs added, under the tag of this platform."""
    run(sys.executable, "-m", "wheel", "unpack", "-d", work / "unpacked", pure)
    tree = next((work / "unpacked").iterdir())
    native = tree / "hcs_emulator" / "native" / "build"
    native.mkdir()
    emulator_build.build_library(native)
    emulator_build.build_programs(native)
    (native / emulator_build.PREBUILT).write_text("These files were compiled with the sources of this package.\n")
    launcher_build.compile_launcher()
    launchers = tree / "launcher" / "linux" / "build"
    launchers.mkdir()
    shutil.copy(launcher_build.cached_launcher(), launchers)
    metadata = next(tree.glob("*.dist-info")) / "WHEEL"
    metadata.write_text(metadata.read_text().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false"))
    packed = work / "packed"
    packed.mkdir()
    run(sys.executable, "-m", "wheel", "pack", "-d", packed, tree)
    run(sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", platform_tag(), next(packed.glob("*.whl")))
    return Path(shutil.move(next(packed.glob("*.whl")), target))


def platform_tag() -> str:
    library, version = platform.libc_ver()
    if library != "glibc":
        return f"linux_{platform.machine()}"
    major, minor = version.split(".")[:2]
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def main() -> int:
    target = ROOT / "dist"
    target.mkdir(exist_ok=True)
    for old in target.glob("*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="wheels-") as directory:
        pure = build_pure(target, Path(directory))
        for wheel in (pure, build_prebuilt(pure, target, Path(directory))):
            print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
