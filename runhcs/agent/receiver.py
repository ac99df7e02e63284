"""The agent's local endpoint: shims report to it over ttrpc. It accepts connections of its own user only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from runhcs.agent.report import Report, ReportError, read_report
from shim.api.agent import ReportRequest, ReportResponse
from shim.api.wire import DecodeError
from shim.platform import endpoint
from shim.telemetry import SERVICE
from shim.ttrpc.server import Call, Method, Server
from shim.ttrpc.status import INVALID_ARGUMENT, StatusError

SHUTDOWN_SECONDS = 2.0


class Receiver:
    """Listens until `close`. `add` is called with each report, one at a time; `methods` are further ones."""

    def __init__(
        self, address: str, add: Callable[[Report], object], methods: Mapping[str, Method] | None = None
    ) -> None:
        self._address = address
        self._add = add
        self._lock = threading.Lock()
        self._server = Server({SERVICE: {"Report": Method.worker(self._report), **(methods or {})}})
        listener = endpoint.Listener(endpoint.listen(address))
        self._thread = threading.Thread(target=self._server.serve, args=(listener,), daemon=True)
        self._thread.start()

    def _report(self, call: Call) -> bytes:
        try:
            report = read_report(ReportRequest.decode(call.payload).json)
        except (ReportError, DecodeError) as error:
            raise StatusError(INVALID_ARGUMENT, f"the report cannot be read: {error}") from None
        with self._lock:
            self._add(report)
        return ReportResponse().encode()

    def close(self) -> None:
        endpoint.remove(self._address)
        self._server.shutdown(SHUTDOWN_SECONDS)
