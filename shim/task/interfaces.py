"""The interfaces between the task package and the packages below it, and inside it. For type checkers only.

`shim.container` and `shim.hcs_bindings` implement them for process-isolated containers, `shim.uvm` for containers in a
utility VM, `shim.hostprocess` for host-process containers, and the fakes of the unit tests with a few lines.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from shim.oci.section import Section
    from shim.oci.spec import Spec
    from shim.task.process import Process

    Document = dict[str, Any]

    class Exit(Protocol):
        """How a process or compute system exited. A code below zero is unknown."""

        @property
        def code(self) -> int: ...

    class HcsProcess(Protocol):
        """A process of a compute system. `terminate` returns False if the process had exited already. Who takes a stdio
        handle owns it, and sets the attribute to None."""

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
        """The stdio between containerd's client and one process."""

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
            waits_for_reader: Callable[[], bool],
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
        def isolation(self) -> str: ...
        @property
        def is_linux(self) -> bool: ...
        @property
        def memory_breached(self) -> bool:
            """Whether its memory limit has kept one of its processes from getting memory."""

        def statistics(self, timeout: float) -> Document | None:
            """Its `Statistics`, in the form of HCS."""

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
        """A container whose init process has not been created yet."""

        def init_parameters(
            self, *, stdin: bool, stdout: bool, stderr: bool, terminal: bool | None = None
        ) -> Document: ...

    class ProcessOwner(Protocol):
        """What a `Process` needs from its task. `shim.task.process` shows when each method is called."""

        def create_process(self, process: Process) -> HcsProcess:
            """Run it in HCS. The container is started first for its init."""

        def publish_started(self, process: Process) -> None: ...

        def console_event_for(self, signal: int) -> str | int | None:
            """The console event that a signal stands for, or the number of a Linux signal; None to terminate the
            process."""

        def stop_container(self) -> None:
            """Stop all processes in the container: one of them holds the stdio of a killed init open."""

        def process_exited(self, process: Process) -> None:
            """The owner's part of an exit, called once, in a thread, after the output has drained."""
