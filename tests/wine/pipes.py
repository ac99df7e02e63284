"""`python.exe pipes.py NAME …`: prints the names of the pipes that exist."""

import _winapi
import sys

for name in sys.argv[1:]:
    try:
        _winapi.WaitNamedPipe("\\\\.\\pipe\\" + name, 1)
    except FileNotFoundError:
        continue
    except OSError:
        pass  # all its instances are in use
    print(name)
