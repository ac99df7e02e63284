"""The import budget of `start`, `delete` and the daemon: imports are most of what these commands cost.

The lists are in tests/support/import_budget.py.
"""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from runhcs.install.linux import python as python_program
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any
from tests.support.import_budget import EXACT, FORBIDDEN, matching
from tests.support.shim_commands import MEMBER, SANDBOX, Binary, connect, dial


def loaded(text: str) -> list[str]:
    """The modules in the report of `python -X importtime`."""
    lines = [line for line in text.splitlines() if line.startswith("import time:") and "[us]" not in line]
    return [line.rpartition("|")[2].strip() for line in lines]


def imports(binary: Binary, *arguments: str, cwd: Path, stdin: bytes = b"") -> set[str]:
    """The modules that a command imported beyond the interpreter's own."""
    python = [python_program(), "-X", "importtime", "-IS"]
    bare = subprocess.run([*python, "-c", ""], capture_output=True, text=True, timeout=60, check=True)
    done = subprocess.run(
        [*python, binary.program, *arguments], cwd=cwd, env=binary.env, input=stdin, capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(loaded(done.stderr.decode())) - set(loaded(bare.stderr))


def test_start_imports_exactly_its_list(binary: Binary) -> None:
    assert imports(binary, *binary.flags(), "start", cwd=binary.bundle()) == EXACT["start"]


def test_start_with_options_imports_exactly_its_list(binary: Binary) -> None:
    packed = Any(type_url="containerd.runhcs.v1.Options", value=Options(debug=True).encode()).encode()
    assert imports(binary, *binary.flags(), "start", cwd=binary.bundle(), stdin=packed) == EXACT["start with options"]


def test_start_in_a_pod_imports_exactly_its_list(binary: Binary) -> None:
    binary.start(binary.pod_bundle("pod", SANDBOX), "pod")
    bundle = binary.pod_bundle("c1", MEMBER)
    assert imports(binary, *binary.flags(), "start", cwd=bundle) == EXACT["start in a pod"]


def test_daemon_of_the_launcher_imports_exactly_its_list(binary: Binary) -> None:
    """Before its first response."""
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
    builtin = {"gc", "faulthandler", "_signal"}  # some interpreters have imported them before
    assert own - builtin == EXACT["daemon"] - builtin


def test_delete_imports_exactly_its_list(binary: Binary) -> None:
    bundle = binary.bundle()
    assert imports(binary, *binary.flags(), "-bundle", str(bundle), "delete", cwd=bundle) == EXACT["delete"]


def test_daemon_responds_before_it_imports_what_only_tasks_need(binary: Binary) -> None:
    """The child's report goes to its stderr, the panic log. The warm-up imports `shim.version` first: modules before it
    were imported before serving."""
    bundle = binary.bundle()
    imports(binary, *binary.flags(), "start", cwd=bundle)
    connect(dial((bundle / "address").read_text()))
    report = loaded((bundle / "panic.log").read_text())
    assert "shim.ttrpc.server" in report and "shim.task.service" in report
    before = report[: report.index("shim.version")] if "shim.version" in report else report
    assert matching(before, FORBIDDEN["import shim.task.service"]) == set()
