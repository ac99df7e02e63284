"""`python.exe crash_driver.py FILTER RAISE LOG CODE HANDLED`: raise an exception below faulthandler and crash_filter.c.

FILTER and RAISE are DLLs made of crash_filter.c and raise.c; faulthandler writes to LOG. Prints how often the handler
saw the code.
"""

import ctypes
import faulthandler
import sys

crash_filter, raising, log, code, is_handled = sys.argv[1:]
with open(log, "wb") as file:
    faulthandler.enable(file)
    if crash_filter:
        ctypes.CDLL(crash_filter).report_unhandled_exceptions_only()
    library = ctypes.CDLL(raising)
    if is_handled == "1":
        print(library.handled(int(code, 16)), flush=True)
    else:
        library.unhandled(int(code, 16))
