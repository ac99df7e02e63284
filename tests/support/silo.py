"""Helpers of the silo tests: a silo for the duration of a test, and a process that runs to its exit."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import attrs
import pytest

from hcs_emulator.native.build import build_programs
from hcs_emulator.service.silo.namespaces import Silo, SiloProcess, SiloSettings

DEADLINE = 60.0


@pytest.fixture(scope="session", autouse=True)
def programs() -> None:
    build_programs()


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a coroutine test in an event loop of its own."""

    @functools.wraps(test)
    def run(*arguments: Any, **keywords: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(90):
                await test(*arguments, **keywords)

        asyncio.run(bounded())

    return run


@contextlib.asynccontextmanager
async def running(**settings: Any) -> AsyncIterator[Silo]:
    identity = f"test-{uuid.uuid4()}"
    silo = await Silo.start(SiloSettings(**{"id": identity, "instance": f"test-{os.getpid()}", **settings}))
    try:
        yield silo
    finally:
        await silo.terminate()


@attrs.frozen
class Result:
    code: int
    out: bytes
    error: bytes


async def read_all(descriptor: int) -> bytes:
    """Everything up to the end of the stream, without blocking the loop."""

    def drain() -> bytes:
        parts = []
        while True:
            try:
                part = os.read(descriptor, 65536)
            except OSError:  # a console whose last process has exited
                part = b""
            if not part:
                return b"".join(parts)
            parts.append(part)

    return await asyncio.wait_for(asyncio.to_thread(drain), DEADLINE)


async def finished(silo: Silo, command_line: str, stdin: bytes | None = None, **parameters: Any) -> Result:
    """Run a command to its exit."""
    pipes = {"CreateStdInPipe": stdin is not None, "CreateStdOutPipe": True, "CreateStdErrPipe": True}
    process = await silo.spawn({"CommandLine": command_line, **pipes, **parameters})
    try:
        if stdin is not None:
            assert process.stdin is not None
            os.write(process.stdin, stdin)
            process.close_stdin()
        assert process.stdout is not None and process.stderr is not None
        out, error = await asyncio.gather(read_all(process.stdout), read_all(process.stderr))
        return Result(await asyncio.wait_for(process.exited, DEADLINE), out, error)
    finally:
        process.close()


async def until(condition: Callable[[], bool], what: str) -> None:
    """Poll until a condition holds; fails with `what` at the deadline."""
    for _ in range(int(DEADLINE / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never happened: {what}")


async def read_until(process: SiloProcess, text: bytes) -> bytes:
    """Output of a process up to and including `text`."""
    assert process.stdout is not None
    seen = b""
    while text not in seen:
        part = await asyncio.wait_for(asyncio.to_thread(os.read, process.stdout, 4096), DEADLINE)
        assert part, f"the output ended before {text!r}: {seen!r}"
        seen += part
    return seen


def exists(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")
