"""The endpoints of streams: FIFOs, files and loggers by URI, and invalid ones."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from shim.platform.linux import binary_logger
from shim.task.stdio import log_uri
from shim.ttrpc.status import UNKNOWN, StatusError
from tests.support.eventually import eventually
from tests.unit.platform.stdio_fixtures import Lab, write_all


def open_descriptors() -> set[str]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{number}: {os.readlink(f'/proc/self/fd/{number}')}")
        except FileNotFoundError:
            pass  # the descriptor of listdir itself
    return found


def test_files_are_appended_to(lab: Lab) -> None:
    deep = lab.directory / "made" / "on the way" / "log"
    plain = lab.directory / "plain"
    plain.write_bytes(b"before ")
    for number in range(2):
        stdio = lab.open(stdout=f"file://{deep}".replace(" ", "%20"), stderr=str(plain))
        process = lab.start(stdio)
        os.write(process.inside[1], b"out%d " % number)
        os.write(process.inside[2], b"err%d " % number)
        process.exit()
        assert stdio.drain(30)
        stdio.close()
    assert deep.read_bytes() == b"out0 out1 "
    assert plain.read_bytes() == b"before err0 err1 "
    assert deep.stat().st_mode & 0o777 == 0o644
    assert deep.parent.stat().st_mode & 0o777 == 0o755


def test_fifo_scheme_is_accepted(lab: Lab) -> None:
    stdio = lab.open(f"fifo://{lab.stdin}", f"fifo://{lab.stdout}")
    assert list(stdio.requested_pipes().values()) == [True, True, False]


@pytest.mark.parametrize(
    ("stdin", "stdout", "stderr", "code", "says"),
    [
        ("", "npipe:////./pipe/x", "", UNKNOWN, "scheme 'npipe'"),
        ("", "{out}", "gopher://{err}", UNKNOWN, "scheme 'gopher'"),
        ("", "relative/path", "", UNKNOWN, "absolute path"),
        ("file://{in}", "", "", UNKNOWN, "must be a FIFO"),
        ("", "{out}", "{directory}/missing", UNKNOWN, "No such file"),
        ("{directory}/missing", "{out}", "{err}", UNKNOWN, "No such file"),
        ("", "{directory}", "", UNKNOWN, "Is a directory"),
        ("", "binary:///no/such/program", "", UNKNOWN, "cannot be started"),
        ("{in}", "binary:///bin/true", "", UNKNOWN, "together with the logger"),
        ("", "binary:///bin/true", "{err}", UNKNOWN, "the same as the logger"),
        ("", "{out}", "binary:///bin/true", UNKNOWN, "is a logger"),
        ("", "binary-v2:///bin/true", "", UNKNOWN, "without saying that it is ready"),
    ],
)
def test_invalid_endpoint_fails_and_leaves_nothing_open(
    lab: Lab, stdin: str, stdout: str, stderr: str, code: int, says: str
) -> None:
    names = {"in": lab.stdin, "out": lab.stdout, "err": lab.stderr, "directory": str(lab.directory)}
    before = open_descriptors()
    with pytest.raises(StatusError, match=says) as caught:
        lab.open(stdin.format(**names), stdout.format(**names), stderr.format(**names))
    assert caught.value.code == code
    eventually(lambda: open_descriptors() <= before)


LOGGER = """\
    import os, sys, time
    target, mode = sys.argv[2], sys.argv[4]
    if mode == "silent":
        time.sleep(60)
    if mode == "closes":
        os.close(5)
    else:
        os.write(5, b"!")
        os.close(5)
    with open(target, "w") as log:
        log.write(repr((open("/proc/self/environ").read().split("\\0"), sys.argv[1:])) + "\\n")
        for descriptor in (3, 4):
            with os.fdopen(descriptor, "rb") as stream:
                log.write(repr(stream.read()) + "\\n")
                log.flush()
        log.write("end\\n")
"""


@pytest.fixture
def logger_program(tmp_path: Path) -> Path:
    program = tmp_path / "logger"
    program.write_text(f"#!{sys.executable} -IS\n" + textwrap.dedent(LOGGER))
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("scheme", "mode"), [("binary", "says"), ("binary", "closes"), ("binary-v2", "says")])
def test_logger_gets_output_and_environment(lab: Lab, logger_program: Path, scheme: str, mode: str) -> None:
    target = lab.directory / "logged"
    uri = f"{scheme}://{logger_program}?target={target}&mode={mode}"
    stdio = lab.open(stdout=uri, stderr=uri)
    assert list(stdio.requested_pipes().values()) == [False, True, True]
    process = lab.start(stdio)
    write_all(process.inside[1], b"o" * 200_000)
    process.exit()
    assert stdio.drain(30)
    stdio.close()
    eventually(lambda: target.exists() and target.read_text().endswith("end\n"))
    first, out, err, _ = target.read_text().splitlines()
    environment = ["CONTAINER_ID=c1", "CONTAINER_NAMESPACE=ns", ""]
    assert first == repr((environment, ["target", str(target), "mode", mode]))
    assert out == repr(b"o" * 200_000)
    assert err == repr(b"")


def test_logger_not_ready_times_out(lab: Lab, logger_program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_logger, "READY_TIMEOUT", 0.1)
    with pytest.raises(StatusError, match="did not say within"):
        lab.open(stdout=f"binary://{logger_program}?target=x&mode=silent")


def test_dead_logger_does_not_block_process(lab: Lab, tmp_path: Path) -> None:
    program = tmp_path / "short"
    program.write_text("#!/bin/sh\nprintf x >&5\n")
    program.chmod(0o755)
    stdio = lab.open(stdout=f"binary://{program}")
    process = lab.start(stdio)
    write_all(process.inside[1], bytes(8 << 20))
    process.exit()
    assert stdio.drain(30)


def test_logger_ignoring_sigterm_is_killed(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_logger, "STOP_TIMEOUT", 0.05)
    program = tmp_path / "stubborn"
    program.write_text("#!/bin/sh\ntrap '' TERM\necho $$ > \"$2\"\nprintf x >&5\nwhile :; do sleep 0.1; done\n")
    program.chmod(0o755)
    stdio = lab.open(stdout=f"binary://{program}?pid={tmp_path}/pid")
    pid = int((tmp_path / "pid").read_text())
    stdio.close()
    eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_uri_parts_are_decoded() -> None:
    target = log_uri.parse("stdout", "binary:///bin/log%20ger?a=1&b=x%2By+z&c&a=2#fragment")
    assert (target.scheme, target.path, target.is_logger) == ("binary", "/bin/log ger", True)
    assert target.query == [("a", "1"), ("b", "x+y z"), ("c", ""), ("a", "2")]
    assert log_uri.parse("stdout", "/plain%20path?x").path == "/plain%20path?x"
    assert log_uri.parse("stdout", "file:///odd%zz%").path == "/odd%zz%"
