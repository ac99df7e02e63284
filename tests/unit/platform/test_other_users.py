"""A standby and a shared daemon serve only their own user, and `start` uses only those of its own user: even if the
file system permits the access."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shim import telemetry
from shim.platform.linux import shared, standby
from shim.recording.recorder import Recorder, RecordingError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user to try")

OTHER_USER = (
    "import os, socket, sys\n"
    "os.setgid(65534); os.setuid(65534)\n"
    "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
    "s.settimeout(60)\n"
)
HANDOVER = b"runhcs-standby-3\x001\0/b\x000\0"


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rh-", dir="/tmp") as directory:
        os.chmod(directory, 0o777)
        yield Path(directory, "socket")


def as_other_user(code: str, path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-IS", "-c", OTHER_USER + code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_handover_of_another_user_is_refused(path: Path) -> None:
    """By a standby, and by a shared daemon, which reads it with the same function."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()
        code = (
            "s.connect(sys.argv[1])\n"
            f"s.sendmsg([{HANDOVER!r}], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, bytes([0] * 4 + [1] + [0] * 3))])\n"
            "try:\n    greeting = s.recv(32)\nexcept ConnectionError:\n    greeting = b''\n"
            "sys.exit(0 if greeting == b'' else 1)\n"
        )
        with as_other_user(code, path) as peer:
            listener.settimeout(60)
            connection, _ = listener.accept()
            sent = select.poll()
            sent.register(connection, select.POLLIN)
            assert sent.poll(60_000), "the handover"
            for receive in (standby.receive, shared.receive):
                with pytest.raises(ValueError, match="another user"):
                    receive(connection)
            connection.close()
            assert peer.wait(60) == 0, "it got a greeting"


def test_daemon_of_another_user_gets_no_pod(path: Path) -> None:
    code = "s.bind(sys.argv[1])\nos.chmod(sys.argv[1], 0o777)\ns.listen()\nprint('up', flush=True)\nsys.stdin.read()\n"
    with as_other_user(code, path) as peer:
        assert peer.stdout is not None and peer.stdin is not None
        assert peer.stdout.readline() == b"up\n"
        with pytest.raises(PermissionError, match="another user"):
            shared.connect(str(path), 60)
        peer.stdin.close()
        assert peer.wait(60) == 0


@pytest.mark.parametrize("connects", ["agent", "recorder"])
def test_agent_and_recorder_of_another_user_get_nothing(path: Path, connects: str) -> None:
    """A shim reports what it does only to its own user."""
    code = (
        "s = socket.socket(socket.AF_UNIX)\ns.settimeout(60)\ns.bind(sys.argv[1])\nos.chmod(sys.argv[1], 0o777)\n"
        "s.listen()\nprint('up', flush=True)\nsys.exit(0 if s.accept()[0].recv(1) == b'' else 1)\n"
    )
    with as_other_user(code, path) as peer:
        assert peer.stdout is not None and peer.stdout.readline() == b"up\n"
        if connects == "agent":
            with pytest.raises(PermissionError, match="another user"):
                telemetry._connect(f"unix://{path}")
        else:
            context: Any = SimpleNamespace(scope="pod")
            with pytest.raises(RecordingError, match="another user"):
                Recorder(f"unix://{path}", None, context, from_start=True, is_traced=False)  # type: ignore[arg-type]
        assert peer.wait(60) == 0


def test_handover_of_the_own_user_is_taken(path: Path) -> None:
    """So that the tests above refuse for the user alone."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen()
        client = shared.connect(str(path), 60)
        assert client is not None
        connection, _ = listener.accept()
        with socket.socket(socket.AF_UNIX) as pod:
            rights = memoryview(b"".join(one.to_bytes(4, sys.byteorder) for one in (pod.fileno(), 1)))
            client.sendmsg([HANDOVER], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            handover = standby.receive(connection)
        assert shared.wait_greeting(client) == os.getpid()
        assert handover.bundle == "/b" and handover.is_sandbox
        shared.discard(handover)
        connection.close()
        client.close()
