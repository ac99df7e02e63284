"""`serve`: the daemon, from start to exit.

`start` forks into `serve()` with an endpoint that already listens, so containerd's first call may be waiting: only
what the first response needs is imported before serving, everything else afterwards in a warm-up thread.

The main thread waits for a shutdown request, from the Shutdown call or from SIGTERM, and then cleans up: it removes the
socket, accepts no new calls, gives running calls a limited time, and flushes the events.
"""

from __future__ import annotations

import gc
import sys
import time
from _thread import allocate_lock

from shim import spans, threads
from shim.commands import POD_SCOPE, Bootstrap, CommandError, Flags, is_sandbox_bundle, read_bootstrap
from shim.logs import Log, NullChannel
from shim.platform import daemon, endpoint, files
from shim.platform.log_channel import LogChannel, event_sink
from shim.task import service
from shim.task.context import ShimContext
from shim.task.diagnostics import stacks
from shim.task.events.publisher import Publisher
from shim.task.pod import Pod
from shim.threads import start_thread
from shim.ttrpc.server import Server
from shim.ttrpc.status import ALREADY_EXISTS, FAILED_PRECONDITION, StatusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

    from shim.platform.log_channel import SystemSink
    from shim.recording.recorder import Recorder
    from shim.task.events.publisher import EventTransport
    from shim.telemetry import Telemetry

# The address of the node agent, or 0 for no reports.
AGENT_VARIABLE = "RUNHCS_AGENT"
# When the launcher was started, in nanoseconds of `perf_counter`.
BEGAN_VARIABLE = "RUNHCS_BEGAN"
CALLS_TIMEOUT = 3.0
# How many functions without a thread the log names.
_SHOWN = 10
# The response to Shutdown(now) itself must still be sent.
CALLS_TIMEOUT_NOW = 0.3
# containerd's first call is usually waiting: do not let the warm-up compete with it for the interpreter.
WARM_UP_DELAY = 0.003


def run(flags: Flags) -> int:
    """The command, for systems without fork and for a daemon in the foreground."""
    flags.require("namespace", "address", "publish-binary", "id", "socket")
    bundle = flags.bundle or files.current_directory()
    boot = read_bootstrap(flags)
    try:
        listener = endpoint.listen(flags.socket)
    except endpoint.EndpointError as error:
        raise CommandError(str(error)) from None
    daemon.redirect_stdio_to_null()  # our parent waits for this: the endpoint listens
    return serve(flags, boot, listener, bundle, flags.socket, flags.is_sandbox)


def serve(
    flags: Flags,
    boot: Bootstrap,
    listener: _socket.socket,
    bundle: str,
    address: str,
    is_sandbox: bool,
    link: _socket.socket | None = None,
    channel: LogChannel | None = None,
) -> int:
    """Serve one pod until shutdown is requested. `link` connects to the `start` that forked this process. Without a
    channel one is created, if the options request a text log."""
    spans_directory = enable_spans()
    telemetry = _enable_telemetry(flags, bundle, address, is_sandbox)
    shutdown = prepare_process()
    server = PodServer(flags, boot, listener, bundle, address, telemetry, channel)
    try:
        server.start(is_sandbox, shutdown.request)
        start_thread(warm_up, (server, link))
        shutdown.wait(lambda: start_waiting_threads(shutdown, server.log))
        server.log.debug("shutting down", now=shutdown.now)
    finally:
        threads.set_keeper(None)
        server.end_calls(shutdown.now)
        if spans_directory:
            write_spans(spans_directory, flags.id, server.log)
        server.log.close()
    return 1 if shutdown.failed else 0


def prepare_process() -> daemon.ShutdownRequest:
    """Signals, threads and crashes, for the whole process."""
    shutdown = daemon.ShutdownRequest()
    shutdown.catch_signals()
    threads.set_keeper(shutdown.wake)
    daemon.enable_fault_handler(stacks.all_threads)  # before a client can send SIGUSR1, which would kill us otherwise
    sys.setswitchinterval(daemon.SWITCH_INTERVAL)
    return shutdown


class PodServer:
    """What serves one pod: its endpoint, calls, tasks, log and events. A process has one of them, or several
    (`shim.commands.shared`)."""

    __slots__ = ("_boot", "_identity", "_is_closed", "_is_listening", "_listener", "_publisher", "_recording",
                 "_server", "_sink", "_telemetry", "address", "bundle", "context", "flags", "log", "pod")  # fmt: skip

    context: ShimContext
    pod: Pod

    def __init__(
        self,
        flags: Flags,
        boot: Bootstrap,
        listener: _socket.socket,
        bundle: str,
        address: str,
        telemetry: Telemetry | None = None,
        channel: LogChannel | None = None,
        identity: tuple[int, int] | None = None,
    ) -> None:
        """`identity` is the endpoint's, if another process may replace it."""
        self.flags = flags
        self._boot = boot
        self._listener = listener
        self.bundle = bundle
        self.address = address
        self._identity = identity
        self._telemetry = telemetry
        if channel is None and boot.log_text:
            channel = LogChannel(bundle, flags.namespace, flags.id)
        self.log = Log(channel or NullChannel(), boot.log_level, scrub_secrets=boot.scrub)
        observe = None if telemetry is None else telemetry.add_event
        self._publisher = Publisher(lambda: _connect(flags, boot), self.log, observe)
        self._server: Server | None = None
        self._sink: SystemSink | None = None
        self._is_listening = False
        self._is_closed = False
        self._recording = _Recording()

    def start(
        self, is_sandbox: bool, on_shutdown: Callable[[bool], None], limit: int = 0, scope: str = POD_SCOPE
    ) -> None:
        """Accept calls, and run at most `limit` at a time; 0 is no limit."""
        flags, boot, log = self.flags, self._boot, self.log
        self.context = ShimContext(
            namespace=flags.namespace,
            id=flags.id,
            bundle=self.bundle,
            address=self.address,
            options_type=boot.options_type,
            options=boot.options,
            is_sandbox=is_sandbox,
            debug=flags.debug,
            publisher=self._publisher,
            log=log,
            pid=daemon.own_pid(),
            on_shutdown=on_shutdown,
            sandbox_api=is_sandbox_bundle(self.bundle),
            scope=scope,
            release_bundle=self.release_bundle,
        )
        self.pod = Pod(self.context)
        is_traced = spans.is_enabled()
        services = service.build_services(self.context, self.pod)
        self._server = Server(services, lambda error: report(log, error), limit)
        self._recording.begin_if_requested(self._server, self.context, is_traced)
        start_thread(self._server.serve, (endpoint.Listener(self._listener),))
        self._is_listening = True

    def end_calls(self, now: bool) -> None:
        """Remove the endpoint, finish calls and flush events: each step, whatever another raises."""
        from shim.container.base import run_all

        # A client that finds no socket starts a new shim: no calls are accepted from here on.
        steps: list[Callable[[], object]] = [lambda: endpoint.remove(self.address, self._identity)]
        if self._server is not None:
            shutdown = self._server.shutdown
            steps.append(lambda: shutdown(CALLS_TIMEOUT_NOW if now else CALLS_TIMEOUT))
        if not self._is_listening:
            steps.append(self._listener.close)
        steps += [self._publisher.close, self._recording.close]
        if self._telemetry is not None:
            steps.append(self._telemetry.close)
        run_all(steps)

    def release_bundle(self) -> None:
        """Before the response after which containerd may remove the bundle."""
        daemon.release_bundle()

    def close_log(self) -> None:
        """For a process that serves other pods: the exit of a process closes all of it."""
        self._is_closed = True
        self.log.close()
        self._close_sink()

    def _close_sink(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            self.log.remove_sink(sink)
            sink.close()

    def announce(self) -> None:
        """The first lines of the log and of its event sink."""
        from shim.version import VERSION

        self._sink = event_sink(VERSION, _arguments(self.flags), self._log_stacks)
        if self._sink is not None:
            self.log.add_sink(self._sink)
        if self._is_closed:
            self._close_sink()  # the pod has ended meanwhile
        context = self.context
        self.log.info("starting containerd-shim-runhcs-v1", version=VERSION, pid=context.pid, tid=context.id)

    def _log_stacks(self) -> None:
        from shim.task.diagnostics.service import log_stacks

        log_stacks(self.pod, self.context)


def start_waiting_threads(shutdown: daemon.ShutdownRequest, log: Log) -> None:
    """In the main thread, when it was woken: some work may have got no thread."""
    if not threads.is_waiting():
        return  # a signal
    log.warning("cannot start a thread, trying again: the limit on processes or the memory is exhausted")
    waiting = threads.start_waiting(lambda: shutdown.requested)
    if waiting:
        log.error(
            f"no thread could be started for {threads.GIVE_UP_SECONDS:.0f} s, exiting: raise the limit on processes",
            waiting=", ".join(waiting[:_SHOWN]),
            count=len(waiting),
        )
        shutdown.failed = True
        shutdown.request(now=True)


def enable_spans() -> str:
    """The directory for spans; "" if they are off. Called before the services are built, which are traced."""
    directory = files.environment(spans.VARIABLE)
    if directory:
        spans.enable()
        trace_libraries()
    return directory


def trace_libraries() -> None:
    library = sys.modules.get("shim.hcs_bindings.library")
    if library is not None:  # imported by a standby
        library.reset()


def _enable_telemetry(flags: Flags, bundle: str, address: str, is_sandbox: bool) -> Telemetry | None:
    """Called before the services are built."""
    telemetry = telemetry_of(flags, bundle, address, is_sandbox)
    if telemetry is not None:
        spans.enable(telemetry.add)
        trace_libraries()
    return telemetry


def telemetry_of(flags: Flags, bundle: str, address: str, is_sandbox: bool) -> Telemetry | None:
    """Reports of a pod to the node agent, if one listens; otherwise nothing is imported."""
    agent = files.environment(AGENT_VARIABLE) or endpoint.agent_address(address)
    if agent == "0" or not endpoint.exists(agent):
        return None
    from shim.telemetry import Telemetry
    from shim.version import VERSION

    identity = {
        "version": VERSION,
        "pid": daemon.own_pid(),
        "namespace": flags.namespace,
        "id": flags.id,
        "is_sandbox": is_sandbox,
        "bundle": bundle,
        "address": address,
        # A standby has imported everything.
        "start": "standby" if "shim.task.create" in sys.modules else "cold",
    }
    return Telemetry(agent, identity)


class _Recording:
    """The recording for `runhcs record`, if there is one. The code for it is imported only then."""

    __slots__ = ("_is_traced", "_lock", "_recorder")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._recorder: Recorder | None = None
        self._is_traced = False

    def begin_if_requested(self, server: Server, context: ShimContext, is_traced: bool) -> None:
        """If `runhcs record` waits for new shims. Later it may ask this shim (`context.record`). `is_traced` is whether
        the handlers of the server have spans."""
        self._is_traced = is_traced
        context.record = lambda address: self._begin(address, server, context, from_start=False)
        address = endpoint.record_address(context.address)
        if not endpoint.exists(address):
            return
        try:
            self._begin(address, server, context, from_start=True)
        except StatusError as error:
            context.log.debug("not recorded", reason=error.message)  # a socket that a killed `runhcs record` left

    def _begin(self, address: str, server: Server, context: ShimContext, *, from_start: bool) -> None:
        from shim.recording.recorder import Recorder, RecordingError

        with self._lock:
            if self._recorder is not None and self._recorder.is_running:
                raise StatusError(ALREADY_EXISTS, "the shim is being recorded: wait for the other `runhcs record`")
            try:
                recorder = Recorder(address, server, context, from_start=from_start, is_traced=self._is_traced)
            except RecordingError as error:
                raise StatusError(FAILED_PRECONDITION, str(error)) from None
            if recorder.accepted:
                recorder.attach()
                self._recorder = recorder

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()


def _record_start(id: str) -> None:
    """The time from the start of the launcher to the handover."""
    began = files.environment(BEGAN_VARIABLE)
    if began.isascii() and began.isdigit() and spans.is_enabled():
        root = spans.Root("start", id)
        root.begin, root.end = int(began), time.perf_counter_ns()
        spans.emit(root)


def write_spans(directory: str, id: str, log: Log) -> None:
    pid = daemon.own_pid()
    try:
        files.write_atomic(f"{directory}/{id}-{pid}.json", spans.document(pid, id))
    except OSError as error:
        log.warning(f"failed to write spans: create the directory {directory} that {spans.VARIABLE} names", error=error)


def warm_up(server: PodServer, link: _socket.socket | None) -> None:
    """Import everything that the first response did not need."""
    context = server.context
    try:
        if link is not None and not daemon.wait_for_handover(link):
            context.log.warning("start died before the handover, shutting down")
            context.request_shutdown(now=True)
            return
        _record_start(context.id)
        time.sleep(WARM_UP_DELAY)
        daemon.announce_and_load(server.announce)
        with spans.span("warm-up"):
            service.warm_up(context)
    except Exception as error:
        # A call that needs the broken module later imports it again, and reports its own error. A call that waits for
        # this import gets the unfinished module: Python does not tell it of the failure, so it is in the log.
        report(context.log, error)
    finally:
        daemon.restore_error_mode()
        # What is loaded now stays: the collector need not traverse it, nor touch its pages.
        gc.freeze()
        gc.enable()


def _arguments(flags: Flags) -> list[str]:
    """The command line of `serve`, whichever way this daemon came to be."""
    named = {"-namespace": flags.namespace, "-address": flags.address, "-publish-binary": flags.publish_binary}
    options = [text for name, value in named.items() for text in (name, value)]
    return ["containerd-shim-runhcs-v1", *options, "-id", flags.id, "serve"]


def _connect(flags: Flags, boot: Bootstrap) -> EventTransport:
    from shim.task.events.transports import ForwardTransport, PublishCommandTransport

    address = files.environment("TTRPC_ADDRESS") or boot.ttrpc_address
    if address:
        return ForwardTransport(address, flags.namespace)
    return PublishCommandTransport(flags.publish_binary, flags.address, flags.namespace)


def report(log: Log, error: BaseException) -> None:
    """A bug: one line for containerd's log, the traceback for panic.log."""
    log.error("unexpected error, see panic.log in the bundle", error=f"{type(error).__name__}: {error}")
    sys.excepthook(type(error), error, error.__traceback__)
