"""`start`: print the address of a running daemon, or fail and leave nothing behind.

containerd runs this in the bundle and reads the shim's address from stdout, mixed with stderr, so nothing else may be
printed (https://github.com/containerd/containerd/blob/main/core/runtime/v2/README.md#start). The endpoint listens
before the daemon runs: containerd's first connection waits in the backlog while the forked child gets ready.

Where there is a C compiler, `launcher/linux/start.c` does this without Python in the usual cases and leaves all other
cases, and all errors, to this module.

A container of a pod gets no daemon of its own: its sandbox's daemon serves it. With ShimScope pods share a daemon, too
(`shim.commands.shared`).

A bundle of containerd's shim sandboxer is a sandbox that the Sandbox service will create; its config.json, if there is
one, does not matter. Only then the output is JSON with version 3, with which containerd 2.x connects the pod's
containers to this daemon itself. Otherwise it is a plain address, which all versions accept.
"""

from __future__ import annotations

import gc

from shim.commands import (
    NAMESPACE_SCOPE,
    NODE_SCOPE,
    POD_SCOPE,
    SHIM_SCOPE,
    Bootstrap,
    CommandError,
    Flags,
    is_sandbox_bundle,
    read_bootstrap,
)
from shim.platform import daemon, endpoint, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

    #: Starts a daemon that serves the listening socket, with the panic log.
    Starter = Callable[[_socket.socket, int], daemon.Child]
    Parse = Callable[[list[str]], tuple[str, Flags]]

CONTAINER_TYPE = "io.kubernetes.cri.container-type"
SANDBOX_ID = "io.kubernetes.cri.sandbox-id"

# containerd's messages carry at most 16 MiB.
CONFIG_LIMIT = 16 << 20
POD_TIMEOUT = 10.0

# The steps of a launch, for the error message of the one that failed.
WRITE_FILES, START_DAEMON, PRINT_ADDRESS = "write into the bundle", "start the daemon", "print the address"


def run(flags: Flags, parse: Parse) -> int:
    """`parse` parses a command line: a shared daemon gets those of other pods."""
    gc.disable()  # not worth it in ten milliseconds; the daemon enables it again
    flags.require("namespace", "address", "publish-binary", "id")
    bundle = files.current_directory()
    sandbox_api = is_sandbox_bundle(bundle)
    annotations = {} if sandbox_api else read_annotations(bundle)
    sandbox, is_sandbox = (flags.id, True) if sandbox_api else parse_pod_role(annotations, flags.id)
    boot = read_bootstrap(flags)
    scope = choose_scope(annotations, boot)
    try:
        address = endpoint.address_for(flags.address, flags.namespace, sandbox, boot.socket_dir)
        if sandbox != flags.id:
            _join(flags, sandbox, address, bundle)
        else:
            answer = bootstrap_json(address) if sandbox_api else address
            if scope == POD_SCOPE or not _launch_shared(flags, boot, address, bundle, is_sandbox, answer, scope, parse):
                _launch(flags, boot, address, bundle, is_sandbox, answer)
    except endpoint.EndpointError as error:
        raise CommandError(str(error)) from None
    if scope == POD_SCOPE:
        daemon.start_standby()
    return 0


def read_annotations(bundle: str) -> dict[str, object]:
    """The annotations of the bundle's config.json; Create reads the rest."""
    from shim.lean_json import loads

    path = f"{bundle}/config.json"
    try:
        spec = loads(files.read(path, CONFIG_LIMIT, follow=False))
    except FileNotFoundError:
        raise CommandError(f"{bundle} has no config.json: run start in a container's bundle") from None
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}; run start in a container's bundle") from None
    except ValueError as error:
        raise CommandError(f"{path} is not an OCI spec: {error}; write it again") from None
    annotations = spec.get("annotations") if isinstance(spec, dict) else spec
    if annotations is None and isinstance(spec, dict):
        return {}
    if not isinstance(annotations, dict):
        raise CommandError(f"{path} is not an OCI spec: it and its annotations must be JSON objects; write it again")
    return annotations


def parse_pod_role(annotations: dict[str, object], id: str) -> tuple[str, bool]:
    """The id whose daemon serves this container, and whether it is a pod sandbox."""
    kind = annotations.get(CONTAINER_TYPE)
    sandbox = annotations.get(SANDBOX_ID)
    if kind is None and sandbox is None:
        return id, False
    if kind not in ("sandbox", "container"):
        raise CommandError(f"annotation {CONTAINER_TYPE} is {kind!r}: it must be sandbox or container")
    if not isinstance(sandbox, str) or not sandbox:
        raise CommandError(f"annotation {CONTAINER_TYPE} is {kind!r} without {SANDBOX_ID}: give both or none")
    if kind == "sandbox" and sandbox != id:
        raise CommandError(f"annotation {SANDBOX_ID} is {sandbox!r}, the sandbox -id is {id!r}: make them the same")
    if kind == "container" and sandbox == id:
        raise CommandError(f"container {id!r} names itself as its sandbox: set {SANDBOX_ID} to the sandbox's id")
    return sandbox, kind == "sandbox"


def choose_scope(annotations: dict[str, object], boot: Bootstrap) -> str:
    """Which pods share a daemon with this one."""
    scope = annotations.get(SHIM_SCOPE) or boot.shim_scope or POD_SCOPE
    if scope == POD_SCOPE:
        return POD_SCOPE
    if scope not in (NAMESPACE_SCOPE, NODE_SCOPE):
        raise CommandError(f"the shim scope (ShimScope, {SHIM_SCOPE}) is {scope!r}: use pod, namespace or node")
    return scope


def bootstrap_json(address: str) -> str:
    """The address of a shim that serves the sandbox API."""
    from _json import encode_basestring_ascii

    return f'{{"version":3,"address":{encode_basestring_ascii(address)},"protocol":"ttrpc"}}'


def _join(flags: Flags, sandbox: str, address: str, bundle: str) -> None:
    """Use the sandbox's daemon. After a restart containerd finds it by the files in this bundle."""
    from shim.commands.pod_connect import DialError, connect_pid

    try:
        pid = connect_pid(endpoint.path_of(address), sandbox, POD_TIMEOUT)
    except DialError as error:
        message = f"the shim of sandbox {sandbox!r} is gone ({error}): remove the pod and make it again"
        raise CommandError(message) from None
    created = [f"{bundle}/shim.pid", f"{bundle}/address"]
    try:
        files.write_atomic(created[0], b"%d" % pid)
        files.write_atomic(created[1], address.encode())
        files.write_stdout(address.encode())
    except OSError as error:
        for path in created:
            files.remove(path)
        raise CommandError(f"cannot write {error.filename or 'the address'}: {error.strerror}") from None


def _launch_shared(
    flags: Flags,
    boot: Bootstrap,
    address: str,
    bundle: str,
    is_sandbox: bool,
    answer: str,
    scope: str,
    parse: Parse,
) -> bool:
    """Have a shared daemon serve the pod. False if that failed, for whatever reason: nothing is left of it, and a
    daemon of its own serves the pod as well."""
    from shim.commands.shared.join import SharedStart

    shared = SharedStart(flags, boot, address, bundle, is_sandbox, scope, parse)
    try:
        launch_with(shared.start_daemon, address, bundle, answer, shared.panic_log)
    except Exception:
        shared.close()
        return False
    return True


def _launch(flags: Flags, boot: Bootstrap, address: str, bundle: str, is_sandbox: bool, answer: str) -> None:
    """Start a daemon. On failure everything created so far is removed."""
    if not daemon.FORKS:
        from shim.commands import spawned

        spawned.launch(flags, boot, address, bundle, is_sandbox, answer)
        return

    def fork(listener: _socket.socket, panic_log: int) -> daemon.Child:
        def body(link: _socket.socket | None) -> int:
            try:
                from shim.commands import serve

                return serve.serve(flags, boot, listener, bundle, address, is_sandbox, link)
            except BaseException:
                endpoint.remove(address)
                raise

        return daemon.fork(body, listener, panic_log)

    launch_with(fork, address, bundle, answer)


def launch_with(start_daemon: Starter, address: str, bundle: str, answer: str, *more: str) -> None:
    """Create the endpoint and the files, start a daemon for them and print the answer. On failure everything created so
    far is removed; `more` are files that the daemon creates."""
    listener = endpoint.listen(address)
    step = WRITE_FILES
    created = [f"{bundle}/panic.log", f"{bundle}/address", f"{bundle}/shim.pid", *more]
    child: daemon.Child | None = None
    try:
        panic_log = files.create(created[0])
        try:
            files.write_atomic(created[1], address.encode())
            step = START_DAEMON
            child = start_daemon(listener, panic_log)
            step = WRITE_FILES
            files.write_atomic(created[2], b"%d" % child.pid)
            is_ready = child.wait_ready()
        finally:
            files.close(panic_log)  # not earlier: a shared daemon on Windows duplicates our handle
        if not is_ready:
            raise CommandError(f"the daemon died as it started: {last_panic_line(created[0])}")
        step = PRINT_ADDRESS
        files.write_stdout(answer.encode())
        child.release()
    except BaseException as error:
        listener.close()
        if child is not None:
            child.kill()
        endpoint.remove(address)
        for path in created:
            files.remove(path)
        if isinstance(error, OSError):
            raise failure(step, error) from None
        raise


def failure(step: str, error: OSError) -> CommandError:
    """An error with a file name is about a file of the bundle."""
    if error.filename:
        return CommandError(f"cannot write {error.filename}: {error.strerror}; is the bundle writable?")
    return CommandError(f"cannot {step}: {error.strerror}; try again, and see whether memory or disk space is short")


def last_panic_line(panic_log: str) -> str:
    """The last line of the panic log of a daemon that died while it started."""
    try:
        lines = files.read(panic_log, 1 << 16, follow=False).decode("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else f"it said nothing; try again, and look into {daemon.SYSTEM_LOG} if it persists"
