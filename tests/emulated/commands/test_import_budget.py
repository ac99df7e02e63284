"""What `start` and `delete` load. Imports are what these commands cost: containerd waits for both, for every container.

The lists are exact. A module that is new here needs a reason that is worth its time; one that has gone should go from
the list.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from launcher.linux.bundle import COMMANDS, DAEMON
from runhcs.install import python as python_program
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any
from tests.support.shim_commands import MEMBER, SANDBOX, Binary, connect, dial

SHA = "_sha2" if sys.version_info >= (3, 12) else "_sha256"

EVERY_COMMAND = {
    "shim", "shim.__main__", "shim.commands",
    "shim.platform", "shim.platform.linux", "shim.platform.linux.files", "shim.platform.linux.endpoint",
    "shim.platform.linux.daemon",
    "_socket", SHA,
}  # fmt: skip
START = EVERY_COMMAND | {"shim.commands.start", "gc", "shim.lean_json", "_json"}
OPTIONS = {
    "shim.commands.bootstrap", "shim.api", "shim.api.wire", "shim.api.wellknown", "shim.api.bootstrap",
    "shim.api.runhcs_options",
}  # fmt: skip
JOIN = {
    "shim.api", "shim.api.wire", "shim.commands.pod_connect", "shim.ttrpc", "shim.ttrpc.core", "shim.ttrpc.envelope",
}  # fmt: skip
DELETE = EVERY_COMMAND | {
    "shim.commands.delete", "shim.api", "shim.api.wire", "shim.task", "shim.task.exit_record",
}  # fmt: skip
# What a serving daemon has loaded before it can answer: the first Connect waits for these.
NOT_BEFORE_SERVING = ["json", "re", "typing", "enum", "dataclasses", "logging", "subprocess", "asyncio", "cffi",
                      "_cffi_backend", "tomllib", "google.protobuf", "socket", "shim.hcs_bindings"]  # fmt: skip


def loaded(text: str) -> list[str]:
    """The modules in the interpreter's -X importtime report."""
    lines = [line for line in text.splitlines() if line.startswith("import time:") and "[us]" not in line]
    return [line.rpartition("|")[2].strip() for line in lines]


def imports(binary: Binary, *arguments: str, cwd: Path, stdin: bytes = b"") -> set[str]:
    """The modules that a command loaded beyond the interpreter's own."""
    python = [python_program(), "-X", "importtime", "-IS"]
    bare = subprocess.run([*python, "-c", ""], capture_output=True, text=True, timeout=60, check=True)
    done = subprocess.run(
        [*python, binary.program, *arguments], cwd=cwd, env=binary.env, input=stdin, capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(loaded(done.stderr.decode())) - set(loaded(bare.stderr))


def test_start(binary: Binary) -> None:
    assert imports(binary, *binary.flags(), "start", cwd=binary.bundle()) == START


def test_start_with_options(binary: Binary) -> None:
    packed = Any(type_url="containerd.runhcs.v1.Options", value=Options(debug=True).encode()).encode()
    assert imports(binary, *binary.flags(), "start", cwd=binary.bundle(), stdin=packed) == START | OPTIONS


def test_start_of_a_pods_second_container(binary: Binary) -> None:
    binary.start(binary.pod_bundle("pod", SANDBOX), "pod")
    bundle = binary.pod_bundle("c1", MEMBER)
    assert imports(binary, *binary.flags(), "start", cwd=bundle) == START | JOIN


def test_a_daemon_that_the_launcher_has_started(binary: Binary) -> None:
    """Before it serves: exactly what is bundled for it, and no library but that of sockets."""
    bundle = binary.bundle()
    binary.sockets.mkdir(mode=0o700)
    link, ours = socket.socketpair()
    with socket.socket(socket.AF_UNIX) as listener, open(bundle / "panic.log", "wb") as panic_log, link, ours:
        listener.bind(str(binary.sockets / ("0" * 64)))
        listener.listen()
        script = f'exec 3<&{listener.fileno()} 4<&{link.fileno()}; exec "$@"'
        python = [python_program(), "-X", "importtime", "-IS", "-X", f"runhcs_daemon=00{bundle}"]
        with subprocess.Popen(
            ["bash", "-c", script, "sh", *python, binary.program, *binary.flags(), "start"], env=binary.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=panic_log,
            pass_fds=[listener.fileno(), link.fileno()],
        ) as daemon:  # fmt: skip
            connect(dial(f"unix://{binary.sockets}/{'0' * 64}"))
            daemon.kill()
    bare = subprocess.run(
        [python_program(), "-X", "importtime", "-IS", "-c", ""], capture_output=True, text=True, timeout=60, check=True
    )
    own = set(loaded((bundle / "panic.log").read_text())) - set(loaded(bare.stderr))
    assert own - {"gc", "faulthandler", "_signal"} == DAEMON | {"_socket"}


def test_the_bundle_has_what_the_commands_load() -> None:
    own = {name for name in START | DELETE if name.startswith("shim")}
    assert own == COMMANDS


def test_delete(binary: Binary) -> None:
    bundle = binary.bundle()
    assert imports(binary, *binary.flags(), "-bundle", str(bundle), "delete", cwd=bundle) == DELETE


def test_the_daemon_answers_before_it_has_loaded_what_only_tasks_need(binary: Binary) -> None:
    """The child's own report goes to its stderr, the panic log. What comes before the version, which the first line of
    the log needs and the warm-up loads first, was loaded before serving."""
    bundle = binary.bundle()
    imports(binary, *binary.flags(), "start", cwd=bundle)
    connect(dial((bundle / "address").read_text()))
    report = loaded((bundle / "panic.log").read_text())
    assert "shim.ttrpc.server" in report and "shim.task.service" in report
    before = report[: report.index("shim.version")] if "shim.version" in report else report
    assert not [name for name in NOT_BEFORE_SERVING if name in before]
