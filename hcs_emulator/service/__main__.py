"""The emulator service: `python -m hcs_emulator.service --directory DIR`."""

from __future__ import annotations

import sys

from hcs_emulator.service import malloc

if __name__ == "__main__":
    malloc.disable_thread_cache()

    from hcs_emulator.service.run import main

    sys.exit(main())
