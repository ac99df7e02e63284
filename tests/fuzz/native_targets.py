"""The C code that reads untrusted input, as fuzz targets: built with sanitizers, with or without libFuzzer."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.seeds import SEEDS

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent / "native"
SANITIZERS = "address,undefined"


@dataclass(frozen=True)
class Target:
    sources: tuple[str, ...]
    includes: tuple[str, ...]
    seeds: tuple[bytes, ...]

    def build(self, name: str, output: Path, *, libfuzzer: bool) -> Path:
        """With libFuzzer (clang), or as a program that runs the inputs it is given (any compiler)."""
        compiler, kind = ("clang", f"fuzzer,{SANITIZERS}") if libfuzzer else ("cc", SANITIZERS)
        sources = [str(HERE / f"{name}.c"), *(str(path) for one in self.sources for path in sorted(ROOT.glob(one)))]
        if not libfuzzer:
            sources.append(str(HERE / "replay.c"))
        flags = ["-g", "-O1", f"-fsanitize={kind}", "-fno-sanitize-recover=all"]
        flags += [f"-I{ROOT / one}" for one in self.includes]
        subprocess.run([compiler, *flags, *sources, "-o", str(output)], check=True, timeout=300)
        return output


def _reply(body: bytes) -> bytes:
    """A frame of the service: size, kind, id (see WIRE.md)."""
    return (9 + len(body)).to_bytes(4, "little") + b"\x02" + bytes(8) + body


TARGETS = {
    "launcher": Target(
        ("launcher/common/*.c",),
        ("launcher/common",),
        (
            *(b"\x00" + seed for seed in SEEDS["command-line"]), *(b"\x01" + seed for seed in SEEDS["config-json"]),
            b"\x02\n\x04type\x12\x02\x08\x01", *(b"\x03" + seed for seed in SEEDS["ledger"]),
            *(b"\x04" + seed for seed in SEEDS["exit-records"]), b"\x05" + bytes(10) + b"\x08\x01\x10\x02",
        ),
    ),
    "library": Target(
        ("hcs_emulator/native/library/wire.c",),
        ("hcs_emulator/native/library", "hcs_emulator/native/common"),
        (b"\xff" + _reply(bytes(32)), b"\x07" + _reply(bytes(24) + b"\x04\0\0\0{\0}\0") * 3),
    ),
}  # fmt: skip
