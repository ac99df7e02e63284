"""A short run of the fuzzers of `tests.fuzz.parsers`, with fixed seeds: valid inputs, and mutations of them."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.parsers import PARSERS
from tests.fuzz.seeds import SEEDS, inputs

MUTATIONS = 300
# What parsers treat specially: limits of lengths and numbers, ends of text, deep nesting.
PIECES = (
    b"\0", b"\xff" * 8, b"\x80" * 11, b"\n", b'"', b"\\", b"[" * 3000, b'{"a":' * 1500, b"9" * 5000, b"1e999", b"-1",
    b"NaN", "²٣\u2028\x1b[2J".encode(), b"\xed\xa0\x80", b"null", b"true", b"%zz", b"=", b":" * 10,
)  # fmt: skip


def test_every_parser_has_seeds() -> None:
    assert set(SEEDS) == set(PARSERS) and all(SEEDS.values())


@pytest.mark.parametrize("name", PARSERS)
def test_parser_with_mutated_input_raises_only_its_errors(name: str) -> None:
    parser = PARSERS[name]
    chosen = random.Random(name)
    known = inputs(name)
    for data in known:
        parser(data)
    for _ in range(MUTATIONS):
        parser(mutated(chosen.choice(known), chosen))


def mutated(data: bytes, chosen: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chosen.randint(1, 6)):
        at = chosen.randint(0, len(out))
        kind = chosen.randrange(5)
        if kind == 0 and out:
            out[at % len(out)] = chosen.randrange(256)
        elif kind == 1:
            out[at:at] = chosen.choice(PIECES)
        elif kind == 2:
            del out[at : at + chosen.randint(1, 20)]
        elif kind == 3:
            out[at:at] = out[: chosen.randint(0, 40)]
        elif out:
            out[at % len(out)] ^= 1 << chosen.randrange(8)
    return bytes(out)
