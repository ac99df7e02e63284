"""Windows. `files` and `daemon` are loaded by `start`: C builtins only (`nt`, `_winapi`), no `os`, no `subprocess`.

Handles are ints, as `_winapi` has them. All pipes are overlapped, so that every wait can be cut short.
"""
