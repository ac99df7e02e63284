"""The bridge passes through the worker, which reports each request for the journal and carries out faults.

A fault can delay a request, fail it, let the guest never answer it, crash the guest when it arrives, close the
connection, or kill the host's process before or after it gets the answer.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from hcs_emulator.vm import bridge_frames, bridge_report
from hcs_emulator.vm.linux.bridge_faults import BridgeFaults

_PIECE = 1 << 16
_HEADER = 16


class BridgeRelay:
    """`on_report` gets a report of every answered request, `on_kill` the pid of a host's process that is killed after
    its answer; `crash` stops the guest."""

    def __init__(
        self,
        on_report: Callable[[dict[str, Any]], None],
        on_kill: Callable[[int], None],
        faults: BridgeFaults,
        crash: Callable[[], None],
    ) -> None:
        self._on_report = on_report
        self._on_kill = on_kill
        self._faults = faults
        self._crash = crash

    def open(self, host: socket.socket) -> socket.socket:
        """Relay a connection to the host; the guest's end of it."""
        guest, ours = socket.socketpair()
        connection = _Connection(host, ours, self._on_report, self._on_kill, self._faults, self._crash)
        outward = threading.Thread(target=connection.to_host, daemon=True)
        outward.start()
        threading.Thread(target=connection.to_guest, args=(outward,), daemon=True).start()
        return guest


class _Request:
    """A request that the guest has not answered yet."""

    def __init__(self, procedure: int, body: bytes) -> None:
        self.procedure = procedure
        self.body = body
        self.started = time.time()
        self.clock = time.perf_counter()
        self.kill_client = ""

    def report(self, answer: bytes) -> dict[str, Any] | None:
        try:
            message, response = json.loads(self.body), json.loads(answer)
        except ValueError:
            return None
        if not isinstance(response, dict):
            return None
        response.setdefault("Result", 0)
        duration = time.perf_counter() - self.clock
        return bridge_report.report(self.procedure, message, response, self.started, duration)


class _Connection:
    def __init__(
        self,
        host: socket.socket,
        guest: socket.socket,
        on_report: Callable[[dict[str, Any]], None],
        on_kill: Callable[[int], None],
        faults: BridgeFaults,
        crash: Callable[[], None],
    ) -> None:
        self._host = host
        self._guest = guest
        self._on_report = on_report
        self._on_kill = on_kill
        self._faults = faults
        self._crash = crash
        self._pending: dict[int, _Request] = {}
        self._writing = threading.Lock()

    def to_guest(self, outward: threading.Thread) -> None:
        _pump(self._host, self._guest, self._forward_request)
        outward.join()
        for end in (self._host, self._guest):
            end.close()

    def to_host(self) -> None:
        _pump(self._guest, self._host, self._forward_answer)

    def _forward_request(self, frame_type: int, number: int, frame: bytes) -> None:
        request = _Request(frame_type & bridge_frames.PROCEDURE, frame[_HEADER:])
        self._pending[number] = request
        for fault in self._faults.trigger(bridge_report.name(request.procedure)):
            if not self._inject(fault, number, request):
                self._pending.pop(number, None)
                return
        self._guest.sendall(frame)

    def _inject(self, fault: dict[str, Any], number: int, request: _Request) -> bool:
        """Whether the guest still gets the request."""
        if fault["delay"]:
            time.sleep(fault["delay"])
        request.kill_client = fault["kill_client"] or request.kill_client
        if fault["crash_vm"]:
            self._crash()
        if fault["disconnect"]:
            self._host.shutdown(socket.SHUT_RDWR)
        if fault["error"] is not None:
            self._fail(fault, number, request)
        return fault["error"] is None and not (fault["crash_vm"] or fault["disconnect"] or fault["no_answer"])

    def _fail(self, fault: dict[str, Any], number: int, request: _Request) -> None:
        text = f"fault {fault['id']}: {bridge_report.name(request.procedure)} was made to fail"
        result = struct.unpack("<i", struct.pack("<I", fault["error"]))[0]
        record = {"Result": result, "Message": text, "ModuleName": "gcs", "FileName": "", "Line": 0}
        message = {"Result": result, "ErrorMessage": text, "ErrorRecords": [record]}
        frame = bridge_frames.encode(bridge_frames.RESPONSE | request.procedure, number, message)
        self._forward_answer(bridge_frames.RESPONSE | request.procedure, number, frame)

    def _forward_answer(self, frame_type: int, number: int, frame: bytes) -> None:
        request = None
        if frame_type & bridge_frames.KIND == bridge_frames.RESPONSE:
            request = self._pending.pop(number, None)
        report = request.report(frame[_HEADER:]) if request is not None else None
        if report is not None:
            # The journal first: a host that has its response may terminate the VM at once.
            self._on_report(report)
        kill = request.kill_client if request is not None else ""
        client = self._client() if kill else 0
        if client and kill == "before":
            os.kill(client, signal.SIGKILL)
        elif client:
            # The answer may let the client terminate the VM, and with it this process: then the service kills it.
            self._on_kill(client)
        with self._writing:
            self._host.sendall(frame)
        if client and kill == "after":
            os.kill(client, signal.SIGKILL)

    def _client(self) -> int:
        """The process that listens for the bridge. 0 for one under Wine, which cannot be identified."""
        if self._host.family != socket.AF_UNIX:
            return 0
        credentials = self._host.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid: int = struct.unpack("3i", credentials)[0]
        return pid


def _pump(source: socket.socket, target: socket.socket, forward: Callable[[int, int, bytes], None]) -> None:
    """Forward frames until the source ends; then end both."""
    buffer = bytearray()
    try:
        while data := source.recv(_PIECE):
            buffer += data
            while len(buffer) >= _HEADER:
                frame_type, size = int.from_bytes(buffer[:4], "little"), int.from_bytes(buffer[4:8], "little")
                if size < _HEADER or size > bridge_frames.LARGEST_IN:  # invalid: the receiver decides
                    target.sendall(buffer)
                    buffer.clear()
                    break
                if len(buffer) < size:
                    break
                frame = bytes(buffer[:size])
                del buffer[:size]
                forward(frame_type, int.from_bytes(frame[8:16], "little"), frame)
    except OSError:
        pass
    for end in (target, source):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
