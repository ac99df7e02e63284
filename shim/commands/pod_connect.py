"""One Connect call to the daemon of a pod, for `start` of its second and later containers.

`shim.ttrpc.client` starts a thread and does much more. For one call a blocking socket suffices.
"""

from __future__ import annotations

from shim.api.wire import DecodeError, put_string, read_tag, read_varint, skip
from shim.platform import endpoint
from shim.ttrpc.core import REQUEST, RESPONSE, Decoder, encode_frame
from shim.ttrpc.envelope import decode_response, encode_request, encode_route

SERVICE = "containerd.task.v2.Task"


class DialError(Exception):
    """No response, or not the expected one."""


def connect_pid(path: str, id: str, timeout: float) -> int:
    """The pid of the daemon that listens at `path`."""
    request = encode_request(encode_route(SERVICE, "Connect"), put_string(b"\n", id), int(timeout * 1e9))
    decoder = Decoder()
    try:
        connection = endpoint.connect(path, timeout)
        try:
            connection.sendall(encode_frame(1, REQUEST, 0, request))
            while True:
                data = connection.recv(1 << 16)
                if not data:
                    raise DialError("it closed the connection")
                for _, kind, _, body in decoder.feed(data):
                    if kind == RESPONSE:
                        return _pid(body)
        finally:
            connection.close()
    except (OSError, DecodeError) as error:
        raise DialError(getattr(error, "strerror", None) or str(error)) from None


def _pid(body: bytes) -> int:
    code, message, answer = decode_response(body)
    if code:
        raise DialError(message)
    position, end, pid = 0, len(answer), 0
    while position < end:
        tag = answer[position]
        position += 1
        if tag > 127:
            tag, position = read_tag(answer, position, end)
        if tag == 8:  # ConnectResponse.shim_pid
            pid, position = read_varint(answer, position, end)
        else:
            position = skip(answer, position, end, tag)
    return pid
