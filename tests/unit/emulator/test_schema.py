"""The schema accepts or refuses every document with HcsError; it never fails in another way."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hcs_emulator.service.errors import HcsError, guest_spelling
from hcs_emulator.service.schema.modify import RESOURCES, check_modification
from hcs_emulator.service.schema.process import check_modify, check_parameters, check_signal
from hcs_emulator.service.schema.service import check_service_modification
from hcs_emulator.service.schema.shapes import parse
from hcs_emulator.service.schema.system import check_compute_system
from hcs_emulator.vm import bridge_frames
from tests.support import documents

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)

CHECKS: list[Callable[[Any], Any]] = [
    lambda document: check_compute_system(document, 20348),
    lambda document: check_modification(document, "Container", 20348),
    lambda document: check_modification(document, "VirtualMachine", 26100),
    lambda document: check_parameters(document, 20348),
    lambda document: check_modify(document, 20348),
    lambda document: check_signal(document, 20348),
    lambda document: check_service_modification(document, 20348),
]


@given(json_values)
def test_any_value_is_accepted_or_refused(value: Any) -> None:
    for check in CHECKS:
        try:
            check(value)
        except HcsError as error:
            assert error.hresult == 0x8037010D
            assert json.loads(error.document())["ErrorEvents"][0]["Data"][0]["Value"].startswith("$")


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for name, value in items:
        found += places(value, (*path, name))
    return found


BOOT_SHARE = {"Name": "os", "Path": "/x", "Options": {"ReadOnly": True}}
VIRTUAL_MACHINE = documents.virtual_machine(VirtualSmb={"Shares": [BOOT_SHARE]})


@given(st.sampled_from(places(VIRTUAL_MACHINE)), json_values)
def test_any_change_of_a_document_is_accepted_or_refused(place: tuple[Any, ...], value: Any) -> None:
    document: Any = copy.deepcopy(VIRTUAL_MACHINE)
    inner = document
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    try:
        check_compute_system(document, 20348)
    except HcsError as error:
        assert error.hresult == 0x8037010D


@given(st.text() | st.binary().map(lambda data: data.decode("utf-16-le", "replace")))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse(text, "test")
    except HcsError as error:
        assert error.hresult == 0x8037010D


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: f"{resource.kind} {resource.name}")
def test_resource_paths_are_refused_on_the_other_kind_of_system(resource: Any) -> None:
    path = resource.pattern.pattern.removesuffix("\\Z")
    other = "Container" if resource.kind == "VirtualMachine" else "VirtualMachine"
    with pytest.raises(HcsError) as refused:
        check_modification({"ResourcePath": path, "RequestType": "Add", "Settings": {}}, other, 26100)
    assert "does not exist" in refused.value.events[0]["Message"]


@given(st.lists(st.binary(max_size=64)))
def test_bridge_reader_accepts_any_bytes_or_raises_frame_error(pieces: list[bytes]) -> None:
    reader = bridge_frames.Reader()
    try:
        for piece in pieces:
            list(reader.feed(piece))
    except bridge_frames.FrameError:
        pass


@given(st.dictionaries(st.text(), st.text()), st.integers(0, 2**64 - 1), st.integers(1, 100))
def test_bridge_frames_are_found_in_any_pieces(message: dict[str, str], number: int, size: int) -> None:
    data = bridge_frames.encode(bridge_frames.RESPONSE | bridge_frames.CREATE, number, message) * 2
    reader = bridge_frames.Reader()
    found = [frame for start in range(0, len(data), size) for frame in reader.feed(data[start : start + size])]
    assert [(kind, number_, json.loads(body)) for kind, number_, body in found] == [
        (bridge_frames.RESPONSE | bridge_frames.CREATE, number, message)
    ] * 2


def test_guest_spelling_of_error_codes() -> None:
    assert guest_spelling(0x8037010E) == 0xC037010E
    assert guest_spelling(0x80370105) == 0x80370105
    assert guest_spelling(0x80070490) == 0x80070490
