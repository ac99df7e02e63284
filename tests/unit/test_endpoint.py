"""Sockets that shims left behind: gone if nobody listens, kept if somebody does, and what is between."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from shim.platform import endpoint


def test_the_socket_of_a_shim_that_is_being_killed_goes_too(tmp_path: Path) -> None:
    """It can be connected to a moment longer than anything else of it lives."""
    address = f"unix://{tmp_path / 's'}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    removing = threading.Thread(target=endpoint.remove_stale, args=(address,))
    removing.start()
    connections = [listener.accept()[0] for _ in range(2)]
    assert (tmp_path / "s").exists()
    for end in (*connections, listener):
        end.close()
    removing.join(60)
    assert not (tmp_path / "s").exists()


def test_the_socket_of_a_living_shim_stays(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        endpoint.remove_stale(f"unix://{tmp_path / 's'}")
    assert (tmp_path / "s").exists()
    endpoint.remove_stale(f"unix://{tmp_path / 's'}")
    assert not (tmp_path / "s").exists()
