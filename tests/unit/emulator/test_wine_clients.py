"""The emulator kills the process of a client under Wine by the addresses of its connection."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack

from hcs_emulator.service.wine.loopback import processes_with

ADDRESS = "127.0.0.1"


def test_a_process_with_the_same_local_port_is_not_the_client() -> None:
    """Linux gives one local port to connections to different servers, such as the emulators of two tests."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server((ADDRESS, 0))) for _ in range(2)]
        port = 0
        clients: list[socket.socket] = []
        programs: list[subprocess.Popen[bytes]] = []
        for server in servers:
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            client.bind((ADDRESS, port))
            client.connect(server.getsockname())
            port = client.getsockname()[1]
            clients.append(client)
            program = subprocess.Popen(
                [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[client.fileno()]
            )
            programs.append(stack.enter_context(program))
        for server, client, program in zip(servers, clients, programs, strict=True):
            accepted, remote = server.accept()
            with accepted:
                assert remote[1] == port
                client.close()  # only the program has it now
                assert processes_with(remote, accepted.getsockname()) == [program.pid]
        for program in programs:
            program.communicate(b"\n", timeout=30)
