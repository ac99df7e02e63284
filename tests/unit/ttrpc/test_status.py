"""The text of a status."""

from __future__ import annotations

import pytest

from shim.ttrpc.status import one_line


@pytest.mark.parametrize("text", ["\x1b]0;title\x07", "a\x1b[2Jb", "a\x00b", "\u202e", "\x9b1m"])
def test_control_characters_are_escaped(text: str) -> None:
    assert one_line(ValueError(text)).isprintable()


def test_plain_text_is_kept_on_one_line() -> None:
    assert one_line(ValueError("größer\n als\t1")) == "größer als 1"
    assert one_line(ValueError()) == "ValueError"
    assert len(one_line(ValueError("\x1b" * 5000))) == 1000
