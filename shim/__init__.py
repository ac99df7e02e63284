"""containerd-shim-runhcs-v1: a containerd shim for Windows containers.

Import rule of this package
---------------------------

Why: containerd runs `start` and `delete` for every container and waits for both, and its first call waits for the
daemon. Imports are most of what they cost. `typing`, `enum`, `re`, `dataclasses`, `json`, `logging`, `threading`,
`contextlib`, `subprocess` and `os` each take longer to import than the code that would use them.

What: a module imports only what every user of it needs, and that at its top. A module that only some calls need is
imported inside the function that needs it. In place of the modules above use builtin C modules: `posix` or `nt` for
`os`, `_thread` locks for `threading`, `_socket` for `socket`, `shim.lean_json` for `json`, classes with `__slots__`
for dataclasses, integer constants for enums.

How to annotate: imports for annotations only go below a constant that type checkers know and that costs no import:

    from __future__ import annotations

    TYPE_CHECKING = False
    if TYPE_CHECKING:
        from collections.abc import Callable

How to check: `tests/support/import_budget.py` lists the modules of each command and stage; the tests that read it are
`tests/unit/repository/test_import_budget.py` and `tests/emulated/commands/test_import_budget.py`. The list of modules
that a command imports: `python -X importtime -IS -m shim ...`. Which packages may import which is in
`tests/unit/repository/test_import_rules.py`.

This module stays free of code: every command imports it first.
"""
