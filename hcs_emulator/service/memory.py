"""What the service has allocated, for a search for leaks: counts that do not depend on fragmentation or on time."""

from __future__ import annotations

import gc
import sys


def counts() -> dict[str, int]:
    """Allocated blocks, and objects that can contain others, after all garbage is freed.

    The interpreter's cache of methods keeps up to 4,096 names of attributes. Many are new strings, one for each lookup
    from C, so a service that is well allocates a few more with every call until the cache is full.
    """
    gc.collect()
    # Its name since Python 3.13, and before.
    clear = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
    clear()
    return {"blocks": sys.getallocatedblocks(), "objects": len(gc.get_objects())}
