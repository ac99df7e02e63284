"""What all levels share: what a test finds depends neither on the machine's load nor on who runs it."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Examples are judged by what they find. How long they take says only how busy the machine is.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# What a person may have set for an emulator or shims of their own. RUNHCS_STANDBY=1 is a wish, and granted.
for variable in (
    "HCSSHIM_TIMEOUT_GCSCONNECTION", "HCS_EMULATOR_BUILD", "HCS_EMULATOR_DIR", "HCS_EMULATOR_JOURNAL",
    "RUNHCS_SOCKET_DIR", "RUNHCS_SPANS", "RUNHCS_STANDBY_IDLE",
):  # fmt: skip
    os.environ.pop(variable, None)
