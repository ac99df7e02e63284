"""`start`: be quick, be silent, and leave either a daemon that can be handed over or nothing at all.

containerd runs this in the bundle and takes stdout for the shim's address; stderr is mixed into it. The endpoint
listens before there is a daemon: containerd's first connection waits in the backlog while the forked child gets
ready.

Where there is a C compiler, `launcher/linux/start.c` does this without Python for what usually comes, and leaves to
this module what does not, and all errors.

A container that belongs to a pod gets no daemon of its own but its sandbox's.

A bundle of containerd's shim sandboxer is a sandbox to be made by the Sandbox service, whatever its config.json
says, if it has one at all. Only then is the answer JSON with version 3: containerd 2.x then connects the pod's
containers to this daemon by itself. For everything else it is a plain address, which all versions take.
"""

from __future__ import annotations

import gc

from shim.commands import Bootstrap, CommandError, Flags, is_sandbox_bundle, read_bootstrap
from shim.platform import daemon, endpoint, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

CONTAINER_TYPE = "io.kubernetes.cri.container-type"
SANDBOX_ID = "io.kubernetes.cri.sandbox-id"

# containerd's messages carry at most 16 MiB.
CONFIG_LIMIT = 16 << 20
POD_TIMEOUT = 10.0

# What a launch consists of, for a message about the one that failed.
WRITE_FILES, START_DAEMON, PRINT_ADDRESS = "write into the bundle", "start the daemon", "print the address"


def run(flags: Flags) -> int:
    gc.disable()  # there is no garbage in ten milliseconds; the daemon switches it on again
    flags.require("namespace", "address", "publish-binary", "id")
    bundle = files.current_directory()
    sandbox_api = is_sandbox_bundle(bundle)
    sandbox, is_sandbox = (flags.id, True) if sandbox_api else grouping(read_annotations(bundle), flags.id)
    boot = read_bootstrap(flags)
    try:
        address = endpoint.address_for(flags.address, flags.namespace, sandbox, boot.socket_dir)
        if sandbox != flags.id:
            _join(flags, sandbox, address, bundle)
        else:
            answer = sandbox_answer(address) if sandbox_api else address
            _launch(flags, boot, address, bundle, is_sandbox, answer)
    except endpoint.EndpointError as error:
        raise CommandError(str(error)) from None
    daemon.leave_standby()
    return 0


def read_annotations(bundle: str) -> dict[str, object]:
    """The annotations of the bundle's config.json; the rest of it is for Create."""
    from shim.lean_json import loads

    path = f"{bundle}/config.json"
    try:
        spec = loads(files.read(path, CONFIG_LIMIT))
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


def grouping(annotations: dict[str, object], id: str) -> tuple[str, bool]:
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


def sandbox_answer(address: str) -> str:
    """The address of a shim that serves the sandbox API."""
    from _json import encode_basestring_ascii

    return f'{{"version":3,"address":{encode_basestring_ascii(address)},"protocol":"ttrpc"}}'


def _join(flags: Flags, sandbox: str, address: str, bundle: str) -> None:
    """Into the sandbox's daemon: containerd finds it by the files in this bundle after a restart."""
    from shim.commands.pod_connect import DialError, connect_pid

    try:
        pid = connect_pid(endpoint.path_of(address), sandbox, POD_TIMEOUT)
    except DialError as error:
        message = f"the shim of sandbox {sandbox!r} is gone ({error}): remove the pod and make it again"
        raise CommandError(message) from None
    made = [f"{bundle}/shim.pid", f"{bundle}/address"]
    try:
        files.write_atomic(made[0], b"%d" % pid)
        files.write_atomic(made[1], address.encode())
        files.write_stdout(address.encode())
    except OSError as error:
        for path in made:
            files.remove(path)
        raise CommandError(f"cannot write {error.filename or 'the address'}: {error.strerror}") from None


def _launch(flags: Flags, boot: Bootstrap, address: str, bundle: str, is_sandbox: bool, answer: str) -> None:
    """A daemon of its own. Whatever fails, what was made until then goes."""
    if not daemon.FORKS:
        from shim.commands import spawned

        spawned.launch(flags, boot, address, bundle, is_sandbox, answer)
        return
    listener = endpoint.listen(address)
    step = WRITE_FILES
    made = [f"{bundle}/panic.log", f"{bundle}/address", f"{bundle}/shim.pid"]
    child: daemon.Child | None = None
    try:
        panic_log = files.create(made[0])
        files.write_atomic(made[1], address.encode())

        def body(link: _socket.socket | None) -> int:
            try:
                from shim.commands import serve

                return serve.serve(flags, boot, listener, bundle, address, is_sandbox, link)
            except BaseException:
                endpoint.remove(address)
                raise

        step = START_DAEMON
        child = daemon.fork(body, listener, panic_log)
        step = WRITE_FILES
        files.close(panic_log)
        files.write_atomic(made[2], b"%d" % child.pid)
        if not child.wait_ready():
            raise CommandError(f"the daemon died as it started: {last_words(made[0])}")
        step = PRINT_ADDRESS
        files.write_stdout(answer.encode())
        child.release()
    except BaseException as error:
        if child is not None:
            child.kill()
        endpoint.remove(address)
        for path in made:
            files.remove(path)
        if isinstance(error, OSError):
            raise failure(step, error) from None
        raise


def failure(step: str, error: OSError) -> CommandError:
    """Only files are named in errors, and all of them are the bundle's."""
    if error.filename:
        return CommandError(f"cannot write {error.filename}: {error.strerror}; is the bundle writable?")
    return CommandError(f"cannot {step}: {error.strerror}; try again, and see whether memory or disk space is short")


def last_words(panic_log: str) -> str:
    """Of a daemon that died before it was one."""
    try:
        lines = files.read(panic_log, 1 << 16).decode("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else f"it said nothing; try again, and look into {daemon.SYSTEM_LOG} if it persists"
