"""One small function per export of the HCS DLLs."""
