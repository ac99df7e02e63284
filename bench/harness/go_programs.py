"""Programs in Go: the cache of built containerds, and the ttrpc interop program, which is a Go ttrpc server and client.

The interop program is built from tests/interop/ttrpc, once per version of its source, into the cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.harness.prerequisites import CHECKOUT, PrerequisiteError

LISTEN_TIMEOUT = 20.0
CALLS_TIMEOUT = 300.0


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("RUNHCS_CACHE") or Path(base) / "containerd-shim-runhcs")


def interop_program(user: str) -> Path:
    """The built program. `user`: what needs it, for the PrerequisiteError without Go or without a checkout."""
    source = CHECKOUT / "tests" / "interop" / "ttrpc"
    if not source.is_dir():
        raise PrerequisiteError(f"{user} needs Go and the interop sources: run from a checkout")
    digest = hashlib.sha256()
    for path in sorted(source.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    cache = cache_directory()
    program = cache / f"ttrpc-interop-{digest.hexdigest()[:16]}"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        raise PrerequisiteError(f"{user} needs Go: install it from https://go.dev/dl")
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / ".interop-lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            partial = program.with_suffix(".partial")
            subprocess.run(
                [go, "build", "-trimpath", "-o", partial, "."],
                cwd=source,
                env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"},
                check=True,
            )
            partial.rename(program)
    return program


def is_listening(path: Path) -> bool:
    """The file of a socket exists before its process listens."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@contextmanager
def ttrpc_server(command: list[str], path: Path) -> Iterator[None]:
    """Runs a server, with the socket path as last argument, and waits until it listens."""
    process = subprocess.Popen([*command, str(path)], stdin=subprocess.PIPE)
    try:
        deadline = time.monotonic() + LISTEN_TIMEOUT
        while not is_listening(path):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} does not listen")
            time.sleep(0.01)
        yield
    finally:
        process.terminate()
        process.wait(LISTEN_TIMEOUT)
        assert process.stdin is not None
        process.stdin.close()


def ttrpc_calls(program: Path, path: Path, callers: int, count: int, *method: str) -> dict[str, float]:
    """Calls by the Go client: `p50_us` and `rate`. `method`: service, method and field 1 of the request; default is the
    echo of the interop server."""
    return _bench(program, "bench", str(path), str(callers), str(count), *method)


def ttrpc_calls_to_all(
    program: Path, targets: Mapping[str, str], callers: int, count: int, service: str, method: str
) -> dict[str, float]:
    """The same over several servers, with a connection to each. `targets`: socket path -> field 1 of the request."""
    pairs = [f"{path}={value}" for path, value in targets.items()]
    return _bench(program, "bench-many", str(callers), str(count), service, method, *pairs)


def _bench(program: Path, *arguments: str) -> dict[str, float]:
    done = subprocess.run(
        [program, *arguments],
        stdout=subprocess.PIPE, check=True, timeout=CALLS_TIMEOUT,
    )  # fmt: skip
    result: dict[str, float] = json.loads(done.stdout)
    return result
