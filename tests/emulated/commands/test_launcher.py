"""The Linux launcher: which commands it performs without Python, when it falls back, and which interpreter it runs."""

from __future__ import annotations

import importlib.util
import marshal
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from launcher.linux.build import COMMON, FLAGS, SOURCES, compile_launcher, with_settings
from launcher.linux.build_interpreter import NoInterpreterError, link_interpreter
from runhcs.install.linux import python
from shim.api.bootstrap import BootstrapParams, Extension
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any
from shim.commands import SHIM_SCOPE
from shim.container.ledger import Ledger
from tests.support.emulator import is_alive
from tests.support.eventually import eventually
from tests.support.shim_commands import (
    MEMBER,
    NAMESPACE,
    SANDBOX,
    Binary,
    connect,
    dial,
    shut_down,
    was_started_natively,
)

SANDBOX_CONTROLLER = "io.containerd.sandbox.controller.v1.shim"


def install(binary: Binary, program: bytes, interpreter: str, linked: str = "") -> None:
    """Install the launcher with this interpreter."""
    data = with_settings(program, interpreter, str(binary.program), False, linked)
    temporary = binary.launcher.with_name("new")
    temporary.write_bytes(data)
    temporary.chmod(0o755)
    temporary.replace(binary.launcher)


def daemon_of(bundle: Path) -> int:
    return int((bundle / "shim.pid").read_text())


# Without Python: /bin/false is the interpreter.


@pytest.fixture
def no_python(binary: Binary) -> Binary:
    install(binary, compile_launcher(), "/bin/false")
    return binary


def test_delete_after_regular_exit_runs_without_python(no_python: Binary) -> None:
    bundle = no_python.bundle()
    (bundle / "panic.log").touch()
    ledger = Ledger(str(bundle))
    for entry in [ledger.enter("mount", target=f"/nowhere/{number}") for number in range(12)]:
        ledger.mark_released(entry)
    (bundle / "exit").write_text("7 1700000000 5 4711\n")
    response, errors = no_python.delete(bundle)
    assert (response.exit_status, response.pid, errors) == (7, 4711, b"")
    moment = response.exited_at
    assert moment is not None and (moment.seconds, moment.nanos) == (1_700_000_000, 5)


def test_delete_of_pod_member_runs_without_python(no_python: Binary) -> None:
    """Its address is that of its sandbox, whose socket exists."""
    bundle = no_python.bundle()
    no_python.sockets.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(no_python.sockets / ("0" * 64)))
        (bundle / "address").write_text(f"unix://{no_python.sockets}/{'0' * 64}")
        assert no_python.delete(bundle)[0].exit_status == 255


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("panic.log", "panic"),
        ("ledger.jsonl", '{"n":"1","enter":"mount","target":"/nowhere"}\n'),
        ("ledger.jsonl", '{"n":"1","enter":"mount","target":"/nowhere"}\n{"n":"1","strike":"mou'),
        ("ledger.jsonl", '{"n":"1","enter":"mount","target":"/nowhere"}\n{"n":"1","strike":"mou\n\n'),
        ("ledger.jsonl", "torn"),
        ("exit", "7 1700000000 5 4711"),
        ("exit", "-1 1 1 1\n"),
        ("address", "npipe://elsewhere"),
    ],
)
def test_delete_with_remaining_resources_falls_back_to_python(no_python: Binary, name: str, text: str) -> None:
    bundle = no_python.bundle()
    (bundle / name).write_text(text)
    result = no_python.run(*no_python.flags(), "-bundle", str(bundle), "delete", cwd=no_python.directory)
    assert (result.returncode, result.stdout) == (1, b""), "the exit code of /bin/false"


def test_delete_with_remaining_socket_falls_back_to_python(binary: Binary) -> None:
    bundle = binary.bundle()
    binary.start(bundle)
    install(binary, compile_launcher(), "/bin/false")
    result = binary.run(*binary.flags(), "-bundle", str(bundle), "delete", cwd=binary.directory)
    assert (result.returncode, result.stdout) == (1, b"")


def test_join_pod_runs_without_python(binary: Binary) -> None:
    sandbox, member = binary.pod_bundle("pod", SANDBOX), binary.pod_bundle("c1", MEMBER)
    address = binary.start(sandbox, "pod")
    install(binary, compile_launcher(), "/bin/false")
    assert binary.start(member, "c1") == address
    assert daemon_of(member) == daemon_of(sandbox)
    assert sorted(path.name for path in member.iterdir()) == ["address", "config.json", "shim.pid"]
    os.kill(daemon_of(sandbox), signal.SIGKILL)
    eventually(lambda: not is_alive(daemon_of(sandbox)), "its exit")
    assert binary.run(*binary.flags("c2"), "start", cwd=binary.pod_bundle("c2", MEMBER)).returncode == 1


@pytest.mark.parametrize("scope", ["namespace", "node"])
def test_join_shared_daemon_runs_without_python(binary: Binary, scope: str) -> None:
    """Python has started the daemon: the launcher computes the same name of its control socket."""
    first, second = (binary.pod_bundle(name, {SHIM_SCOPE: scope}) for name in ("c1", "c2"))
    binary.start(first, "c1")
    install(binary, compile_launcher(), "/bin/false")
    address = binary.start(second, "c2")
    assert daemon_of(second) == daemon_of(first) == connect(dial(address), "c2").shim_pid
    assert sorted(path.name for path in second.iterdir()) == sorted(path.name for path in first.iterdir())
    os.kill(daemon_of(first), signal.SIGKILL)
    eventually(lambda: not is_alive(daemon_of(first)), "its exit")
    third = binary.pod_bundle("c3", {SHIM_SCOPE: scope})
    assert binary.run(*binary.flags("c3"), "start", cwd=third).returncode == 1
    assert [path.name for path in third.iterdir()] == ["config.json"], "everything undone for Python"


# What the daemon receives.


def test_start_for_sandbox_service_equals_python(binary: Binary) -> None:
    bundle = binary.directory / SANDBOX_CONTROLLER / NAMESPACE / "c1"
    bundle.mkdir(parents=True)
    responses = []
    for switch in "10":
        responses.append(binary.run(*binary.flags(), "start", cwd=bundle, RUNHCS_NATIVE=switch).stdout)
        connect(dial((bundle / "address").read_text()))
        assert was_started_natively(daemon_of(bundle)) == (switch == "1")
        os.kill(daemon_of(bundle), signal.SIGTERM)
        binary.expect_clean()
    assert responses[0] == responses[1] and responses[0].startswith(b'{"version":3,"address":"unix://')


DEBUG_OPTIONS = Any(type_url="containerd.runhcs.v1.Options", value=Options(log_level="debug").encode())
DEBUG_PARAMS = BootstrapParams(instance_id="c1", namespace=NAMESPACE, log_level=-4)
PARAMS_WITH_OPTIONS = BootstrapParams(
    instance_id="c1", namespace=NAMESPACE, extensions=[Extension(value=DEBUG_OPTIONS)]
)


@pytest.mark.parametrize(
    "packed",
    [DEBUG_OPTIONS.encode(), DEBUG_PARAMS.encode(), PARAMS_WITH_OPTIONS.encode()],
    ids=["Any", "BootstrapParams", "BootstrapParams with options"],
)
def test_supported_stdin_reaches_the_daemon(binary: Binary, packed: bytes) -> None:
    bundle = binary.bundle()
    os.mkfifo(bundle / "log")
    log = os.open(bundle / "log", os.O_RDWR | os.O_NONBLOCK)
    address = binary.start(bundle, stdin=packed)
    pid = connect(dial(address)).shim_pid
    assert was_started_natively(pid)
    shut_down(address)
    eventually(lambda: not is_alive(pid), "its exit")
    assert b"level=debug" in os.read(log, 1 << 16)
    os.close(log)


@pytest.mark.parametrize(
    ("stdin", "problem"),
    [
        (b"\xff", b"stdin is not a protobuf Any"),
        (Any(type_url="containerd.runc.v1.Options").encode(), b"are not for this runtime"),
        (Any(type_url="x" * (3 << 20)).encode(), b"are not for this runtime"),
        (bytes(11 << 20), b"more than 10 MiB on stdin"),
        (BootstrapParams(instance_id="c1", namespace=NAMESPACE, containerd_version="é").encode(), b""),
    ],
    ids=["invalid", "runc options", "large", "too large", "bootstrap params"],
)
def test_unsupported_stdin_reaches_python_unchanged(binary: Binary, stdin: bytes, problem: bytes) -> None:
    bundle = binary.bundle()
    result = binary.run(*binary.flags(), "start", cwd=bundle, stdin=stdin)
    assert problem in result.stderr and result.returncode == (1 if problem else 0), result.stderr[:200]
    if not problem:
        connect(dial(result.stdout.decode()))
        assert not was_started_natively(daemon_of(bundle))
        shut_down(result.stdout.decode())


# Failures.


def test_broken_interpreter_undoes_start_and_reports(binary: Binary) -> None:
    """All steps are undone before the error is reported."""
    broken = binary.directory / "broken"
    broken.write_bytes(b"\x7fELF is not enough")
    broken.chmod(0o755)
    install(binary, compile_launcher(), str(broken))
    bundle = binary.bundle()
    result = binary.run(*binary.flags(), "start", cwd=bundle)
    assert result.returncode == 1 and b"cannot run" in result.stderr
    assert [path.name for path in bundle.iterdir()] == ["config.json"]
    binary.expect_clean()


def test_closed_stdout_reader_undoes_start_and_reports(binary: Binary) -> None:
    """The address cannot be printed: no daemon, no files, an error."""
    bundle = binary.bundle()
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [binary.launcher, *binary.flags(), "start"], cwd=bundle, env=binary.env, stdin=subprocess.DEVNULL,
        stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False,
    )  # fmt: skip
    os.close(writing)
    assert done.returncode == 1 and b"cannot print the address" in done.stderr
    assert [path.name for path in bundle.iterdir()] == ["config.json"]
    binary.expect_clean()


def test_failed_start_kills_daemon_that_hangs(binary: Binary) -> None:
    """The address cannot be printed, so the daemon has to exit, and this one does not exit by itself."""
    python = binary.directory / "python"
    hang = 'case "$*" in *runhcs_daemon*) exec 4>&-; echo $$ >&2; exec sleep 1000;; esac'
    python.write_text(f"#!/bin/sh\n{hang}\nexit 7\n")
    python.chmod(0o755)
    install(binary, compile_launcher(), str(python))
    bundle = binary.bundle()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    command = [binary.launcher, *binary.flags(), "start"]
    start = subprocess.Popen(command, cwd=bundle, env=binary.env, stdin=subprocess.DEVNULL, stdout=writing)
    try:
        os.close(writing)
        panic_log = bundle / "panic.log"
        eventually(lambda: panic_log.exists() and panic_log.read_text().endswith("\n"), "the output of the daemon")
        daemon = int(panic_log.read_text())
        os.close(reading)
        assert start.wait(60) == 7, "the exit status of the fallback"
        assert not is_alive(daemon)
    finally:
        start.kill()
        start.wait()


def test_start_with_closed_standard_streams_succeeds(binary: Binary) -> None:
    bundle = binary.bundle()
    command = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", binary.launcher, *binary.flags(), "start"]
    done = subprocess.run(command, cwd=bundle, env=binary.env, stdout=subprocess.PIPE, timeout=60, check=True)
    assert connect(dial(done.stdout.decode())).shim_pid == daemon_of(bundle)


# The interpreter.


def test_linked_interpreter_is_used_until_python_changes(binary: Binary) -> None:
    try:
        link_interpreter(python())
    except NoInterpreterError as error:
        pytest.skip(f"this Python cannot be linked: {error}")
    one = next(binary.program.parent.glob("python-*"))
    real = binary.directory / "python3"
    real.write_text(f'#!/bin/sh\nexec {python()} "$@"\n')
    real.chmod(0o755)
    install(binary, compile_launcher(), str(real), str(one))
    exe = {}
    for name in ("same", "upgraded", "gone"):
        if name == "upgraded":
            real.write_text(real.read_text() + "# upgraded\n")
        if name == "gone":
            install(binary, compile_launcher(), str(real), str(one))
            one.unlink()
        bundle = binary.bundle(name)
        address = binary.start(bundle, name)
        connect(dial(address), name)
        exe[name] = os.readlink(f"/proc/{daemon_of(bundle)}/exe")
        shut_down(address, name)
    assert exe == {"same": str(one), "upgraded": python(), "gone": python()}


def test_linked_interpreter_rejects_other_arguments(binary: Binary) -> None:
    for one in binary.program.parent.glob("python-*"):
        done = subprocess.run([one, "-c", "pass"], capture_output=True, timeout=60, check=False)
        assert done.returncode == 2 and b"-IS [-X OPTION] FILE.pyc" in done.stderr
        done = subprocess.run([one, "-IS", "/bin/false"], capture_output=True, timeout=60, check=False)
        assert done.returncode == 1 and b"use `runhcs install` again" in done.stderr


def test_linked_interpreter_imports_like_python(binary: Binary, tmp_path: Path) -> None:
    """Frozen modules, the missing zipimport, and imports from files."""
    text = """
import sys
assert sys.version_info[:2] != (3, 11) or "zipimport" not in sys.modules
assert sys.modules["encodings"].__spec__.origin == "frozen"
import os, zipimport, json, importlib.util
assert os.__spec__.origin == "frozen" and os.path.join("a", "b") == "a/b" and os.environ["GIVEN"] == "1"
assert zipimport.zipimporter and json.loads("[1]") == [1]
try:
    import nowhere
except ModuleNotFoundError as error:
    import traceback
    frames = traceback.extract_tb(error.__traceback__)
    print(len(frames), frames[0].lineno, error)
"""
    file = tmp_path / "text.pyc"
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    file.write_bytes(header + marshal.dumps(compile(text, "text", "exec", dont_inherit=True)))
    for one in binary.program.parent.glob("python-*"):
        done = subprocess.run([one, "-IS", file], env={"GIVEN": "1"}, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"1 9 No module named 'nowhere'\n", b"")


# Under sanitizers.


def test_commands_pass_sanitizers(binary: Binary, tmp_path: Path) -> None:
    program = tmp_path / "launcher"
    sanitize = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    flags = [flag for flag in FLAGS if flag != "-s"]
    subprocess.run(["cc", *flags, *sanitize, f"-I{COMMON}", *map(str, SOURCES), "-o", program], check=True, timeout=120)
    install(binary, program.read_bytes(), python())
    sandbox, member = binary.pod_bundle("pod", SANDBOX), binary.pod_bundle("c1", MEMBER)
    packed = Any(type_url="containerd.runhcs.v1.Options", value=Options(debug=True).encode()).encode()
    address = binary.start(sandbox, "pod", packed)
    connect(dial(address), "pod")
    assert was_started_natively(daemon_of(sandbox))
    assert binary.start(member, "c1") == address
    ledger = Ledger(str(member))
    ledger.mark_released(ledger.enter("mount", target="/nowhere"))
    assert binary.delete(member, "c1")[1] == b""
    assert binary.delete(sandbox, "pod")[0].exit_status == 255
    shut_down(address, "pod")
    binary.expect_clean()
    binary.env["RUNHCS_STANDBY"] = "1"
    for number in range(3):
        bundle = binary.bundle(f"b{number}")
        address = binary.start(bundle, f"s{number}")
        connect(dial(address), f"s{number}")
        shut_down(address, f"s{number}")
        eventually(lambda: list(binary.sockets.glob("standby-*")), "a standby")
    refused = binary.run(*binary.flags("c9"), "start", cwd=binary.bundle("none", config=None))
    assert refused.returncode == 1 and b"has no config.json" in refused.stderr
