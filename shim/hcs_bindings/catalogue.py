"""What each error code means, its usual cause and the next step, for operators of Windows nodes.

Imported only when an error is shown. `make docs` generates `docs/reference/errors.md` from it.
Codes of HCS are listed in computecore's spelling; 0xC037xxxx finds them as well.
"""

from __future__ import annotations

from shim.hcs_bindings.catalogue_hcs import HCS, Entry
from shim.hcs_bindings.catalogue_network import HCN
from shim.hcs_bindings.catalogue_windows import WIN32
from shim.hcs_bindings.errors import normalise

__all__ = ["Entry", "by_name", "entries", "lookup", "markdown"]


def entries() -> list[Entry]:
    return [*HCS, *WIN32, *HCN]


_UNKNOWN = (
    "an error that is not in the catalogue",
    "Not known here. The low 16 bits of an 0x8007xxxx code are a Win32 error number.",
    "`certutil -error <code>` on a Windows machine prints the system's own text",
)


def lookup(code: int) -> Entry:
    """The entry of a code, in either form; a generic one if it is unknown."""
    number = normalise(code)
    for entry in entries():
        if entry.code == number:
            return entry
    family = {0x80370000: "HCS", 0x80070000: "WIN32", 0x803B0000: "HCN"}.get(number & 0xFFFF0000)
    suffix = f"{number & 0xFFFF:X}" if family != "WIN32" else str(number & 0xFFFF)
    return Entry(number, f"{family}_ERROR_{suffix}" if family else "UNKNOWN", *_UNKNOWN)


def by_name(name: str) -> Entry | None:
    """The entry of a symbolic name, as people type it."""
    upper = name.upper()
    for entry in entries():
        if entry.name == upper or entry.name.removeprefix("HCS_E_") == upper:
            return entry
    return None


def markdown() -> str:
    """docs/reference/errors.md."""
    lines = [
        "<!-- Made by `make docs` from shim/hcs_bindings/catalogue*.py: change those. -->",
        "# Errors of the Host Compute Service",
        "",
        "`runhcs explain <code>` prints an entry. 0x8037xxxx and 0xC037xxxx are two spellings of one code.",
    ]
    for title, group in (
        ("Compute systems and processes", HCS),
        ("Windows", WIN32),
        ("Networks", HCN),
    ):
        lines += ["", f"## {title}", "", "| code | name | meaning | usual cause | what to do |"]
        lines.append("| --- | --- | --- | --- | --- |")
        for entry in group:
            cells = (f"`0x{entry.code:08X}`", f"`{entry.name}`", entry.message, entry.cause, entry.next_step)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
