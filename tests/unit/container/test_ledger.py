"""The ledger: crash safety at every byte, and release of its entries."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shim.container import ledger as ledger_module
from shim.container.ledger import FILE, Ledger

Release = Callable[[dict[str, str], float], None]


@pytest.fixture
def releasers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Release]]:
    """Kinds of resources that exist only in this test: their release functions, by kind. The default succeeds."""
    module = ModuleType("tests_ledger_freers")
    freers: dict[str, Release] = {}
    kinds = ("system", "namespace", "layer", "mount", "slow")
    for kind in kinds:
        setattr(module, kind, lambda fields, deadline, kind=kind: freers.get(kind, lambda *_: None)(fields, deadline))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(ledger_module, "RELEASERS", {kind: (module.__name__, kind) for kind in kinds})
    yield freers


def held(bundle: Path) -> list[tuple[str, dict[str, str]]]:
    """What a new process reads."""
    return [(entry.kind, entry.fields) for entry in Ledger(str(bundle)).entries()]


def test_entries_are_read_by_another_ledger(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    layer = ledger.enter("layer", path='C:\\a "b" ä\n')
    ledger.enter("system", id="c1")
    assert held(tmp_path) == [("system", {"id": "c1"}), ("layer", {"path": 'C:\\a "b" ä\n'})]
    ledger.mark_released(layer)
    ledger.mark_released(layer)
    assert held(tmp_path) == [("system", {"id": "c1"})]
    # Numbers continue, also in the next process.
    again = Ledger(str(tmp_path))
    assert again.enter("mount", target="/x").number == 3
    assert held(tmp_path) == [("system", {"id": "c1"}), ("mount", {"target": "/x"})]


@pytest.mark.parametrize("number", ["²", "٣", "9" * 5000, "-1", "1.0", "", "1e3", " 1"])
def test_line_with_invalid_number_is_ignored(tmp_path: Path, number: str) -> None:
    line = f'{{"n":"{number}","enter":"system","id":"x"}}\n'
    (tmp_path / FILE).write_text(line + '{"n":"4","enter":"system","id":"c1"}\n')
    assert held(tmp_path) == [("system", {"id": "c1"})]
    assert Ledger(str(tmp_path)).enter("system", id="c2").number == 5


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_ledger_that_is_no_file_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / FILE)
    with pytest.raises(OSError):
        Ledger(str(tmp_path))


def test_bundle_without_ledger_is_empty(tmp_path: Path) -> None:
    assert Ledger(str(tmp_path / "none")).entries() == []
    assert not (tmp_path / "none").exists()


def test_enter_fails_if_bundle_is_not_writable(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        Ledger(str(tmp_path / "none")).enter("system", id="c1")


def test_ledger_torn_at_every_byte_is_readable(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    one = ledger.enter("layer", path="/s")
    ledger.enter("system", id="c1")
    ledger.mark_released(one)
    whole = (tmp_path / FILE).read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(len(whole) + 1):
        bundle = tmp_path / str(cut)
        bundle.mkdir()
        (bundle / FILE).write_bytes(whole[:cut])
        complete = sum(cut >= len(b"".join(lines[: n + 1])) - 1 for n in range(3))  # but for the line's end
        expected = {0: [], 1: ["layer"], 2: ["system", "layer"], 3: ["system"]}[complete]
        assert [kind for kind, _ in held(bundle)] == expected
        # Entries after the torn line are read.
        Ledger(str(bundle)).enter("mount", target="/m")
        assert ("mount", {"target": "/m"}) in held(bundle)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_garbage_lines_are_ignored(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    bundle = tmp_path_factory.mktemp("garbage")
    (bundle / FILE).write_bytes(data)
    ledger = Ledger(str(bundle))
    ledger.enter("system", id="c1")
    assert ("system", {"id": "c1"}) in held(bundle)


def test_release_order_is_reverse_with_rootfs_last(tmp_path: Path, releasers: dict[str, Release]) -> None:
    order: list[str] = []
    for kind in ("namespace", "layer", "mount", "system"):
        releasers[kind] = lambda fields, deadline: order.append(fields["id"])
    ledger = Ledger(str(tmp_path))
    kept = None
    for number, kind in enumerate(("namespace", "layer", "namespace", "mount", "system", "system")):
        kept = ledger.enter(kind, id=f"{kind}{number}")
    assert kept is not None
    assert ledger.release_all(5, keep=[kept]) == []
    assert order == ["system4", "namespace2", "namespace0", "mount3", "layer1"]
    assert held(tmp_path) == [("system", {"id": "system5"})]


def test_release_continues_after_failure(tmp_path: Path, releasers: dict[str, Release]) -> None:
    order: list[str] = []

    def fail(fields: dict[str, str], deadline: float) -> None:
        raise OSError("it is stuck")

    releasers["namespace"] = fail
    releasers["layer"] = lambda fields, deadline: order.append("layer")
    ledger = Ledger(str(tmp_path))
    ledger.enter("layer", path="/s")
    ledger.enter("namespace", id="n1")
    failures = ledger.release_all(5)
    assert [str(failure) for failure in failures] == ["failed to release namespace n1: it is stuck"]
    assert order == ["layer"]
    assert held(tmp_path) == [("namespace", {"id": "n1"})]
    # The next attempt may succeed.
    releasers["namespace"] = lambda fields, deadline: None
    assert Ledger(str(tmp_path)).release_all(5) == [] and held(tmp_path) == []


def test_hanging_release_times_out(tmp_path: Path, releasers: dict[str, Release]) -> None:
    release = threading.Event()
    order: list[str] = []
    releasers["slow"] = lambda fields, deadline: release.wait(60) and None
    releasers["layer"] = lambda fields, deadline: order.append("layer")
    ledger = Ledger(str(tmp_path))
    ledger.enter("layer", path="/s")
    ledger.enter("slow", id="x")
    try:
        failures = ledger.release_all(0.05)
        assert "timed out" in str(failures[0]) and len(failures) == 1
        assert order == ["layer"]
    finally:
        release.set()


def test_unknown_kind_is_reported(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    ledger.enter("wormhole", id="w")
    assert "cannot release a wormhole" in str(ledger.release_all(1)[0])


def test_release_after_bundle_was_removed(tmp_path: Path, releasers: dict[str, Release]) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    ledger = Ledger(str(bundle))
    ledger.enter("system", id="c1")
    os.remove(bundle / FILE)
    bundle.rmdir()
    assert ledger.release_all(5) == [] and ledger.entries() == []


def test_concurrent_enter_and_release(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))

    def work(name: str) -> None:
        for number in range(50):
            entry = ledger.enter("system", id=f"{name}{number}")
            if number % 2:
                ledger.mark_released(entry)

    threads = [threading.Thread(target=work, args=(str(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held(tmp_path)) == 100


WRITER = """
import sys
from shim.container.ledger import Ledger
ledger = Ledger(sys.argv[1])
print("ready", flush=True)
held = []
while True:
    held.append(ledger.enter("layer", path="/s" * 200))
    if len(held) > 20:
        ledger.mark_released(held.pop(0))
"""


def test_killed_writer_leaves_readable_ledger(tmp_path: Path) -> None:
    """kill -9 during a write: at most one line is torn, and every held entry is listed."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + 60
        while not (tmp_path / FILE).exists() or (tmp_path / FILE).stat().st_size < 50_000:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    assert 20 <= len(held(tmp_path)) <= 22
