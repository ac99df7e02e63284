"""The server that `ttrpc_calls` and `harness_cost` call: the ttrpc server of the shim with two echo methods.

`python -m bench.measures.ttrpc_server SOCKET`
"""

from __future__ import annotations

import _socket
import sys

from shim.api.wire import put_bytes, read_bytes
from shim.ttrpc.server import Call, Method, Server


def echo(call: Call) -> bytes:
    value, _ = read_bytes(call.payload, 1, len(call.payload))
    return put_bytes(b"\n", value)


def main() -> None:
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    listener.bind(sys.argv[1])
    listener.listen(16)
    Server({"interop.Service": {"Echo": Method.inline(echo), "EchoLater": Method.worker(echo)}}).serve(listener)


if __name__ == "__main__":
    main()
