"""Who is measured: our shim, cold and with a standby, and containerd-shim-runc-v2 of every version there is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from bench.harness.dialects import DIALECTS, NEWEST, Dialect
from bench.harness.go_programs import cache_directory
from runhcs.install import write_launcher
from shim.api.packing import pack
from shim.api.runc_options import Options
from shim.api.wellknown import Any as PackedAny

COLD = "runhcs cold"
STANDBY = "runhcs standby"
INSTALLED = "runc installed"


class Candidate:
    """A shim and how it is run."""

    def __init__(
        self, name: str, program: Path, environment: dict[str, str] | None = None, dialect: str = NEWEST
    ) -> None:
        self.name = name
        self.program = program
        self.environment = environment or {}
        self.dialect: Dialect = DIALECTS[dialect]

    @property
    def is_ours(self) -> bool:
        """It has what only our shim has: HCS, spans, a standby."""
        return self.name in (COLD, STANDBY) or "shim-runhcs-v1" in self.program.name

    @property
    def sockets(self) -> Path | None:
        """The directory of its sockets, where that is its own."""
        given = self.environment.get("RUNHCS_SOCKET_DIR")
        return Path(given) if given else None

    def options(self, directory: Path) -> PackedAny | None:
        """runc keeps its state below the directory, not in the machine's own place."""
        return pack(Options(root=str(directory / "runc"))) if "shim-runc-v2" in self.program.name else None


def runc_shims() -> list[Candidate]:
    """Oldest first, each spoken to as its own containerd would. Raises FileNotFoundError when there are none."""
    found = []
    for path in sorted(cache_directory().glob("containerd-v*/containerd-shim-runc-v2")):
        version = path.parent.name.removeprefix("containerd-v")
        found.append(Candidate(f"runc {version}", path, dialect=_dialect(version)))
    installed = shutil.which("containerd-shim-runc-v2")
    if installed is not None:
        said = subprocess.run([installed, "-v"], stdout=subprocess.PIPE, check=False, timeout=20).stdout.decode()
        told = re.search(r"Version:\s*v?(\d+\.\d+)", said)
        found.insert(0, Candidate(INSTALLED, Path(installed), dialect=_dialect(told[1] if told else "")))
    if not found:
        raise FileNotFoundError("no containerd-shim-runc-v2: install containerd or run scripts/go-programs.sh")
    return found


def _dialect(version: str) -> str:
    """The one that a shim of this version is used to."""
    short = ".".join(version.split(".")[:2])
    return short if short in DIALECTS else NEWEST


def all_candidates(directory: Path) -> list[Candidate]:
    """The last of Go's is the baseline; ours are installed into the directory, each with sockets of its own."""
    return [*runc_shims(), *our_candidates(directory)]


def our_candidates(directory: Path) -> list[Candidate]:
    program = ours(directory)
    standby = {"RUNHCS_STANDBY": "1", "RUNHCS_SOCKET_DIR": str(directory / "s1")}
    return [
        Candidate(COLD, program, {"RUNHCS_STANDBY": "0", "RUNHCS_SOCKET_DIR": str(directory / "s0")}),
        Candidate(STANDBY, program, standby),
    ]


def ours(directory: Path) -> Path:
    binaries = directory / "bin"
    binaries.mkdir(exist_ok=True)
    return write_launcher(binaries)
