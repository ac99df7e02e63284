"""The native library under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer: no reports."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
from pathlib import Path

import pytest

from hcs_emulator.native.build import LIBRARY, WARNINGS, library_sources, run_compiler
from hcs_emulator.service.transport.server import Client, Reply, Request
from tests.support.scripted_service import Scripted, scripted_service

STRESS = Path(__file__).with_name("native_stress.c")


def script(service: Scripted) -> None:
    """A service that answers late and out of order, sends events and drops connections."""

    async def echo(client: Client, request: Request) -> Reply:
        await asyncio.sleep(random.random() / 500)
        return Reply(document=request.strings[0])

    def registered(client: Client, request: Request) -> Reply:
        for number in range(3):
            delay = random.random() / 100
            service.loop.call_later(delay, client.send_event, request.handle, 1, f'{{"number": {number}}}')
        return Reply()

    def process(client: Client, request: Request) -> Reply:
        reader, writer = os.pipe()
        os.write(writer, b"hello")
        os.close(writer)
        return Reply(handle=service.new_handle(), pid=77, streams=(None, reader, None))

    async def create(client: Client, request: Request) -> Reply:
        await asyncio.sleep(random.random() / 200)
        return Reply(handle=service.new_handle())

    async def wait(client: Client, request: Request) -> Reply:
        await asyncio.sleep(min(request.number, 20) / 1000)
        return Reply(0x80370118)

    def properties(client: Client, request: Request) -> Reply:
        if request.strings[0] == "disconnect":
            client.disconnect()
        return Reply()

    service.handlers = {
        "HcsGetComputeSystemProperties": echo,
        "HcsStartComputeSystem": echo,
        "HcsSetComputeSystemCallback": registered,
        "HcsCreateProcess": process,
        "HcsCreateComputeSystem": create,
        "HcsWaitForProcessExit": wait,
        "HcsGetServiceProperties": properties,
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_stress_program_reports_no_errors(tmp_path: Path, sanitizers: str) -> None:
    program = tmp_path / "stress"
    sources = [str(path) for path in [STRESS, *library_sources()]]
    sanitize = [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    run_compiler([*WARNINGS, "-O1", "-g", "-pthread", f"-I{LIBRARY}", *sanitize, *sources, "-ldl"], program)
    with scripted_service(tmp_path / "emulator") as service:
        script(service)
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "TSAN_OPTIONS": "halt_on_error=1"}
        outcome = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert (outcome.returncode, outcome.stderr) == (0, "")
        assert int(outcome.stdout.split()[1]) > 0
        assert len(service.disconnected_clients) > 1, "connections were lost on the way"
