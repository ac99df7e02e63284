"""A short run of the fuzz targets in C, built with sanitizers: valid inputs, and mutations with a fixed seed."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tests.fuzz.native_targets import TARGETS
from tests.unit.fuzz.test_parsers import mutated

COUNT = 5000


@pytest.mark.parametrize("name", TARGETS)
def test_target_with_mutated_input_has_no_errors(name: str, tmp_path: Path) -> None:
    program = TARGETS[name].build(name, tmp_path / name, libfuzzer=False)
    chosen = random.Random(name)
    seeds = list(TARGETS[name].seeds)
    inputs = seeds + [mutated(chosen.choice(seeds), chosen) for _ in range(COUNT)]
    stdin = b"".join(len(data).to_bytes(4, "little") + data for data in inputs)
    done = subprocess.run([program], input=stdin, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert int(done.stdout) == len(inputs)


def test_program_detects_errors(tmp_path: Path) -> None:
    """The sanitizers work: a target that reads beyond its input fails."""
    broken = tmp_path / "broken.c"
    broken.write_text(
        "#include <stdint.h>\n#include <stddef.h>\n"
        "int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return data[size + 1] == 7; }\n"
    )
    replay = Path(__file__).resolve().parents[2] / "fuzz" / "native" / "replay.c"
    program = tmp_path / "broken"
    subprocess.run(["cc", "-fsanitize=address", str(broken), str(replay), "-o", str(program)], check=True, timeout=300)
    done = subprocess.run([program], input=b"\x01\0\0\0a", capture_output=True, timeout=60, check=False)
    assert done.returncode != 0 and b"heap-buffer-overflow" in done.stderr
