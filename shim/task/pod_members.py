"""The workloads of a sandbox of the Sandbox service, by their bundles, in a directory of the sandbox's bundle.

containerd runs `delete` for such a sandbox, but not for its workloads. So that `kill -9` of the shim leaks none of
their resources, each workload's bundle is recorded in a file of its own, before anything is created for it and until
its ledger is empty. `delete` of the sandbox reads these files.
"""

from __future__ import annotations

from shim.platform import files

DIRECTORY = "members"
PATH_LIMIT = 4096


def add(sandbox: str, id: str, bundle: str) -> None:
    """Call it before anything is created for the workload."""
    directory = f"{sandbox}/{DIRECTORY}"
    files.make_directory(directory)
    files.write_atomic(f"{directory}/{id}", bundle.encode())


def remove_if_released(sandbox: str, id: str, bundle: str) -> None:
    """Remove the record, unless the ledger has entries or cannot be read."""
    from shim.container.ledger import Ledger

    try:
        held = Ledger(bundle).entries()
    except OSError:
        return
    if not held:
        files.remove(f"{sandbox}/{DIRECTORY}/{id}")


def bundles(sandbox: str) -> list[str]:
    found = []
    for name in files.listing(f"{sandbox}/{DIRECTORY}"):
        try:
            found.append(files.read(f"{sandbox}/{DIRECTORY}/{name}", PATH_LIMIT, follow=False).decode())
        except (OSError, UnicodeDecodeError):
            continue  # removed in the meantime
    return found
