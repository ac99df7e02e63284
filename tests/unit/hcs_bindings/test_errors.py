"""The error type, its catalogue, the generated page and `runhcs explain`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from runhcs.__main__ import main
from shim.hcs_bindings import catalogue, errors
from shim.hcs_bindings.errors import AlreadyClosed, HcsError, from_document

ROOT = Path(__file__).resolve().parents[3]


def both(low: int) -> tuple[int, int]:
    return 0x80370000 | low, 0xC0370000 | low


@pytest.mark.parametrize(
    ("predicate", "codes"),
    [
        (errors.is_not_exist, (*both(0x10E), 0x80070490, 0xC0070490)),
        (errors.is_already_exists, both(0x10F)),
        (errors.is_already_stopped, (*both(0x110), *both(0x11F), 0x80070490)),
        (errors.is_invalid_state, both(0x105)),
        (errors.is_access_denied, (0x80070005,)),
        (errors.is_invalid_handle, (0x80070006,)),
        (errors.is_not_supported, (*both(0x10D), *both(0x10B), 0x8007000D, 0x80070032)),
        (errors.is_timeout, both(0x118)),
        (errors.is_pending, (*both(0x103), *both(0x117))),
        (errors.is_service_lost, (*both(0x11E), 0x800706BA, 0x800706BE, 0x800706EF)),
    ],
)
def test_predicate_matches_both_forms_of_a_code(predicate: object, codes: tuple[int, ...]) -> None:
    assert callable(predicate)
    everything = {entry.code for entry in catalogue.entries()}
    everything |= {code for low in range(0x100, 0x120) for code in both(low)}
    for code in everything | set(codes):
        expected = errors.normalise(code) in {errors.normalise(known) for known in codes}
        assert predicate(HcsError(code, "x")) is expected, f"0x{code:08X}"
        assert predicate(HcsError(code - (1 << 32), "x")) is expected, "as a signed HRESULT"
    assert not predicate(ValueError("no HRESULT"))


def test_combined_predicates_match_their_codes() -> None:
    for code in (0x8037010E, 0xC0370105, 0x80070005, 0x80070006):
        assert errors.stats_not_found(HcsError(code, "x"))
    assert not errors.stats_not_found(HcsError(0x80370110, "x"))
    for error in (HcsError(0xC037010E, "x"), HcsError(0x80370110, "x"), HcsError(0xC0370105, "x"), AlreadyClosed("x")):
        assert errors.vm_not_available(error)
    assert not errors.vm_not_available(HcsError(0x80370109, "x"))
    assert errors.is_already_closed(AlreadyClosed("x"))
    assert not errors.is_already_closed(HcsError(0x80070006, "x"))
    assert errors.is_timeout(TimeoutError())


def test_error_text_has_cause_and_next_step() -> None:
    document = {
        "Error": -2143878903,
        "ErrorMessage": "The operation timed out.",
        "ErrorEvents": [{"Message": "guest silent", "EventId": 1}, {"Message": "gave up "}, "broken"],
    }
    error = from_document(-2143878903, "hcs::System::Start web1", json.dumps(document))
    assert error.code == 0x80370109
    assert error.name == "HCS_E_CONNECTION_TIMEOUT"
    assert error.events == [{"Message": "guest silent", "EventId": 1}, {"Message": "gave up "}]
    assert str(error) == (
        "hcs::System::Start web1: the guest did not answer in time (0x80370109 HCS_E_CONNECTION_TIMEOUT): "
        f"guest silent; gave up; {error.next_step}"
    )
    assert error.cause and error.next_step


def test_returned_code_is_kept() -> None:
    error = HcsError(0xC0370106, "x")
    assert error.code == 0xC0370106
    assert error.name == "HCS_E_UNEXPECTED_EXIT"


@pytest.mark.parametrize("document", ["", "no json", "[]", '{"ErrorEvents": 3}', '{"ErrorEvents": [null]}'])
def test_broken_result_document_keeps_the_code(document: str) -> None:
    error = from_document(-2143878899, "x", document)
    assert error.code == 0x8037010D
    assert "HCS_E_INVALID_JSON" in str(error)


def test_catalogue_has_every_code_once() -> None:
    codes = [entry.code for entry in catalogue.entries()]
    assert len(codes) == len(set(codes))
    assert set(range(0x80370100, 0x80370120)) <= set(codes)
    names = [entry.name for entry in catalogue.entries()]
    assert len(names) == len(set(names))
    for entry in catalogue.entries():
        assert entry.message[0].islower() and not entry.message.endswith("."), entry.name
        assert entry.cause.endswith("."), entry.name
        assert entry.next_step and not entry.next_step.endswith("."), entry.name
        assert errors.normalise(entry.code) == entry.code


def test_codes_of_the_bindings_are_in_the_catalogue() -> None:
    known = {entry.code for entry in catalogue.entries()}
    for name, value in vars(errors).items():
        if name.isupper() and isinstance(value, int) and value > 0xFFFF:
            assert errors.normalise(value) in known, name


def test_unknown_code_has_generic_entry() -> None:
    assert catalogue.lookup(0x80071234).name == "WIN32_ERROR_4660"
    assert catalogue.lookup(0xC0370999).name == "HCS_ERROR_999"
    assert "certutil" in str(HcsError(0x87654321, "x"))


@pytest.mark.parametrize(
    "word",
    ["0xC0370106", "0x80370106", "C0370106", "80370106h", "-1070137082", "HCS_E_UNEXPECTED_EXIT", "unexpected_exit"],
)
def test_explain_accepts_all_forms_of_a_code(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--json", "--", word]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["name"] == "HCS_E_UNEXPECTED_EXIT"
    assert answer["code"] in ("0x80370106", "0xC0370106")
    assert answer["cause"] and answer["next_step"]


def test_explain_prints_the_entry(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "0xC0370106"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("0xC0370106 HCS_E_UNEXPECTED_EXIT: ")
    assert re.search(r"^  usual cause: .+\n  next step: +.+$", text, re.M)
    assert main(["explain", "5"]) == 0
    assert "ERROR_ACCESS_DENIED" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["nonsense", "0x1234567890", ""])
def test_explain_rejects_unknown_words(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", word]) == 2
    assert "0xC0370106" in capsys.readouterr().err


def test_explain_all_prints_every_entry(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--all", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(catalogue.entries())
