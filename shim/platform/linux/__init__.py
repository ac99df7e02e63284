"""Linux. `files`, `endpoint` and `daemon` are loaded by `start`: C builtins only, no `os`, no `socket`."""
