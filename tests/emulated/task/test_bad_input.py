"""Invalid requests: the status code, a message that says what to do, and no leaked resources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shim.api import task as api
from shim.api.types import Mount
from shim.api.wellknown import Any as PackedAny
from shim.container.ledger import Ledger
from shim.ttrpc import status
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shims, refused

Spec = dict[str, Any]


def edited(**changes: Any) -> Callable[[Spec], None]:
    """Set `process.cwd` … of a spec by `process_cwd=…`; None removes it."""

    def edit(spec: Spec) -> None:
        for path, value in changes.items():
            *outer, last = path.split("_")
            place = spec
            for name in outer:
                place = place.setdefault(name, {})
            if value is None:
                place.pop(last, None)
            else:
                place[last] = value

    return edit


WRONG = {
    "no process": (edited(process=None), status.UNKNOWN, "process"),
    "an empty process": (edited(process={}), status.UNKNOWN, "process"),
    "no arguments": (edited(process_args=[]), status.UNKNOWN, "args"),
    "arguments that are no list": (edited(process_args="sleep"), status.UNKNOWN, "process.args"),
    "a relative cwd": (edited(process_cwd="work"), status.UNKNOWN, "absolute"),
    "1 MB of environment": (
        edited(process_env=[f"V{n}={'x' * 10_000}" for n in range(105)]),
        status.UNKNOWN,
        "env",
    ),
    "a command line that is too long": (edited(process_args=["echo", "x" * 32_767]), status.UNKNOWN, "32766"),
    "no system's section": (edited(windows=None), status.UNKNOWN, "windows"),
    "a relative mount source": (
        edited(mounts=[{"source": "data", "destination": "C:\\data"}]),
        status.UNKNOWN,
        "absolute",
    ),
    "a missing mount source": (
        edited(mounts=[{"source": "/no/such/place", "destination": "C:\\data"}]),
        status.UNKNOWN,
        "/no/such/place",
    ),
    "a read-only root": (edited(root={"path": "", "readonly": True}), status.UNKNOWN, "readonly"),
    "a mount and layer folders": (
        edited(windows_layerFolders=["/a", "/b"]),
        status.FAILED_PRECONDITION,
        "layerFolders",
    ),
    "limits that exclude each other": (
        edited(windows_resources={"cpu": {"count": 1, "maximum": 5000}}),
        status.UNKNOWN,
        "mutually exclusive",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_create_with_invalid_spec_is_refused(shims: Shims, emulator: Emulator, name: str) -> None:
    edit, code, words = WRONG[name]
    spec = shims.spec("sleep", "600")
    edit(spec)
    shim = shims.start("c1", spec)
    assert words in refused(code, shim.create, rootfs=shims.rootfs())
    nothing_left(shims, emulator, shim.path)
    refused(status.NOT_FOUND, shim.state)
    shim.shutdown()
    shim.wait_exited()
    shim.delete_command()


def test_create_without_rootfs_is_refused(shims: Shims, emulator: Emulator) -> None:
    shim = shims.start("c1", shims.spec("sleep", "600"))
    assert "root file system" in refused(status.FAILED_PRECONDITION, shim.create)
    nothing_left(shims, emulator, shim.path)


def test_create_with_unmountable_rootfs_is_refused(shims: Shims, emulator: Emulator) -> None:
    shim = shims.start("c1", shims.spec("sleep", "600"))
    mount = Mount(type="bind", source="/no/such/place", options=["bind"])
    assert "/no/such/place" in refused(status.UNKNOWN, shim.create, rootfs=[mount])
    nothing_left(shims, emulator, shim.path)


def test_create_with_options_of_another_runtime_is_refused(shims: Shims, emulator: Emulator) -> None:
    shim = shims.start("c1", shims.spec("sleep", "600"))
    options = PackedAny(type_url="containerd.strange.v1.Options", value=b"")
    assert "containerd.strange.v1.Options" in refused(
        status.INVALID_ARGUMENT, shim.create, rootfs=shims.rootfs(), options=options
    )
    nothing_left(shims, emulator, shim.path)


def test_create_without_config_is_refused(shims: Shims) -> None:
    shim = shims.start("c1", shims.spec("sleep", "600"))
    (shim.path / "config.json").unlink()
    assert "config.json" in refused(status.UNKNOWN, shim.create, rootfs=shims.rootfs())


def test_start_with_unknown_user_fails(shims: Shims, emulator: Emulator) -> None:
    spec = shims.spec("sleep", "600")
    spec["process"]["user"] = {"username": "unknown-user"}
    shim = shims.start("c1", spec)
    shim.create(rootfs=shims.rootfs())
    assert "unknown-user" in refused(status.UNKNOWN, shim.start)
    shim.wait()
    shim.delete()
    nothing_left(shims, emulator, shim.path)


def test_exec_with_invalid_process_is_refused(shims: Shims) -> None:
    shim = shims.start("c1", shims.spec("sleep", "600"))
    shim.run(rootfs=shims.rootfs())
    refused(status.INVALID_ARGUMENT, shim.call, "Exec", api.ExecProcessRequest(id="c1", exec_id="e1"))
    garbage = PackedAny(type_url="x/Process", value=b"{")
    refused(status.UNKNOWN, shim.call, "Exec", api.ExecProcessRequest(id="c1", exec_id="e1", spec=garbage))
    refused(status.UNKNOWN, shim.exec, "e1", {"args": []})
    refused(status.UNKNOWN, shim.exec, "e1", {"args": ["echo"], "cwd": "here"})
    refused(status.NOT_FOUND, shim.state, "e1")
    assert "exec-added e1" not in shims.events.received()


def nothing_left(shims: Shims, emulator: Emulator, bundle: Path) -> None:
    assert emulator.control("status")["systems"] == []
    assert Ledger(str(bundle)).entries() == []
    assert not (bundle / "rootfs").is_mount()
    if [event for event in shims.events.received() if event.startswith("create")]:
        eventually(lambda: "exit c1" in shims.events.received(), "the exit of what was created")
