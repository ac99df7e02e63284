"""The import budget: which modules each command and stage of the shim may import. The rule is in `shim/__init__.py`.

`EXACT` lists all modules beyond those of a bare interpreter. A new module in a list needs a reason that is worth its
time; a module that is no longer imported must leave the list. `FORBIDDEN` lists modules that a stage must not import.

tests/emulated/commands/test_import_budget.py checks the commands, tests/unit/repository/test_import_budget.py the
stages that one import statement reaches, and the bundle lists of `launcher/linux/bundle.py`.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_SHA256 = "_sha2" if sys.version_info >= (3, 12) else "_sha256"
_PLATFORM = {
    "shim.platform", "shim.platform.linux", "shim.platform.linux.files", "shim.platform.linux.endpoint",
    "shim.platform.linux.daemon",
}  # fmt: skip
_COMMAND = {"shim", "shim.__main__", "shim.commands", *_PLATFORM, "_socket"}
_WIRE = {"shim.api", "shim.api.wire"}
# `gc` is disabled for the time of the command; config.json is parsed with the C scanner of `json`.
_START = _COMMAND | {"shim.commands.start", "shim.lean_json", "_json", "gc", _SHA256}
# Before the first response: the server, the publisher and the pod. Everything else is imported by the warm-up.
_DAEMON = _COMMAND | _WIRE | {
    "shim.commands.adopted", "shim.commands.serve", "shim.logs", "shim.spans", "shim.threads",
    "shim.platform.log_channel", "shim.platform.linux.log_channel",
    "shim.task", "shim.task.context", "shim.task.errors", "shim.task.events", "shim.task.events.publisher",
    "shim.task.pod", "shim.task.service", "shim.task.diagnostics", "shim.task.diagnostics.stacks",
    "shim.ttrpc", "shim.ttrpc.call", "shim.ttrpc.connection", "shim.ttrpc.core", "shim.ttrpc.deadlines",
    "shim.ttrpc.envelope", "shim.ttrpc.outbox", "shim.ttrpc.server", "shim.ttrpc.sockets", "shim.ttrpc.status",
    "shim.ttrpc.streams", "shim.ttrpc.transport", "shim.ttrpc.workers",
    "gc", "faulthandler", "_signal",
}  # fmt: skip

EXACT: dict[str, set[str]] = {
    # containerd waits for `start` and `delete` of every container.
    "start": _START,
    # Runtime options on stdin must be decoded; most clients send none.
    "start with options": _START
    | _WIRE
    | {"shim.commands.bootstrap", "shim.api.wellknown", "shim.api.bootstrap", "shim.api.runhcs_options"},
    # One Connect call to the pod's daemon, without `shim.ttrpc.client`.
    "start in a pod": _START
    | _WIRE
    | {"shim.commands.pod_connect", "shim.ttrpc", "shim.ttrpc.core", "shim.ttrpc.envelope"},
    "delete": _COMMAND | _WIRE | {"shim.commands.delete", "shim.task", "shim.task.exit_record", _SHA256},
    # What `delete` imports in addition if the ledger lists anything.
    "ledger": {"__future__", "_json", "shim", "shim.container", "shim.container.ledger", "shim.lean_json"},
    # The first Connect waits for the daemon.
    "daemon": _DAEMON,
}

# Each of these, with its own imports, costs more than the code that would use it.
HEAVY = {
    "asyncio", "cffi", "collections", "contextlib", "dataclasses", "enum", "functools", "google.protobuf", "inspect",
    "json", "logging", "re", "selectors", "socket", "subprocess", "threading", "typing",
}  # fmt: skip
# In an idle daemon `os` and what it imports take a twentieth of the memory.
_MEMORY = {"os", "stat", "termios", "_collections_abc"}
# Rarely used messages, which the generator puts into modules of their own.
_RARE_MESSAGES = {"shim.api.task_more", "shim.api.events_more", "shim.api.types_more"}

#: Import statement -> modules that it must not import. `package.*` is all modules of a package.
FORBIDDEN: dict[str, set[str]] = {
    # The daemon before its first response: nothing that only a task needs.
    "import shim.task.service": HEAVY
    | _MEMORY
    | _RARE_MESSAGES
    | {"_cffi_backend", "tomllib", "shim.hcs_bindings.*", "shim.oci.*", "shim.task.create", "shim.task.task",
       "shim.task.stats.collect"},
    # Create of a process-isolated container: nothing of host processes.
    "import shim.task.create": HEAVY | _MEMORY | _RARE_MESSAGES | {"shim.hostprocess.*", "shim.platform.jobs",
                                                                  "shim.platform.job_types", "shim.hcs_bindings.job"},
    # Clients on Windows never get cgroup metrics, and Pids needs no stats.
    "from shim.task.stats import collect": HEAVY | {"shim.api.cgroups_v2", "shim.api.runc_options"},
    "from shim.task.stats import pids": HEAVY | {"shim.api.runhcs_stats", "shim.api.cgroups_v1", "shim.api.cgroups_v2",
                                                 "shim.api.runc_options", "shim.task.stats.messages"},
    "from shim.hcs_bindings import system, storage, network, service": HEAVY | {"os"},
    # The catalogue is for messages only: an error that is handled needs none.
    "from shim.hcs_bindings import errors; errors.is_not_exist(errors.HcsError(0x80370109, 'x'))": HEAVY
    | {"os", "shim.hcs_bindings.catalogue", "shim.hcs_bindings.catalogue_hcs"},
}  # fmt: skip


def imported_by(code: str) -> set[str]:
    """The modules that a bare interpreter imports for some code, beyond its own."""
    paths = [str(ROOT), sysconfig.get_paths()["platlib"]]
    program = (
        f"import sys; sys.path[:0] = {paths!r}; before = set(sys.modules); {code}\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def matching(modules: Iterable[str], patterns: Iterable[str]) -> set[str]:
    """The modules that a list of FORBIDDEN names."""
    packages = tuple(pattern.removesuffix("*") for pattern in patterns if pattern.endswith(".*"))
    names = {pattern for pattern in patterns if not pattern.endswith(".*")}
    return {name for name in modules if name in names or f"{name}.".startswith(packages)}
