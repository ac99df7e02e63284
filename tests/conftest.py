"""Settings of all test levels: results depend neither on the load of the machine nor on the user's environment."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

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
