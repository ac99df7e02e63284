"""What the task domain needs from the rooms below, and nothing more. For type checkers only.

`shim.container` and `shim.hcs_bindings` fulfil it for process-isolated containers; a pod in a utility VM brings its
own. The domain's tests fulfil it with a few lines.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from shim.oci.section import Section
    from shim.oci.spec import Spec

    Document = dict[str, Any]

    class Exit(Protocol):
        """How a process or system ended; a code below zero is not known."""

        @property
        def code(self) -> int: ...

    class HcsProcess(Protocol):
        """A process of a compute system. `terminate` is False if there was nothing left to end. The handles of its
        streams belong to whoever takes them, and are None then."""

        stdin: int | None
        stdout: int | None
        stderr: int | None

        @property
        def pid(self) -> int: ...
        def on_exit(self, callback: Callable[[Exit], object]) -> None: ...
        def signal(self, options: Document) -> bool: ...
        def terminate(self, timeout: float | None = None) -> bool: ...
        def modify(self, settings: Document, timeout: float | None = None) -> None: ...
        def close(self) -> None: ...

    class System(Protocol):
        """A compute system, on the host or in a guest."""

        def properties(self, *types: str, timeout: float | None = None) -> Document: ...
        def modify(self, request: Document, timeout: float | None = None) -> None: ...
        def pause(self) -> None: ...
        def resume(self) -> None: ...

    class ProcessIO(Protocol):
        """The streams between containerd's client and one process."""

        stdin: str
        stdout: str
        stderr: str
        terminal: bool

        def attach(self, process: HcsProcess) -> None: ...
        def close_stdin(self) -> None: ...
        def drain(
            self,
            idle_timeout: float,
            *,
            waits_for_late_client: Callable[[], bool],
            on_held_open: Callable[[], None] | None,
        ) -> bool: ...
        def close(self) -> None: ...

    class Container(Protocol):
        """A container that has been created and not yet torn down. `shim.container.base` has defaults for what only
        some kinds can do."""

        @property
        def system(self) -> System: ...
        @property
        def in_vm(self) -> bool: ...
        @property
        def memory_breached(self) -> bool:
            """Whether its memory limit has kept one of its processes from getting memory."""

        def set_affinity(self, processors: Sequence[tuple[int, int]]) -> None:
            """Restrict it to these processors, as (mask, group). Raises InvalidSpec where that is not supported."""

        def admit(self, id: str, spec: Spec) -> None:
            """Of a sandbox: check the spec of a container that joins the pod, and add what it inherits from the
            pod."""

        def start(self) -> None: ...
        def create_process(self, parameters: Document) -> HcsProcess: ...
        def exec_parameters(
            self, process: Section, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None = None
        ) -> Document: ...
        def on_exit(self, callback: Callable[[], object]) -> None: ...

        def stop(self) -> None:
            """Stop all that runs in it. What it holds stays, and so does output that has not been read."""

        def teardown(self) -> None: ...

    class NewContainer(Container, Protocol):
        """One whose init has not been asked for yet."""

        def init_parameters(
            self, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None = None
        ) -> Document: ...
