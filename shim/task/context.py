"""What the daemon passes to its services: its identity, its log and publisher, and how to shut it down.

`shim.commands.serve` creates it and calls `shim.task.service.build_services(context)`, which must import little: it
runs before the first Connect can be answered. Once the socket is served, a warm-up thread calls
`shim.task.service.warm_up(context)`, which imports what only later calls need (HCS bindings, json, task modules).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from shim.logs import Log
    from shim.task.events.publisher import Publisher


class ShimContext:
    """Created once for each pod that a daemon serves, usually one. Its attributes do not change, but `record`, which
    the daemon sets."""

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
        "record",
        "release_bundle",
        "sandbox_api",
        "scope",
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
        scope: str = "pod",
        release_bundle: Callable[[], None] | None = None,
    ) -> None:
        self.namespace = namespace
        #: The id of the `start` command: the sandbox's id for a pod, else the container's.
        self.id = id
        #: The absolute bundle path of that id. Containers that join the pod have their own bundles.
        self.bundle = bundle
        #: The address that `start` printed.
        self.address = address
        #: The type name of the options on stdin, without a prefix; "" if there were none. Create has its own options.
        self.options_type = options_type
        #: The encoded message of these options.
        self.options = options
        #: True when `id` is a pod sandbox, by its annotations or by the sandbox API.
        self.is_sandbox = is_sandbox
        #: True when the Sandbox service creates the sandbox, instead of a Create of the Task service.
        self.sandbox_api = sandbox_api
        #: Which pods the process serves: this one, or others of its namespace or node, too.
        self.scope = scope
        #: containerd logs at debug level.
        self.debug = debug
        #: `publish(topic, event)` never blocks and never raises.
        self.publisher = publisher
        self.log = log
        #: The daemon's process id, which Connect returns.
        self.pid = pid
        #: `record(address)` sends what the shim does to the `runhcs record` that listens there.
        self.record: Callable[[str], None] | None = None
        #: Closes the files of the bundle that block its removal.
        self.release_bundle = release_bundle or (lambda: None)
        self._on_shutdown = on_shutdown

    def request_shutdown(self, now: bool = False) -> None:
        """Shut the daemon down. Returns at once; responses that are queued are still sent. With `now` it does not wait
        for calls in flight."""
        self._on_shutdown(now)
