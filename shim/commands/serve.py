"""`serve`: the daemon, from its first instruction to its last.

`start` forks into `serve()` with an endpoint that already listens, so containerd's first call may be waiting: only
what a first answer needs is loaded before it is served, everything else by a warm-up thread afterwards.

The main thread waits for the word to end, from the Shutdown call or from SIGTERM, and then tidies up: no new calls,
the socket gone, running calls finished within limits, events flushed.
"""

from __future__ import annotations

import gc
import sys
import time
from _thread import start_new_thread

from shim import spans
from shim.commands import Bootstrap, CommandError, Flags, is_sandbox_bundle, read_bootstrap
from shim.logs import Log, NullChannel
from shim.platform import daemon, endpoint, files
from shim.platform.log_channel import LogChannel
from shim.task import service
from shim.task.context import ShimContext
from shim.task.diagnostics import stacks
from shim.task.events.publisher import Publisher
from shim.ttrpc.server import Server

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from shim.task.events.publisher import Sender

DRAIN_TIME = 3.0
# The answer to Shutdown(now) itself must still leave.
DRAIN_TIME_NOW = 0.3
# A thread that imports must not keep an answer waiting for Python's usual 5 ms.
SWITCH_INTERVAL = 0.0005
# containerd's first call is waiting, as a rule: it need not share the interpreter with the warm-up.
HEAD_START = 0.003


def run(flags: Flags) -> int:
    """The command, for systems without fork and for those who want a daemon in the foreground."""
    flags.require("namespace", "address", "publish-binary", "id", "socket")
    bundle = flags.bundle or files.current_directory()
    boot = read_bootstrap(flags)
    try:
        listener = endpoint.listen(flags.socket)
    except endpoint.EndpointError as error:
        raise CommandError(str(error)) from None
    daemon.close_stdout()  # whoever started us waits for this: the endpoint listens
    return serve(flags, boot, listener, bundle, flags.socket, flags.is_sandbox)


def serve(
    flags: Flags,
    boot: Bootstrap,
    listener: _socket.socket,
    bundle: str,
    address: str,
    is_sandbox: bool,
    link: _socket.socket | None = None,
) -> int:
    """Serve until told to end. `link` leads to the `start` that forked us."""
    spans_directory = _keep_spans()
    ending = daemon.Ending()
    ending.catch_signals()
    daemon.watch_faults(stacks.all_threads)  # before anyone can send SIGUSR1, which would end us otherwise
    channel = LogChannel(bundle, flags.namespace, flags.id) if boot.log_text else NullChannel()
    log = Log(channel, boot.log_level, scrub_secrets=boot.scrub)
    publisher = Publisher(lambda: _connect(flags, boot), log)
    server: Server | None = None
    try:
        context = ShimContext(
            namespace=flags.namespace,
            id=flags.id,
            bundle=bundle,
            address=address,
            options_type=boot.options_type,
            options=boot.options,
            is_sandbox=is_sandbox,
            debug=flags.debug,
            publisher=publisher,
            log=log,
            pid=daemon.own_pid(),
            on_shutdown=ending.request,
            sandbox_api=is_sandbox_bundle(bundle),
        )
        server = Server(service.build_services(context), lambda error: _report(log, error))
        sys.setswitchinterval(SWITCH_INTERVAL)
        start_new_thread(server.serve, (endpoint.Listener(listener),))
        start_new_thread(_warm_up, (context, link))
        ending.wait()
        log.debug("shim is ending", now=ending.now)
    finally:
        # Whoever finds no socket starts a new shim: from here on we take no calls.
        endpoint.remove(address)
        if server is not None:
            server.shutdown(DRAIN_TIME_NOW if ending.now else DRAIN_TIME)
        publisher.close()
        if spans_directory:
            _leave_spans(spans_directory, flags.id, log)
        log.close()
    return 0


def _keep_spans() -> str:
    """Where to leave them; "" unless somebody measures. Before the services are built, which would not be watched."""
    directory = files.environment(spans.VARIABLE)
    if directory:
        spans.begin()
        library = sys.modules.get("shim.hcs_bindings.library")
        if library is not None:  # a standby's
            library.forget()
    return directory


def _leave_spans(directory: str, id: str, log: Log) -> None:
    pid = daemon.own_pid()
    try:
        files.write_atomic(f"{directory}/{id}-{pid}.json", spans.document(pid, id))
    except OSError as error:
        log.warning(f"spans are lost: make {directory}, which {spans.VARIABLE} names, a directory", error=error)


def _warm_up(context: ShimContext, link: _socket.socket | None) -> None:
    """Everything that the first answer did not need."""
    try:
        if link is not None and not daemon.handed_over(link):
            context.log.warning("start ended before it could hand over this shim")
            context.request_shutdown(now=True)
            return
        time.sleep(HEAD_START)
        from shim.version import VERSION

        context.log.info("starting containerd-shim-runhcs-v1", version=VERSION, pid=context.pid, tid=context.id)
        with spans.span("warm-up"):
            service.warm_up(context)
    except Exception as error:
        # What is broken will say so again, in the answer to the call that needs it.
        _report(context.log, error)
    finally:
        # What is loaded now stays: the collector need never look at it, nor touch its pages.
        gc.freeze()
        gc.enable()


def _connect(flags: Flags, boot: Bootstrap) -> Sender:
    from shim.task.events.transports import CommandSender, ForwardSender

    address = files.environment("TTRPC_ADDRESS") or boot.ttrpc_address
    if address:
        return ForwardSender(address, flags.namespace)
    return CommandSender(flags.publish_binary, flags.address, flags.namespace)


def _report(log: Log, error: BaseException) -> None:
    """A fault of ours: one line for containerd's log, the whole story for panic.log."""
    log.error("unexpected error, see panic.log in the bundle", error=f"{type(error).__name__}: {error}")
    sys.excepthook(type(error), error, error.__traceback__)
