"""Settings of all test levels: results depend neither on the load of the machine nor on the user's environment."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# No deadline per example: how long an example takes depends on the load of the machine.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Variables that a user may have set for their own emulator or shims. RUNHCS_STANDBY stays: with it the tests run with
# a standby.
for variable in (
    "HCSSHIM_TIMEOUT_GCSCONNECTION", "HCS_EMULATOR_BUILD", "HCS_EMULATOR_DIR", "HCS_EMULATOR_JOURNAL",
    "HCS_EMULATOR_LINUX_GUEST",
    "RUNHCS_AGENT", "RUNHCS_SOCKET_DIR", "RUNHCS_SPANS", "RUNHCS_STANDBY_IDLE",
):  # fmt: skip
    os.environ.pop(variable, None)

# A shell starts programs in the background with SIGINT ignored, and children inherit that: a program that a test
# interrupts would not notice. A handler is not inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Files whose tests share something that takes long to make, such as a run of the benchmark: one worker has the file.
SHARING_FILES = frozenset({
    "tests/containerd/test_bench.py",
    "tests/containerd/test_node_install.py",
    "tests/emulated/commands/test_launcher_parsers.py",
    "tests/emulated/tools/test_wheel.py",
})  # fmt: skip


class SharingFilesScheduling(LoadScopeScheduling):
    """Each test by itself to the next worker, but a sharing file as a whole. Marks of pytest-xdist (`xdist_group`) do
    the same, but with pytest 9.2 they have no effect: https://github.com/pytest-dev/pytest-xdist/issues/1386.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file in SHARING_FILES else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SharingFilesScheduling | None:
    """For `--dist loadscope`; else what pytest-xdist has."""
    return SharingFilesScheduling(config, log) if config.getoption("dist") == "loadscope" else None
