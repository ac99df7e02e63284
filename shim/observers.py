"""Hooks for a recording (`shim.recording`); each is None unless one runs, and costs one comparison then."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: `(name, function) -> function`, for each function of the HCS libraries when it is looked up.
call: Callable[[str, Callable[..., Any]], Callable[..., Any]] | None = None
#: `(number of the subscription, type, data)`, for each event of HCS.
event: Callable[[int, int, str], object] | None = None
#: `(kind, id, procedure, body, size)`, for each message between shim and guest; the size is 0 for one of the shim.
guest: Callable[[str, int, int, dict[str, Any], int], object] | None = None
