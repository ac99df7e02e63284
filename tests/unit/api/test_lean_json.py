"""The lean JSON reads and writes what the standard library's does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from shim import lean_json

VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False) | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_dumps_equals_json(value: object) -> None:
    text = lean_json.dumps(value)
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert lean_json.loads(text) == value
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert lean_json.loads(text.encode()) == value


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", float("nan"), float("inf")])
def test_value_without_json_form_raises(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        lean_json.dumps({"x": value})


@pytest.mark.parametrize("text", ["", "{", '{"a":}', "[1,]", "nul", '"\x01"', "1 2", "NaN", b"\xff", "[" * 100_000])
def test_invalid_json_raises(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        lean_json.loads(text)
