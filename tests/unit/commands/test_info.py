"""The features of `-info`: CRI offers recursive read-only mounts and user namespaces by them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shim.api.introspection import RuntimeInfo
from shim.api.packing import pack
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any as Packed
from shim.commands import CommandError, info
from shim.oci.features import TYPE_URL


def features(monkeypatch: pytest.MonkeyPatch, options: Packed | None = None) -> dict[str, Any]:
    written: list[bytes] = []
    monkeypatch.setattr(info, "read_stdin", lambda: options.encode() if options else b"")
    monkeypatch.setattr(info.files, "write_stdout", written.append)
    assert info.run() == 0
    answer = RuntimeInfo.decode(written[0])
    assert answer.options == options
    assert answer.features is not None and answer.features.type_url == TYPE_URL
    found: dict[str, Any] = json.loads(answer.features.value)
    return found


def test_features_of_linux_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    for options in (None, pack(Options(sandbox_platform="linux/amd64"))):
        found = features(monkeypatch, options)
        assert "rro" in found["mountOptions"]
        assert "user" not in found["linux"]["namespaces"]
        assert found["linux"]["mountExtensions"] == {"idmap": {"enabled": False}}


def test_features_of_windows_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = features(monkeypatch, pack(Options(sandbox_platform="windows/amd64")))
    assert "linux" not in found and "rro" not in found["mountOptions"]


def test_info_with_unknown_options_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match=r"strange\.v1\.Options"):
        features(monkeypatch, Packed(type_url="strange.v1.Options", value=b""))
