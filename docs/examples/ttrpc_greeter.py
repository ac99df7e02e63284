"""A ttrpc server and a client of it in one process, over a socket pair."""

import socket

from shim.ttrpc.call import Call
from shim.ttrpc.client import Client
from shim.ttrpc.server import Method, Server
from shim.ttrpc.status import INVALID_ARGUMENT, StatusError


def greet(call: Call) -> bytes:
    if not call.payload:
        raise StatusError(INVALID_ARGUMENT, "a name is required")
    return b"hello " + call.payload


server = Server({"example.Greeter": {"Greet": Method.inline(greet)}})
server_end, client_end = socket.socketpair()
server.attach(server_end)
client = Client(client_end)
print(client.call("example.Greeter", "Greet", b"world", timeout=5).decode())
try:
    client.call("example.Greeter", "Greet", b"", timeout=5)
except StatusError as error:
    print(error.name, error.message)
client.close()
server.shutdown(5)
