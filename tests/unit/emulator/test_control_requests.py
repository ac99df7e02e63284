"""Values that come from outside the service: control requests, fault definitions, latency profiles, options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hcs_emulator.service.control import ProfileRequest, QuirkRequest
from hcs_emulator.service.convert import structure
from hcs_emulator.service.faults import FaultDefinition, Faults
from hcs_emulator.service.host import Options
from hcs_emulator.service.latency import Delay, Profile


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"call": "NameToGuid", "delay": 1, "nth": "2"}, "nth: expected a whole number"),
        ({"call": "NameToGuid", "delay": True}, "delay: expected a number"),
        ({"call": "NameToGuid", "disconnect": "yes"}, "disconnect: expected true or false"),
        ({"call": 5, "delay": 1}, "call: expected a string"),
        ({"delay": 1}, "call is missing"),
        ({"call": "NameToGuid", "delay": 1, "often": 3}, "unknown member often"),
    ],
)
def test_fault_with_a_wrong_member_is_refused_by_name(members: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        structure(members, FaultDefinition, "fault-add")


def test_fault_triggers_on_its_nth_call_only() -> None:
    faults = Faults()
    fault = faults.add(structure({"call": "NameToGuid", "nth": 2, "delay": 1}, FaultDefinition, "fault-add"))
    assert [faults.trigger(call) for call in ("NameToGuid", "HNSCall", "NameToGuid", "NameToGuid")] == [
        [], [], [fault], [],
    ]  # fmt: skip
    assert (fault.describe()["seen"], fault.describe()["triggered"], fault.describe()["delay"]) == (3, 1, 1.0)


def test_fault_without_nth_triggers_on_every_call() -> None:
    faults = Faults()
    fault = faults.add(FaultDefinition("*", disconnect=True))
    assert faults.trigger("NameToGuid") == faults.trigger("HNSCall") == [fault]


def test_control_request_with_an_unknown_member_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown member file"):
        structure({"file": "x"}, ProfileRequest, "profile")
    with pytest.raises(ValueError, match="unknown quirk"):
        structure({"name": "lazy"}, QuirkRequest, "quirk")
    with pytest.raises(ValueError, match="expected an object"):
        structure([], ProfileRequest, "profile")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("speed = 1", "unknown member speed"),
        ("default = -1", "seconds from 0 to 600"),
        ('default = "slow"', "default.median: expected a number"),
        ("[calls]\nHcsDance = 1", "no call is named HcsDance"),
        ("[calls]\nNameToGuid = { median = 1, jitter = 2 }", "unknown member jitter"),
        ("calls = 3", "calls"),
    ],
)
def test_latency_profile_with_a_wrong_value_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "profile.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=problem):
        Profile.load(str(file))


def test_latency_profile_reads_numbers_and_tables(tmp_path: Path) -> None:
    file = tmp_path / "profile.toml"
    file.write_text('name = "n"\ndefault = 0.5\n[calls]\nHNSCall = 2\nNameToGuid = { median = 1, spread = 0 }\n')
    profile = Profile.load(str(file))
    assert profile == Profile("n", Delay(0.5), {"HNSCall": Delay(2.0), "NameToGuid": Delay(1.0)})
    assert [profile.delay(call) for call in ("HNSCall", "NameToGuid", "ActivateLayer")] == [2.0, 1.0, 0.5]


def test_options_refuse_an_unknown_build_or_quirk() -> None:
    with pytest.raises(ValueError, match="build"):
        Options("/run/x", 7)
    with pytest.raises(ValueError, match="quirk"):
        Options("/run/x", quirks={"lazy"})
