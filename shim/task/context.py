"""What the daemon gives to its services: who it is, where it reports, how it is told to end.

`shim.commands.serve` builds one and calls `shim.task.service.build_services(context)`, which must stay light: it
runs before the first Connect can be answered. Once the endpoint is being served, a warm-up thread calls
`shim.task.service.warm_up(context)`, which imports what only later calls need (the bindings, json, the domain).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.logs import Log
    from shim.task.events.publisher import Publisher


class ShimContext:
    """One daemon's identity and its ways out. Made once; its attributes do not change."""

    __slots__ = (
        "_on_shutdown",
        "address",
        "bundle",
        "debug",
        "id",
        "is_sandbox",
        "log",
        "namespace",
        "options",
        "options_type",
        "pid",
        "publisher",
        "sandbox_api",
    )

    def __init__(
        self,
        *,
        namespace: str,
        id: str,
        bundle: str,
        address: str,
        options_type: str,
        options: bytes,
        is_sandbox: bool,
        debug: bool,
        publisher: Publisher,
        log: Log,
        pid: int,
        on_shutdown: Callable[[bool], None],
        sandbox_api: bool = False,
    ) -> None:
        self.namespace = namespace
        #: The id `start` was called with: the sandbox's id for a pod, else the container's.
        self.id = id
        #: The bundle of that id, absolute. Containers that join the pod have bundles of their own.
        self.bundle = bundle
        #: The address that `start` printed.
        self.address = address
        #: Bare type name of the options that came on stdin, "" when there were none. Create brings its own.
        self.options_type = options_type
        #: Their encoded message.
        self.options = options
        #: True when `id` is a pod sandbox, by its annotations or by the sandbox API.
        self.is_sandbox = is_sandbox
        #: True when the sandbox comes by the Sandbox service and not as a container.
        self.sandbox_api = sandbox_api
        #: containerd logs at debug level.
        self.debug = debug
        #: publish(topic, event) never blocks and never fails.
        self.publisher = publisher
        self.log = log
        #: The daemon's process id, which Connect answers.
        self.pid = pid
        self._on_shutdown = on_shutdown

    def request_shutdown(self, now: bool = False) -> None:
        """End the daemon. Returns at once; answers already given still go out. With `now` it does not wait for
        calls in flight."""
        self._on_shutdown(now)
