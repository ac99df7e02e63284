"""Make the build context of the image that installs the shim on the nodes of a cluster (deploy/).

  scripts/node_image.py linux OUTPUT [--python 3.11]     for Linux nodes, on which HCS is emulated
  scripts/node_image.py windows OUTPUT --zip FILE        for Windows nodes; `make dist-windows` makes the zip

OUTPUT is a directory with a Dockerfile and rootfs/, the files of the image. docker, buildah and nerdctl build it:

  docker build -t IMAGE OUTPUT
  docker build --platform windows/amd64 --build-arg BASE=IMAGE -t IMAGE OUTPUT

    runhcs/node.py       the entry point, `runhcs node-install`
    runhcs/packages/     the packages that it imports; on Linux they are also what is installed
    runhcs/python/       CPython for Windows, as python.org publishes it: unlike that of the zip it has TLS
    runhcs/zip/          the unpacked zip: what is installed on a Windows node
    enter-host           runs the entry point in the mount namespace of a Linux node

The packages are pinned by the hashes of requirements/dev.lock.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

import wheels  # noqa: E402
from windows_packages import requested_python, unpack_pure_python  # noqa: E402

IMAGE = ROOT / "deploy" / "image"
LOCK = ROOT / "requirements" / "dev.lock"
# What the shim, `runhcs` and the emulator import.
REQUIREMENTS = ("attrs", "cattrs", "cffi", "markdown-it-py", "mdurl", "pycparser", "pygments", "rich",
                "typing-extensions")  # fmt: skip
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-static", "-s")
# The packages that `runhcs node-install` needs on Windows, where the zip is what is installed.
WINDOWS_PACKAGES = ("runhcs", "shim")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "build")


def locked(names: tuple[str, ...]) -> str:
    """The requirements of these names with their hashes."""
    entries = re.finditer(r"^([\w.-]+)==(?:.*\\\n)*.*\n", LOCK.read_text(), re.MULTILINE)
    found = {match[1].lower(): match[0] for match in entries}
    return "".join(found[name] for name in names)


def linux(output: Path, python: str) -> None:
    rootfs = start(output, "linux")
    with tempfile.TemporaryDirectory(prefix="node-image-") as name:
        work = Path(name)
        pure = wheels.build_pure(work, work)
        wheel = wheels.build_prebuilt(pure, work, work)
        (work / "requirements.txt").write_text(locked(REQUIREMENTS))
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:",
               "--target", str(rootfs / "runhcs" / "packages"), "--no-deps", "--no-compile",
               "--python-version", python]  # fmt: skip
        subprocess.run([*pip, "--require-hashes", "-r", str(work / "requirements.txt")], check=True, stdout=sys.stderr)
        subprocess.run([*pip, str(wheel)], check=True, stdout=sys.stderr)
    shutil.rmtree(rootfs / "runhcs" / "packages" / "bin")  # scripts with the path of this machine's Python
    program = str(rootfs / "enter-host")
    subprocess.run(["cc", *FLAGS, str(IMAGE / "enter_host.c"), "-o", program], check=True)
    for directory in ("proc", "dev", "sys", "etc"):  # mount points, which runc would have to create
        (rootfs / directory).mkdir()


def windows(output: Path, archive: Path) -> None:
    rootfs = start(output, "windows")
    target = rootfs / "runhcs"
    python = requested_python()
    (target / "python").mkdir()
    for name, data in python.files.items():
        (target / "python" / name).write_bytes(data)
    unpack_pure_python(target / "packages")
    for name in WINDOWS_PACKAGES:
        shutil.copytree(ROOT / name, target / "packages" / name, ignore=NOT_COPIED)
    with zipfile.ZipFile(archive) as files:
        files.extractall(target / "zip")


def start(output: Path, system: str) -> Path:
    """An output directory with what both systems have; returns rootfs/."""
    if output.exists():
        sys.exit(f"node_image: {output} exists: remove it, or choose another directory")
    rootfs = output / "rootfs"
    (rootfs / "runhcs").mkdir(parents=True)
    shutil.copy(IMAGE / f"Dockerfile.{system}", output / "Dockerfile")
    shutil.copy(IMAGE / "node.py", rootfs / "runhcs" / "node.py")
    shutil.copy(ROOT / "LICENSE", rootfs / "runhcs" / "LICENSE")
    return rootfs


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    systems = parser.add_subparsers(dest="system", required=True)
    one = systems.add_parser("linux", help="for Linux nodes")
    one.add_argument("output", type=Path)
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    one.add_argument("--python", default=here, help="the nodes' version of Python (default: %(default)s)")
    other = systems.add_parser("windows", help="for Windows nodes")
    other.add_argument("output", type=Path)
    other.add_argument("--zip", type=Path, required=True, help="of `make dist-windows`")
    args = parser.parse_args(argv)
    if args.system == "linux":
        linux(args.output, args.python)
    else:
        windows(args.output, args.zip)
    print(f"{args.output}: docker build -t IMAGE {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
