"""What a measure needs beyond Python: Go, containerd, a checkout."""

from __future__ import annotations

from pathlib import Path

# The checkout, if bench is imported from one: an installed wheel has no tests directory beside it.
CHECKOUT = Path(__file__).resolve().parents[2]


class PrerequisiteError(Exception):
    """A missing program or file. The message names it and how to get it. The measure is skipped, not failed."""

