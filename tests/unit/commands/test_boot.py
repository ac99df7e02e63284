"""Concurrent imports from the module bundle."""

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
    """A bundle whose modules are all in the second index."""
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


def test_find_spec_during_index_read_finds_module(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    read, reading, proceed = bundle._read, threading.Event(), threading.Event()

    def read_slowly(offset: int, length: int) -> bytes:
        if not reading.is_set():
            reading.set()
            assert proceed.wait(60)
        return read(offset, length)

    monkeypatch.setattr(bundle, "_read", read_slowly)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(bundle.find_spec, "shim.one")
        assert reading.wait(60)
        assert bundle.find_spec("shim.two") is not None, "it would be imported by path, which is slow"
        proceed.set()
        assert first.result(60) is not None


def test_second_index_read_returns_all_modules(bundle: Bundle) -> None:
    assert bundle.find_spec("shim.one") is not None
    assert set(bundle._read_index()) == {"shim.one", "shim.two"}
