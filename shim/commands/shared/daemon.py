"""The shared daemon: takes pods from `start`, serves each until its end, and exits with the last.

A pod that has been greeted is counted before `start` hands it over. So a daemon never exits, nor exceeds its limit,
between the two. When the last pod ends, when the daemon is full, or when it is too old, it *retires*: it removes its
control endpoint, and the next `start` begins a new daemon. Its remaining pods are served until they end.

What one pod does must not delay another. Each has threads of its own, a bounded number (WORKERS), and the
process's few shared threads (HCS callbacks, timers, stdio) never wait for a pod.
"""

from __future__ import annotations

import sys
import time
from _thread import allocate_lock

from shim import spans, threads
from shim.commands import STDIN_LIMIT, CommandError, decode_bootstrap, serve
from shim.commands.shared import DAEMON_PANIC_LOG
from shim.commands.shared.pod import Arrival, SharedPod
from shim.logs import Log
from shim.platform import daemon, files, shared
from shim.task import service

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable
    from types import TracebackType

    from shim.commands import Flags
    from shim.spans import Root

    Parse = Callable[[list[str]], tuple[str, Flags]]

#: A crash ends at most this many pods: about half of what a node runs (110 pods by default).
MAX_PODS = 64
MAX_PODS_VARIABLE = "RUNHCS_SHARED_MAX_PODS"
#: A day, in seconds: then new pods get a fresh process.
MAX_AGE = 86400
MAX_AGE_VARIABLE = "RUNHCS_SHARED_MAX_AGE"
#: Calls of one pod at a time, and as many urgent ones. containerd makes a handful.
WORKERS = 32
# How long a daemon that is terminated waits for its pods, which end at the same time.
END_TIMEOUT = 10.0
# Pause after an error of accept, such as a shortage of descriptors.
_ACCEPT_PAUSE = 0.2


class SharedDaemon:
    def __init__(self, control: shared.ControlEndpoint, scope: str, parse: Parse, crash_log: shared.CrashLog) -> None:
        self._control = control
        self._scope = scope
        self._parse = parse
        self._crash_log = crash_log
        self._lock = allocate_lock()
        self._pods: list[SharedPod] = []
        #: Pods that have been greeted and are not in the list yet.
        self._arriving = 0
        #: The `start` that spawned this process has not handed over its pod yet.
        self._is_awaited = False
        self._is_warm = False
        self._is_traced = False
        self._max_pods = _limit(MAX_PODS_VARIABLE, MAX_PODS)
        self._retires_at = time.monotonic() + _limit(MAX_AGE_VARIABLE, MAX_AGE)
        self._log = Log(self)
        self._shutdown = serve.prepare_process()

    def serve(self, id: str, first: Arrival | None = None, starter: _socket.socket | None = None) -> int:
        """Serve this pod and those that join, until the last has ended. Without a first pod `starter` is the link to
        the `start` that spawned this process; `id` is of its pod."""
        sys.excepthook = self._report
        sys.unraisablehook = lambda raised: self._report(raised.exc_type, raised.exc_value, raised.exc_traceback)
        spans_directory = serve.enable_spans()
        try:
            self._begin(first, starter)
            self._shutdown.wait(lambda: serve.start_waiting_threads(self._shutdown, self._log))
        finally:
            threads.set_keeper(None)
            self._retire()
            with self._lock:
                pods = [pod for pod in self._pods if not pod.is_ending]
                for pod in pods:
                    pod.is_ending = True
            threads.run_parallel([lambda pod=pod: pod.close(self._shutdown.now) for pod in pods], END_TIMEOUT)  # type: ignore[misc]
            if spans_directory:
                serve.write_spans(spans_directory, id, self._log)
            self._crash_log.remove()
        return 1 if self._shutdown.failed else 0

    def _begin(self, first: Arrival | None, starter: _socket.socket | None) -> None:
        if first is not None:
            self._arriving = 1
            threads.start_thread(self._add, (first,))
        elif starter is not None:
            self._is_awaited = True
            threads.start_thread(self._wait_for_starter, (starter,))
        threads.start_thread(self._accept, ())

    def _wait_for_starter(self, starter: _socket.socket) -> None:
        """Until the `start` has ended, with its pod in this daemon or without."""
        daemon.wait_for_handover(starter)
        with self._lock:
            self._is_awaited = False
        self._exit_if_last(False)

    # The channel of the daemon's own log, which every pod gets.

    def write(self, line: bytes) -> None:
        for pod in self._snapshot():
            pod.write_line(line)

    def close(self) -> None:
        """Nothing: the pods close theirs."""

    # Pods that arrive.

    def _accept(self) -> None:
        while not self._control.closed:
            try:
                connection = self._control.accept()
            except OSError:
                if not self._control.closed:
                    time.sleep(_ACCEPT_PAUSE)
                continue
            threads.run_soon(self._receive, connection)
        self._control.release()

    def _receive(self, connection: _socket.socket) -> None:
        """One connection of a `start`, or of a probe."""
        if not self._reserve():
            connection.close()
            return
        arrival = handover = None
        try:
            handover = shared.receive(connection)
            flags = self._parse(handover.arguments)[1]
            boot = decode_bootstrap(flags, shared.read_options(handover, STDIN_LIMIT))
            arrival = Arrival(
                flags, boot, handover.listener, handover.panic_log, handover.bundle, handover.is_sandbox, connection
            )
        except (OSError, ValueError, CommandError):
            connection.close()  # `start` notices, and starts a daemon of its own
        finally:
            if arrival is None:
                if handover is not None:
                    shared.discard(handover)
                self._end_reservation()
        if arrival is not None:
            self._add(arrival)

    def _reserve(self) -> bool:
        """Count a pod that arrives. False if this daemon takes no more; its control endpoint is removed by then."""
        with self._lock:
            if not self._control.closed:
                count = len(self._pods) + self._arriving
                if count < self._max_pods and time.monotonic() < self._retires_at:
                    self._arriving += 1
                    return True
        self._retire()
        return False

    def _end_reservation(self) -> None:
        with self._lock:
            self._arriving -= 1
        self._exit_if_last(False)

    def _add(self, arrival: Arrival) -> None:
        """Serve a pod. Its threads have its name."""
        threads.run_for_pod(arrival.name, self._serve_pod, arrival)

    def _serve_pod(self, arrival: Arrival) -> None:
        try:
            pod = SharedPod(arrival)
        except BaseException:
            arrival.close()
            self._end_reservation()
            raise
        with self._lock:
            self._pods.append(pod)
            self._arriving -= 1
        try:
            if pod.telemetry is not None:
                self._trace()
            pod.start(arrival.is_sandbox, lambda now: self._end(pod, now), WORKERS, self._scope)
            if not arrival.is_first:
                self._link_crash_log(pod)
                shared.report_ready(arrival.link)
            with self._lock:
                is_warm, self._is_warm = self._is_warm, True
            if is_warm:
                self._complete(pod, arrival.link)
            else:
                serve.warm_up(pod, arrival.link)
        except Exception as error:
            arrival.link.close()
            serve.report(pod.log, error)
            self._end(pod, True)

    def _trace(self) -> None:
        """Spans of all pods, for those that report to an agent."""
        with self._lock:
            if self._is_traced:
                return
            self._is_traced = True
        spans.enable(self._add_span)
        serve.trace_libraries()

    def _complete(self, pod: SharedPod, link: _socket.socket) -> None:
        """The rest of a handover: `start` prints the address and confirms, or has exited."""
        if not daemon.wait_for_handover(link):
            pod.log.warning("start died before the handover, shutting down")
            self._end(pod, True)
            return
        pod.announce()
        service.warm_up(pod.context)

    def _link_crash_log(self, pod: SharedPod) -> None:
        """If this process crashes, `delete` finds in each bundle what it wrote."""
        try:
            self._crash_log.link(f"{pod.bundle}/{DAEMON_PANIC_LOG}")
        except OSError as error:
            pod.log.warning("a crash of the shared daemon will not be reported for this pod", error=error)

    # Pods that end.

    def _end(self, pod: SharedPod, now: bool) -> None:
        """End one pod. Returns at once."""
        with self._lock:
            if pod.is_ending:
                return
            pod.is_ending = True
        threads.run_soon(self._close_pod, pod, now)

    def _close_pod(self, pod: SharedPod, now: bool) -> None:
        try:
            pod.close(now)
        finally:
            with self._lock:
                self._pods.remove(pod)
            self._exit_if_last(now)

    def _exit_if_last(self, now: bool) -> None:
        with self._lock:
            if self._pods or self._arriving or self._is_awaited:
                return
            self._control.close()  # under the lock: no pod can arrive any more
        self._shutdown.request(now)

    def _retire(self) -> None:
        """Take no more pods."""
        with self._lock:
            if not self._control.closed:
                self._control.close()

    # For the process.

    def _snapshot(self) -> list[SharedPod]:
        with self._lock:
            return list(self._pods)

    def _pod_of_thread(self) -> SharedPod | None:
        name = threads.current_pod()
        return next((pod for pod in self._snapshot() if pod.name == name and not pod.is_ending), None)

    def _add_span(self, root: Root) -> None:
        pod = self._pod_of_thread()
        if pod is not None and pod.telemetry is not None:
            pod.telemetry.add(root)

    def _report(self, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        """An unexpected error: to the panic log of the pod of this thread, else to the daemon's."""
        try:
            pod = self._pod_of_thread()
            if pod is not None:
                pod.write_panic(kind, error, trace)
                return
        except OSError:
            pass  # the pod has just ended
        sys.__excepthook__(kind, error, trace)  # type: ignore[arg-type]


def _limit(variable: str, default: int) -> int:
    """A whole number above 0 of the environment."""
    text = files.environment(variable)
    return int(text) if text.isascii() and text.isdigit() and int(text) else default
