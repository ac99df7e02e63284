"""`python.exe pipes.py NAME …`: prints those of the names that somebody listens on."""

import _winapi
import sys

for name in sys.argv[1:]:
    try:
        _winapi.WaitNamedPipe("\\\\.\\pipe\\" + name, 1)
    except FileNotFoundError:
        continue
    except OSError:
        pass  # all its instances are taken
    print(name)
