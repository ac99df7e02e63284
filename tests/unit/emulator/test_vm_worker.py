"""The host's end of a VM worker, with a worker that only sends messages."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from hcs_emulator.service.virtual_machine.worker import Worker

# It answers `start`, reports that a fault kills a process, and exits before it does so.
WORKER = """
import json, socket, sys
channel = socket.socket(fileno=int(sys.argv[1]))
request = json.loads(channel.makefile().readline())
for message in ({"kill_client": request["settings"]["client"]}, {"id": request["id"]}):
    channel.sendall(json.dumps(message).encode() + b"\\n")
"""


def test_client_that_terminates_the_vm_first_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "short_worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    async def run(client: int) -> None:
        worker = await Worker.start({"client": client}, lambda pid, report: None, "short_worker")
        await asyncio.wait_for(worker.exited.wait(), 60)

    with subprocess.Popen(["sleep", "600"]) as client:
        try:
            asyncio.run(run(client.pid))
            assert client.wait(60) == -9
        finally:
            client.kill()
