"""Linux. `start` imports `files`, `endpoint` and `daemon`: builtin C modules only, no `os`, no `socket`."""
