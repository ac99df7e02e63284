"""`runhcs emulator` rejects invalid arguments before it connects."""

from __future__ import annotations

import pytest

from runhcs.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--error", "nonsense"], "is not an HRESULT such as 0x80370109"),
        (["--nth", "0"], "0 is not a count: give 1 or more"),
        (["--nth", "-1"], "not a count"),
        (["--delay", "-1"], "is not a duration: give seconds, such as 0.5"),
        (["--delay", "nan"], "is not a duration"),
        (["--delay", "inf"], "is not a duration"),
        (["--kill-client", "during"], "invalid choice"),
    ],
)
def test_fault_add_rejects_invalid_values(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argument, value = arguments
    with pytest.raises(SystemExit) as raised:
        main(["emulator", "--directory", "/nowhere", "fault", "add", "--call", "*", f"{argument}={value}"])
    assert raised.value.code == 2 and message in capsys.readouterr().err


def test_valid_fault_without_an_emulator_names_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--call", "*", "--nth", "2", "--delay", "0.5", "--error", "0x80370109"]
    assert main(["emulator", "--directory", "/nowhere", "fault", "add", *arguments]) == 1
    assert "start it with `runhcs emulator start`" in capsys.readouterr().err
