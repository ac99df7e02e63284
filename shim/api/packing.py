"""`Any`: a message with its name. containerd's type URLs are bare names; other writers put a host and a slash before it."""

from __future__ import annotations

from shim.api.wellknown import Any
from shim.api.wire import Message


def pack(message: Message) -> Any:
    return Any(type_url=message.FULL_NAME, value=message.encode())


def type_name(packed: Any) -> str:
    """The full name of the message inside: what follows the last slash of the type URL."""
    return packed.type_url.rpartition("/")[2]
