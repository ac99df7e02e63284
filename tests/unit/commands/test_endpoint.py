"""Stale sockets: removed if no process listens, kept otherwise."""

from __future__ import annotations

import fcntl
import os
import socket
import threading
from pathlib import Path

import pytest

from shim.platform import endpoint
from shim.platform.linux import standby


def test_socket_of_killed_shim_is_removed(tmp_path: Path) -> None:
    """It accepts connections a moment longer than the shim lives."""
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


def test_socket_of_running_shim_stays(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        endpoint.remove_stale(f"unix://{tmp_path / 's'}")
    assert (tmp_path / "s").exists()
    endpoint.remove_stale(f"unix://{tmp_path / 's'}")
    assert not (tmp_path / "s").exists()


def test_directory_lock_wait_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "LOCK_TIME", 0.1)
    place = tmp_path / "s"
    place.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(place / "stale"))
    holder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with pytest.raises(endpoint.EndpointError, match="holds the lock"):
        endpoint.listen(f"unix://{place / 'stale'}")
    assert standby.listen(str(place / "standby-x")) is None
    os.close(holder)
    endpoint.listen(f"unix://{place / 'stale'}").close()
