"""Exit codes that the emulated Windows guest remembers: Linux uses process ids again."""

from __future__ import annotations

import asyncio
from typing import Any

from hcs_emulator.vm.windows.container import MAX_EXIT_CODES, GuestContainer
from tests.support.silo import in_loop


class Process:
    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()


class Silo:
    def __init__(self, pids: list[int]) -> None:
        self._pids = iter(pids)
        self.processes: list[Process] = []

    async def spawn(self, parameters: dict[str, Any]) -> Process:
        del parameters
        self.processes.append(Process(next(self._pids)))
        return self.processes[-1]


def container(pids: list[int]) -> tuple[GuestContainer, Silo]:
    found = GuestContainer("c", {}, None, "")  # type: ignore[arg-type]
    silo = Silo(pids)
    found.silo = silo  # type: ignore[assignment]
    found.state = "Running"
    return found, silo


async def finish(silo: Silo, code: int) -> None:
    silo.processes[-1].exited.set_result(code)
    await asyncio.sleep(0)  # callbacks of the future


@in_loop
async def test_process_with_the_pid_of_an_earlier_one_has_no_exit_code() -> None:
    guest, silo = container([7, 7])
    assert await guest.execute({}, {}, "") == 7
    await finish(silo, 8)
    assert guest.exit_codes == {7: 8}
    assert await guest.execute({}, {}, "") == 7
    assert guest.exit_codes == {}
    waiting = asyncio.ensure_future(guest.wait(7, 10))
    await asyncio.sleep(0)
    await finish(silo, 48)
    assert await waiting == 48


@in_loop
async def test_only_the_last_exit_codes_are_remembered() -> None:
    guest, silo = container(list(range(1, MAX_EXIT_CODES + 11)))
    for pid in range(1, MAX_EXIT_CODES + 11):
        await guest.execute({}, {}, "")
        await finish(silo, pid)
    assert len(guest.exit_codes) == MAX_EXIT_CODES and 10 not in guest.exit_codes and 11 in guest.exit_codes
