"""Explain an error code of the Windows compute services: its meaning, its usual cause and the next step.

CODE is an HRESULT as logs show it (0xC0370106, 0x80370106, 80370106h, -1070137082) or its name
(HCS_E_UNEXPECTED_EXIT). 0x8037xxxx and 0xC037xxxx are two spellings of one code.
"""

from __future__ import annotations

import argparse
import json
import sys

from shim.hcs_bindings import catalogue
from shim.hcs_bindings.catalogue import Entry


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", metavar="CODE", nargs="?", help="a code or its name")
    parser.add_argument("--all", action="store_true", help="print every code in the catalogue")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def find(word: str) -> tuple[int, Entry] | None:
    """The code and its catalogue entry; None if the word is neither a code nor a known name."""
    if (entry := catalogue.by_name(word)) is not None:
        return entry.code, entry
    try:
        code = _number(word)
    except ValueError:
        return None
    if not -(1 << 31) <= code < 1 << 32:
        return None
    return code & 0xFFFFFFFF, catalogue.lookup(code)


def _number(word: str) -> int:
    digits = word.strip().lower().rstrip(".,:;)").lstrip("(")
    if digits.startswith("0x"):
        return int(digits, 16)
    if digits.endswith("h"):
        return int(digits[:-1], 16)
    if len(digits) == 8 and digits[0] in "8c":  # an HRESULT without the prefix 0x
        return int(digits, 16)
    number = int(digits)
    # A small number is a Win32 error code, as in `net helpmsg`.
    return 0x80070000 | number if 0 < number < 0x10000 else number


def as_dict(code: int, entry: Entry) -> dict[str, object]:
    return {
        "code": f"0x{code:08X}",
        "name": entry.name,
        "meaning": entry.message,
        "cause": entry.cause,
        "next_step": entry.next_step,
    }


def as_text(code: int, entry: Entry) -> str:
    return (
        f"0x{code:08X} {entry.name}: {entry.message}\n"
        f"  usual cause: {entry.cause}\n"
        f"  next step:   {entry.next_step}"
    )


def run(args: argparse.Namespace) -> int:
    if args.all:
        found = [(entry.code, entry) for entry in catalogue.entries()]
        if args.json:
            print(json.dumps([as_dict(*one) for one in found], indent=2))
        else:
            print("\n\n".join(as_text(*one) for one in found))
        return 0
    if not args.code:
        print("runhcs explain: give a code, as in `runhcs explain 0xC0370106`, or --all", file=sys.stderr)
        return 2
    one = find(args.code)
    if one is None:
        print(
            f"runhcs explain: {args.code!r} is neither an error code (0xC0370106) nor a known name; "
            "`runhcs explain --all` lists them",
            file=sys.stderr,
        )
        return 2
    print(json.dumps(as_dict(*one), indent=2) if args.json else as_text(*one))
    return 0
