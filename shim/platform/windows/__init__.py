"""Windows. `start` imports `files` and `daemon`: builtin C modules only (`nt`, `_winapi`), no `os`, no `subprocess`.

Handles are ints, as in `_winapi`. All pipes are overlapped, so that every wait can be cancelled.
"""
