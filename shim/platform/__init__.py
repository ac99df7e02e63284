"""The operating system: endpoints, daemon, stdio endpoints, log channel, mounts, where HCS's library is.

The only room that may ask which system it runs on. This page gives what every command needs: `files`, `endpoint`
(addresses, listening, dialling) and `daemon` (leaving the caller's world), as the system's own package has them. The
other modules are imported one by one, since `start` can afford few.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from shim.platform.windows import daemon, endpoint, files
else:
    from shim.platform.linux import daemon, endpoint, files

__all__ = ["daemon", "endpoint", "files"]
