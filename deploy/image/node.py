"""The entry point of the image: `runhcs node-install` with the packages of the image."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent / "packages"))
    from runhcs.__main__ import main

    sys.exit(main(["node-install", *sys.argv[1:]]))
