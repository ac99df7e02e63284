"""Candidates: our shim, cold and with a standby, and every containerd-shim-runc-v2 on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve, field, frozen
from attrs.validators import min_len

from bench.harness.dialects import DIALECTS, NEWEST, Dialect
from bench.harness.go_programs import cache_directory
from bench.harness.prerequisites import PrerequisiteError
from runhcs.install.linux import write_launcher
from shim.api.packing import pack
from shim.api.runc_options import Options
from shim.api.wellknown import Any as PackedAny

COLD = "runhcs cold"
STANDBY = "runhcs standby"
#: Ours with ShimScope, for the measures of many pods.
NAMESPACE = "runhcs namespace"
NODE = "runhcs node"
INSTALLED = "runc installed"


def _dialect(version: str | Dialect) -> Dialect:
    """The dialect of a shim version, such as 1.7.34; the newest for an unknown one."""
    if isinstance(version, Dialect):
        return version
    return DIALECTS.get(".".join(version.split(".")[:2]), DIALECTS[NEWEST])


@frozen
class Candidate:
    """A shim and how it is run."""

    name: str = field(validator=min_len(1))
    program: Path
    environment: Mapping[str, str] = field(factory=dict)
    #: Given as a containerd version.
    dialect: Dialect = field(default=DIALECTS[NEWEST], converter=_dialect)
    #: ShimScope, if pods share a process.
    scope: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether it is our shim, with HCS, spans and a standby."""
        return self.name in (COLD, STANDBY) or "shim-runhcs-v1" in self.program.name

    @property
    def sockets(self) -> Path | None:
        """The directory of its sockets, if it is set."""
        directory = self.environment.get("RUNHCS_SOCKET_DIR")
        return Path(directory) if directory else None

    def options(self, directory: Path) -> PackedAny | None:
        """Makes runc keep its state below the directory, not in the machine's default."""
        return pack(Options(root=str(directory / "runc"))) if "shim-runc-v2" in self.program.name else None


def runc_shims() -> list[Candidate]:
    """Oldest first, each with the dialect of its containerd. Raises PrerequisiteError when there are none."""
    found = []
    for path in sorted(cache_directory().glob("containerd-v*/containerd-shim-runc-v2")):
        version = path.parent.name.removeprefix("containerd-v")
        found.append(Candidate(f"runc {version}", path, dialect=version))
    installed = shutil.which("containerd-shim-runc-v2")
    if installed is not None:
        output = subprocess.run([installed, "-v"], stdout=subprocess.PIPE, check=False, timeout=20).stdout.decode()
        reported = re.search(r"Version:\s*v?(\d+\.\d+)", output)
        found.insert(0, Candidate(INSTALLED, Path(installed), dialect=reported[1] if reported else ""))
    if not found:
        raise PrerequisiteError("no containerd-shim-runc-v2: install containerd or run scripts/go-programs.sh")
    return found


def all_candidates(directory: Path) -> list[Candidate]:
    """The last Go shim is the baseline; ours are installed into the directory, each with its own sockets."""
    return [*runc_shims(), *our_candidates(directory)]


def our_candidates(directory: Path) -> list[Candidate]:
    program = install_ours(directory)
    standby = {"RUNHCS_STANDBY": "1", "RUNHCS_SOCKET_DIR": str(directory / "s1")}
    return [
        Candidate(COLD, program, {"RUNHCS_STANDBY": "0", "RUNHCS_SOCKET_DIR": str(directory / "s0")}),
        Candidate(STANDBY, program, standby),
    ]


def with_scopes(candidates: Sequence[Candidate], directory: Path) -> list[Candidate]:
    """Our cold shim, if it is among the candidates, with each scope in which pods share a process."""
    return [
        evolve(one, name=name, scope=scope, environment={**one.environment, "RUNHCS_SOCKET_DIR": str(directory / at)})
        for one in candidates
        if one.name == COLD
        for name, scope, at in ((NAMESPACE, "namespace", "s2"), (NODE, "node", "s3"))
    ]


def install_ours(directory: Path) -> Path:
    binaries = directory / "bin"
    binaries.mkdir(exist_ok=True)
    return write_launcher(binaries)
