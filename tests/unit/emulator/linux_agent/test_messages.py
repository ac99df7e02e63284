"""Decoding of bridge messages: Go's rules for JSON, and the guest's own rule about unknown members."""

from __future__ import annotations

import pytest

from hcs_emulator.vm.linux.agent import messages
from hcs_emulator.vm.linux.agent.errors import INVALID_JSON, GuestError, RuleError

CONTEXT = "failed to unmarshal JSON in message"


def test_decode_absent_and_null_members_have_their_zero_value() -> None:
    decoded = messages.decode(b'{"ProcessId": 7, "TimeoutInMs": null}', messages.WAIT_FOR_PROCESS, CONTEXT)
    assert (decoded["ProcessId"], decoded["TimeoutInMs"], decoded["ContainerId"]) == (7, 0, "")
    settings = messages.decode("{}", messages.SETTINGS["VPMemDevice"][1], CONTEXT)
    assert settings["MappingInfo"] is None and settings["DeviceNumber"] == 0


def test_decode_names_are_matched_without_case() -> None:
    assert messages.decode(b'{"processid": 7}', messages.WAIT_FOR_PROCESS, CONTEXT)["ProcessId"] == 7


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "1", '{"ProcessId": "7"}', '{"ProcessId": 1.5}', '{"ProcessId": -1}', '{"ProcessId": true}',
     '{"ProcessId": 4294967296}', '{"ContainerId": 1}'],
)  # fmt: skip
def test_decode_wrong_type_refused_as_invalid_json(text: str) -> None:
    with pytest.raises(GuestError, match="failed to unmarshal JSON") as caught:
        messages.decode(text, messages.WAIT_FOR_PROCESS, CONTEXT)
    assert caught.value.hresult == INVALID_JSON


def test_decode_unknown_member_refused_by_rule() -> None:
    with pytest.raises(RuleError, match="rule unknown-member: the guest has no member Colour"):
        messages.decode('{"Colour": 1}', messages.BASE, CONTEXT)


def test_decode_nested_lists_and_maps() -> None:
    shape = messages.PROCESS_PARAMETERS
    decoded = messages.decode('{"CommandArgs": ["a", "b"], "Environment": {"A": "b"}}', shape, CONTEXT)
    assert decoded["CommandArgs"] == ["a", "b"] and decoded["Environment"] == {"A": "b"}
    with pytest.raises(GuestError):
        messages.decode('{"CommandArgs": [1]}', shape, CONTEXT)
