"""What a utility VM asks of whatever runs inside it. For type checkers only.

`shim.uvm.windows.guest` fulfils it for Windows guests, over the bridge. Another kind of guest (Linux, or one behind a
connection that HCS manages) brings its own and is used the same way. Documents are dicts; failures are HcsError, as
of a compute system on the host, and once the guest is gone every call fails at once with "already stopped".
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    Document = dict[str, Any]

    class Guest(Protocol):
        @property
        def is_gone(self) -> bool: ...
        def can(self, capability: str) -> bool:
            """A capability the guest named when the link was made (`SignalProcessSupported` …)."""

        def create_container(self, id: str, document: Document) -> None: ...
        def start_container(self, id: str) -> None: ...
        def shut_down_container(self, id: str, *, force: bool) -> None:
            """Begin the end of a container; `on_container_exit` tells when it has come."""

        def delete_container_state(self, id: str) -> None: ...
        def on_container_exit(self, id: str, callback: Callable[[], object]) -> None:
            """Call back once the container is gone, or the guest is. Short, from any thread; once per container."""

        def forget_container(self, id: str) -> None: ...

        def execute(self, id: str, parameters: Document, streams: dict[str, str]) -> int:
            """Run a process; `streams` are the services of the host to which it connects StdIn, StdOut, StdErr."""

        def on_process_exit(self, id: str, pid: int, callback: Callable[[int], object]) -> None:
            """Call back once with the exit code; -1 when it can no longer be known."""

        def signal(self, id: str, pid: int, options: Document | None, timeout: float | None = None) -> None: ...
        def resize(self, id: str, pid: int, height: int, width: int, timeout: float | None = None) -> None: ...

        def properties(self, id: str, *types: str, timeout: float | None = None) -> Document: ...
        def modify(self, id: str, request: Document, timeout: float | None = None) -> None: ...
        def modify_vm(self, resource: str, request: str, settings: Document) -> None:
            """A guest request about the VM itself (`MappedVirtualDisk`, `CombinedLayers`, `Network` …)."""

        def stacks(self, timeout: float) -> str: ...
        def close(self) -> None: ...
