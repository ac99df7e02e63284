"""The stdio endpoints that containerd's clients name, and the relay: FIFOs on Linux, named pipes on Windows.

Both modules offer the same names (tests/unit/repository/test_import_rules.py).
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if sys.platform == "win32":
    from shim.platform.windows import stdio_pipes as _system
else:
    from shim.platform.linux import fifos as _system

Pump = _system.Pump
Relay = _system.Relay
bytes_pending = _system.bytes_pending
close = _system.close
duplicate = _system.duplicate
has_reader = _system.has_reader
hold_writer = _system.hold_writer
is_client_connected = _system.is_client_connected
open_file = _system.open_file
open_input = _system.open_input
open_output = _system.open_output
start_logger = _system.start_logger

if TYPE_CHECKING:
    if sys.platform == "win32":
        from shim.platform.windows.binary_logger import Logger as Logger
    else:
        from shim.platform.linux.binary_logger import Logger as Logger
