"""The endpoint of a shim, a pipe or a socket: who may open it, squatting, many connects, a client that stalls."""

from __future__ import annotations

import os
import stat

from runhcs.selftest.runner import Context, Step, StepFailed
from runhcs.selftest.scenarios import windows_spec
from runhcs.selftest.shim_driver import ShimDriver
from runhcs.task_client import TaskClient
from shim.api import task as api
from shim.platform import endpoint, host

CONNECTS = 100
STALLED_CALLS = 2000
PROMPT = 10.0


def _shim(context: Context, kind: str) -> ShimDriver:
    return ShimDriver(context, context.node.new_id(kind), windows_spec("exit 0"))


def access(context: Context) -> str:
    shim = _shim(context, "access")
    shim.start()
    if host.IS_EMULATED:
        path = endpoint.path_of(shim.address)
        modes = [stat.filemode(os.lstat(one).st_mode) for one in (os.path.dirname(path), path)]
        context.details["modes"] = modes
        if modes != ["drwx------", "srw-------"]:
            raise StepFailed(f"{path} and its directory have modes {modes}: other users can open them")
        finding = "only its owner can open the socket and its directory"
    else:
        from runhcs.selftest.windows import pipe_descriptor
        from shim.platform.windows.security import DESCRIPTOR

        found = pipe_descriptor(shim.address)
        context.details["descriptor"] = found
        if found not in (DESCRIPTOR, DESCRIPTOR.replace(";GA;", ";FA;")):
            raise StepFailed(f"{shim.address} has the descriptor {found}, not {DESCRIPTOR}")
        finding = f"the pipe has the descriptor {found}"
    shim.shutdown()
    return finding


def squatting(context: Context) -> str:
    shim = _shim(context, "squatted")
    shim.start()
    try:
        endpoint.listen(shim.address).close()
    except endpoint.EndpointError as error:
        context.details["second listener"] = str(error)
    else:
        raise StepFailed(f"a second process can listen on {shim.address}")
    second = shim.command("start")
    context.details["second start"] = second.stderr.decode(errors="replace").strip()
    if second.returncode == 0 and second.stdout.decode().strip() != shim.address:
        raise StepFailed("a second `start` with the same id does not notice the first shim")
    TaskClient(shim.connect(), shim.id, "").connect()
    shim.shutdown()
    return "a name that is taken is refused, and the first shim keeps answering"


def connects(context: Context) -> str:
    shim = _shim(context, "connects")
    shim.start()
    for _ in range(CONNECTS):
        stream = endpoint.connect(endpoint.path_of(shim.address), PROMPT)
        stream.close()
        release = getattr(stream, "release", None)
        if release is not None:
            release()
    answer = TaskClient(shim.connect(), shim.id, "").connect()
    if answer.shim_pid != shim.pid:
        raise StepFailed(f"after {CONNECTS} connects process {answer.shim_pid} answers, not the shim ({shim.pid})")
    shim.shutdown()
    return f"{CONNECTS} connects that are closed at once, then a call is answered"


def stalled(context: Context) -> str:
    """A client that sends requests and does not read the answers: others must be served."""
    from shim.ttrpc.core import REQUEST, encode_frame
    from shim.ttrpc.envelope import encode_request, encode_route

    shim = _shim(context, "stalled")
    shim.start()
    stream = endpoint.connect(endpoint.path_of(shim.address), 1.0)
    context.on_cleanup(stream.close)
    route = encode_route("containerd.task.v2.Task", "Connect")
    request = encode_request(route, api.ConnectRequest(id=shim.id).encode(), 0, ())
    sent = 0
    try:
        for number in range(STALLED_CALLS):
            stream.sendall(encode_frame(2 * number + 1, REQUEST, 0, request))
            sent += 1
    except OSError:
        pass  # the shim reads no more of it, as it should
    context.details["requests taken"] = sent
    client = TaskClient(shim.connect(), shim.id, "")
    client.call("Connect", api.ConnectRequest(id=shim.id), PROMPT)
    shim.task = client
    stream.close()
    shim.shutdown()
    return f"another client is served while one has sent {sent} requests and reads nothing"


STEPS = [
    Step("endpoint-access", "only administrators can open the endpoint of a shim", access),
    Step("endpoint-squatting", "a shim does not start on a name that is taken", squatting),
    Step("endpoint-connects", f"a shim survives {CONNECTS} connects without a call", connects),
    Step("endpoint-stalled", "a client that does not read does not block others", stalled),
]
