"""Invalid calls of the binary fail with one line that has the next step and exit code 1, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shim.api.runhcs_options import Options
from shim.api.wellknown import Any
from tests.support.shim_commands import Binary


def refused(binary: Binary, bundle: Path, *arguments: str, stdin: bytes = b"", **env: str) -> str:
    """The command fails; returns its message."""
    before = sorted(path.name for path in bundle.iterdir())
    result = binary.run(*arguments, cwd=bundle, stdin=stdin, **env)
    said = result.stderr.decode()
    assert result.returncode == 1, said
    assert result.stdout == b""
    assert said.startswith("containerd-shim-runhcs-v1: ") and said.endswith("\n") and said.count("\n") == 1, said
    assert "unexpected" not in said and "Traceback" not in said
    assert sorted(path.name for path in bundle.iterdir()) == before
    assert binary.leaked() == []
    return said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-namespace", "n", "-whatever", "start"], "unknown flag -whatever: -help lists the flags"),
        (["begin"], "unknown action 'begin': use start, delete or serve"),
        ([], "no action"),
        (["start"], "missing -namespace -address -publish-binary -id"),
        (["-id", "x", "-namespace", "n", "-address", "a", "start"], "missing -publish-binary"),
        (["-id", "", "-namespace", "n", "-address", "a", "-publish-binary", "p", "start"], "missing -id"),
        (["-id", "x", "-namespace", "n", "-address", "a", "-publish-binary", "p", "delete"], "missing -bundle"),
        (["-id", "x", "-namespace", "n", "-address", "a", "-publish-binary", "p", "serve"], "missing -socket"),
        (["-id", "../x", "-namespace", "n", "-address", "a", "-publish-binary", "p", "start"], "file name"),
        (["-id"], "-id needs a value"),
    ],
)
def test_invalid_command_line_fails_with_one_line(binary: Binary, arguments: list[str], said: str) -> None:
    assert said in refused(binary, binary.bundle(), *arguments)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (None, "has no config.json: run start in a container's bundle"),
        ("", "is not an OCI spec"),
        ("{not json", "is not an OCI spec"),
        ('{"annotations": {}', "is not an OCI spec"),
        ("[]", "must be JSON objects"),
        ('{"annotations": []}', "must be JSON objects"),
        ('{"annotations": {"io.kubernetes.cri.container-type": "sandbox"}}', "give both or none"),
        ('{"annotations": {"io.kubernetes.cri.sandbox-id": "x"}}', "it must be sandbox or container"),
    ],
)
def test_invalid_config_fails_with_one_line(binary: Binary, config: str | None, said: str) -> None:
    assert said in refused(binary, binary.bundle(config=config), *binary.flags(), "start")


def test_config_that_is_no_file_is_rejected(binary: Binary) -> None:
    bundle = binary.bundle(config=None)
    (bundle / "config.json").mkdir()
    assert "not a regular file" in refused(binary, bundle, *binary.flags(), "start")


@pytest.mark.parametrize("name", ["panic.log", ".address", ".shim.pid"])
def test_fifo_in_the_bundle_does_not_block_start(binary: Binary, name: str) -> None:
    bundle = binary.bundle()
    os.mkfifo(bundle / name)
    done = binary.run(*binary.flags(), "start", cwd=bundle)
    assert done.returncode == 0 or len(done.stderr.splitlines()) == 1, done


RUNHCS = "containerd.runhcs.v1.Options"


@pytest.mark.parametrize(
    ("stdin", "said"),
    [
        (b"\xde\xad\xbe\xef" * 100, "not a protobuf Any"),
        (b'{"debug": true}', "give one, or nothing"),
        (Any(type_url="containerd.runc.v1.Options", value=b"\x08\x01").encode(), "use containerd.runhcs.v1.Options"),
        (Any(type_url=RUNHCS, value=b"\xff").encode(), "cannot be read"),
        (Any(type_url=RUNHCS, value=Options(log_level="shout").encode()).encode(), "not a valid log level"),
        (bytes(11 << 20), "more than 10 MiB"),
    ],
)
def test_invalid_stdin_is_rejected(binary: Binary, stdin: bytes, said: str) -> None:
    assert said in refused(binary, binary.bundle(), *binary.flags(), "start", stdin=stdin)


def test_info_with_invalid_stdin_fails(binary: Binary) -> None:
    assert "not a protobuf Any" in refused(binary, binary.bundle(), "-info", stdin=b"\xff\xff")


def test_too_long_socket_path_is_rejected(binary: Binary) -> None:
    directory = f"/tmp/{'x' * 60}"
    said = refused(binary, binary.bundle(), *binary.flags(), "start", RUNHCS_SOCKET_DIR=directory)
    assert "above 106: set RUNHCS_SOCKET_DIR to a shorter directory" in said
    assert not Path(directory).exists()


def open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (open_to_all, "is open to others"),
        (lambda path: path.write_text(""), "is not a directory"),
        (lambda path: path.symlink_to("hcs"), "is not a directory"),
    ],
    ids=["others may enter", "a file", "a link"],
)
def test_unsafe_socket_directory_is_rejected(binary: Binary, make: Callable[[Path], None], said: str) -> None:
    make(binary.sockets)
    assert said in refused(binary, binary.bundle(), *binary.flags(), "start")


def test_missing_parent_of_socket_directory_fails(binary: Binary) -> None:
    said = refused(binary, binary.bundle(), *binary.flags(), "start", RUNHCS_SOCKET_DIR="/proc/nowhere/s")
    assert "set RUNHCS_SOCKET_DIR to another" in said


def test_relative_socket_directory_is_rejected(binary: Binary) -> None:
    said = refused(binary, binary.bundle(), *binary.flags(), "start", RUNHCS_SOCKET_DIR="s")
    assert "use unix:///path" in said


@pytest.fixture
def read_only_bundle(binary: Binary) -> Iterator[Path]:
    bundle = binary.bundle()
    subprocess.run(["mount", "--bind", bundle, bundle], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", bundle], check=True)
    yield bundle
    subprocess.run(["umount", bundle], check=True)


def test_read_only_bundle_fails_and_leaves_nothing(binary: Binary, read_only_bundle: Path) -> None:
    """Root may write everywhere except on a read-only file system."""
    said = refused(binary, read_only_bundle, *binary.flags(), "start")
    assert "panic.log: Read-only file system; is the bundle writable?" in said


def test_closed_stdout_undoes_start(binary: Binary) -> None:
    bundle = binary.bundle()
    reading, writing = os.pipe()
    os.close(reading)  # before the process starts, which may print at once
    try:
        done = subprocess.run(
            [binary.launcher, *binary.flags(), "start"], cwd=bundle, env=binary.env,
            stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE, timeout=30, check=False,
        )  # fmt: skip
    finally:
        os.close(writing)
    said = done.stderr
    assert done.returncode == 1
    assert b"cannot print the address: Broken pipe; try again" in said
    assert [path.name for path in bundle.iterdir()] == ["config.json"]
    binary.expect_clean()


def test_daemon_that_dies_undoes_start(binary: Binary) -> None:
    """The error has the panic log's last line, and nothing is left behind."""
    bundle = binary.bundle()
    # A child that cannot detach from its caller.
    code = (
        "import posix, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
        "import shim.platform.linux.daemon as daemon\n"
        "def fail(*args): raise RuntimeError('no way out')\n"
        "daemon._replace_descriptors = lambda log, *keep: (posix.dup2(log, 2), fail())\n"
        "from shim.__main__ import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    import sys

    result = subprocess.run(
        [sys.executable, "-IS", "-c", code, *binary.flags(), "start"], cwd=bundle, env=binary.env, input=b"",
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert b"the daemon died as it started: RuntimeError: no way out" in result.stderr
    assert result.stderr.count(b"\n") == 1
    assert [path.name for path in bundle.iterdir()] == ["config.json"]
    binary.expect_clean()
