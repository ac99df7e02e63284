"""The control sockets of shared daemons on Linux."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from shim.platform.linux import shared


def test_stale_control_socket_is_removed_after_others_that_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of another kind, and one of a daemon that hangs and whose backlog is full."""
    foreign, full, stale, served = (tmp_path / f"{shared.PREFIX}{number}" for number in range(4))
    names = sorted(path.name for path in (foreign, full, stale, served))
    monkeypatch.setattr(shared.posix, "listdir", lambda _: names)
    with (
        socket.socket(socket.AF_UNIX) as other,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as hung,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon,
    ):
        for listener, path in ((other, foreign), (hung, full), (daemon, served)):
            listener.bind(str(path))
            listener.listen(0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
            dead.bind(str(stale))
        clients = fill_backlog(full)
        shared.remove_stale(f"unix://{tmp_path}/pod", b"")
        for client in clients:
            client.close()
    monkeypatch.undo()
    assert sorted(os.listdir(tmp_path)) == [foreign.name, full.name, served.name]


def fill_backlog(path: Path) -> list[socket.socket]:
    """Connect until another connection would have to wait."""
    clients = []
    while True:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.setblocking(False)
        clients.append(client)
        try:
            client.connect(str(path))
        except BlockingIOError:
            return clients
