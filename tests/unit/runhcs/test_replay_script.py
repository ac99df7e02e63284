"""Which recorded call answers a call of the shim that is replayed."""

from __future__ import annotations

from typing import Any

from hcs_emulator.replay.script import Call, Script

RECORDED, MADE_UP = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
OTHER = "33333333-3333-3333-3333-333333333333"


def script(*strings: list[Any], given: frozenset[str] = frozenset()) -> Script:
    calls = [Call("HcnCreateNamespace", 1, 2, strings=one) for one in strings]
    return Script(calls, [], 20348, lambda value: value, lambda done: None, given_guids=given)


def test_guid_that_the_shim_makes_up_is_that_of_the_recording() -> None:
    found = script([RECORDED, {"a": 1}], ["open", RECORDED])
    assert found.match_call("HcnCreateNamespace", 0, [MADE_UP, {"a": 1}]) is found.calls[0]
    assert found.match_call("HcnCreateNamespace", 0, ["open", MADE_UP]) is found.calls[1]
    assert not found.differences and not found.unused()


def test_guid_that_the_shim_was_given_is_compared() -> None:
    for given in (RECORDED, MADE_UP):
        found = script([RECORDED], given=frozenset((given,)))
        assert found.match_call("HcnCreateNamespace", 0, [MADE_UP]) is found.calls[0]
        assert [one.problem for one in found.differences] == ["other arguments"]


def test_made_up_guid_stays_the_same() -> None:
    found = script([RECORDED], ["open", RECORDED])
    found.match_call("HcnCreateNamespace", 0, [MADE_UP])
    assert found.match_call("HcnCreateNamespace", 0, ["open", OTHER]) is found.calls[1]
    assert [one.problem for one in found.differences] == ["other arguments"]
