"""The workloads of a sandbox of the Sandbox service, by their bundles, on disk in the sandbox's own.

containerd runs `delete` for the sandbox of such a pod, and not for its workloads. So that a `kill -9` leaks nothing of
them either, a workload's bundle is noted, one file each, before anything is made for it, until its ledger is empty;
`delete` of the sandbox looks there.
"""

from __future__ import annotations

from shim.platform import files

DIRECTORY = "joined"
PATH_LIMIT = 4096


def enter(sandbox: str, id: str, bundle: str) -> None:
    """To be called before anything is acquired for the workload."""
    directory = f"{sandbox}/{DIRECTORY}"
    files.make_directory(directory)
    files.write_atomic(f"{directory}/{id}", bundle.encode())


def leave(sandbox: str, id: str, bundle: str) -> None:
    """It is free; unless its ledger says otherwise, or cannot be read."""
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
            found.append(files.read(f"{sandbox}/{DIRECTORY}/{name}", PATH_LIMIT).decode())
        except (OSError, UnicodeDecodeError):
            continue  # struck out in this very moment
    return found
