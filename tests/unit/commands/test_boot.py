"""Imports from the file of compiled modules, by several threads at the same moment."""

from __future__ import annotations

import marshal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from launcher.linux.boot import Bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """One whose modules are all in the second index."""
    modules: dict[str, Any] = {}
    codes = b""
    for name in ("one", "two"):
        source = tmp_path / f"{name}.py"
        source.write_text(f"NAME = {name!r}")
        code = marshal.dumps(compile(source.read_text(), name, "exec"))
        status = source.stat()
        modules[f"shim.{name}"] = (source.name, status.st_mtime_ns, status.st_size, len(codes), len(code))
        codes += code
    index = marshal.dumps(modules)
    (tmp_path / "modules").write_bytes(codes + index)
    return Bundle(str(tmp_path), {}, {}, str(tmp_path / "modules"), len(codes), len(index))


def test_who_asks_while_the_index_is_being_read_gets_an_answer(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    read, reading, go_on = bundle._read, threading.Event(), threading.Event()

    def slowly(offset: int, length: int) -> bytes:
        if not reading.is_set():
            reading.set()
            assert go_on.wait(60)
        return read(offset, length)

    monkeypatch.setattr(bundle, "_read", slowly)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(bundle.find_spec, "shim.one")
        assert reading.wait(60)
        assert bundle.find_spec("shim.two") is not None, "it would be imported by path, a hundred times slower"
        go_on.set()
        assert first.result(60) is not None


def test_who_was_about_to_read_it_finds_it_read(bundle: Bundle) -> None:
    assert bundle.find_spec("shim.one") is not None
    assert set(bundle._read_index()) == {"shim.one", "shim.two"}
