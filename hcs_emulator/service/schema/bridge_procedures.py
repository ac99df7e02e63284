"""The requests that a guest answers on the GCS bridge. Faults and the journal have these names."""

from __future__ import annotations

PROCEDURES = {
    "Create": 0x00100101,
    "Start": 0x00100201,
    "ShutdownGraceful": 0x00100301,
    "ShutdownForced": 0x00100401,
    "ExecuteProcess": 0x00100501,
    "WaitForProcess": 0x00100601,
    "SignalProcess": 0x00100701,
    "ResizeConsole": 0x00100801,
    "GetProperties": 0x00100901,
    "ModifySettings": 0x00100A01,
    "NegotiateProtocol": 0x00100B01,
    "DumpStacks": 0x00100C01,
    "DeleteContainerState": 0x00100D01,
    "UpdateContainer": 0x00100E01,
    "LifecycleNotification": 0x00100F01,
    "ModifyServiceSettings": 0x00200101,
}
