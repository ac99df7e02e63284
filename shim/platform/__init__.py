"""The operating system: endpoints, daemon, stdio endpoints, log channel, mounts, paths of the HCS libraries.

The only package that may ask which system it runs on. It exports what every command needs: `files`, `endpoint`
(addresses, listening, connecting) and `daemon` (detaching from the caller), from the package of the system. Other
modules are imported one by one, since `start` must import little.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from shim.platform.windows import daemon, endpoint, files
else:
    from shim.platform.linux import daemon, endpoint, files

__all__ = ["daemon", "endpoint", "files"]
