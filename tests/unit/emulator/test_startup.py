"""What the service and the VM worker import at startup: the library starts the service on demand, and every utility VM
has a worker, so slow modules that only some requests need are imported by those requests.
"""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "not_imported"),
    [
        ("hcs_emulator.service.run", {"cattrs", "tomllib", "tempfile", "hcs_emulator.vm"}),
        ("hcs_emulator.vm.__main__", {"cattrs", "tomllib", "tempfile", "shutil", "argparse", "random"}),
    ],
)
def test_startup_does_not_import_slow_modules(module: str, not_imported: set[str]) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not_imported & set(loaded) == set()
