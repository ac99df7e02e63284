"""Windows programs under Wine: clients of the emulator's DLLs, and container processes that Wine runs."""
