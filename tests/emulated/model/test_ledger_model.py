"""After any prefix of any lifecycle, and a kill of the shim, `delete` leaves nothing."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.emulated.model.ledger_driver import Crash, LedgerHost
from tests.emulated.model.programs import crashes
from tests.support.emulator import Emulator
from tests.support.shims import Shims


def test_delete_after_any_crash_leaves_nothing(emulator: Emulator, shims: Shims) -> None:
    host = LedgerHost(emulator, shims)

    @seed(16)
    @settings(max_examples=20, database=None, phases=(Phase.generate, Phase.shrink),
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(crashes())
    def run(crash: Crash) -> None:
        host.run(crash)

    run()
    assert host.steps >= 20
