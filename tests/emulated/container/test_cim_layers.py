"""CIM layers of process-isolated containers: HCS calls, the container's view, and release."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shim.api.types import Mount
from shim.container.cim_layers import volume_id
from shim.ttrpc import status
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.fifo_reader import Reader
from tests.support.image import make_image
from tests.support.shims import Shim, Shims, refused
from tests.support.vm_image import SLEEP

CALLS = (
    "CimMountImage", "CimMergeMountImage", "ActivateLayer", "HcsAttachOverlayFilter",
    "HcsCreateComputeSystem", "HcsDetachOverlayFilter", "DeactivateLayer", "CimDismountImage",
)  # fmt: skip


class Images:
    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.shims = Shims(emulator.env)
        self.directory = self.shims.directory
        self.scratch = self.directory / "scratch"
        self.scratch.mkdir()
        (self.scratch / "sandbox.vhdx").write_text("disk")

    def image(self, name: str) -> str:
        path = self.directory / "cims" / name
        files = Path(f"{path}.d") / "Files"
        make_image(files)
        path.write_text("image")
        (files / "name").write_text(name + "\n")
        return str(path)

    def mount(self, kind: str, *options: str) -> Mount:
        return Mount(type=kind, source=str(self.scratch), options=["rw", *options])

    def run(self, mount: Mount, *args: str, **fields: str) -> Shim:
        shim = self.shims.start("c1", self.shims.spec(*args))
        shim.create(rootfs=[mount], **fields)
        shim.start()
        return shim

    def calls(self) -> list[str]:
        return [entry["call"] for entry in self.emulator.journal() if entry.get("call") in CALLS]


@pytest.fixture
def images(start_emulator: Callable[..., Emulator], request: pytest.FixtureRequest) -> Iterator[Images]:
    images = Images(start_emulator("--build", str(getattr(request, "param", 26100))))
    yield images
    images.shims.close()


def forked(images: Images) -> Mount:
    paths = [images.image("2.cim"), images.image("1.cim")]
    parents = [str(images.directory / "layers" / name) for name in ("2", "1")]
    return images.mount("CimFS", "parentLayerPaths=" + json.dumps(parents), "parentCimPaths=" + json.dumps(paths))


def test_cimfs_container_lifecycle(images: Images) -> None:
    out = str(images.directory / "out")
    os.mkfifo(out)
    reader = Reader(out)
    shim = images.run(forked(images), "sh", "-c", "cat /name; echo kept > /new", stdout=out)
    assert shim.wait().exit_status == 0
    assert reader.text() == "2.cim\n"
    shim.delete()
    assert (images.scratch / "sandbox.vhdx.d" / "upper" / "new").read_text() == "kept\n"
    volume = volume_id("c1")
    (entry,) = images.emulator.journal("HcsCreateComputeSystem")
    storage = next(value for value in entry["arguments"].values() if isinstance(value, dict))["Container"]["Storage"]
    assert storage["Layers"] == [{"Id": volume, "Path": f"\\\\?\\Volume{{{volume}}}\\"}]
    made = ["CimMountImage", "ActivateLayer", "HcsAttachOverlayFilter", "HcsCreateComputeSystem"]
    released = ["HcsDetachOverlayFilter", "DeactivateLayer", "CimDismountImage"]
    assert images.calls() == made + released


def test_cimfs_layers_are_released_after_shim_crash(images: Images) -> None:
    shim = images.run(forked(images), *SLEEP)
    shim.kill_daemon()
    shim.delete_command()
    assert images.calls()[-3:] == ["HcsDetachOverlayFilter", "DeactivateLayer", "CimDismountImage"]
    eventually(lambda: not images.emulator.control("status")["systems"], "the container's end")


@pytest.mark.parametrize("call", ["CimMountImage", "ActivateLayer", "HcsAttachOverlayFilter", "HcsCreateComputeSystem"])
def test_cimfs_create_failure_releases_everything(images: Images, call: str) -> None:
    images.emulator.fault(call, nth=1, error=0x80070005)
    mount = forked(images)
    shim = images.shims.start("c1", images.shims.spec(*SLEEP))
    with pytest.raises(Exception, match="0x80070005"):
        shim.create(rootfs=[mount])
    images.emulator.control("fault-clear")
    again = images.shims.start("c2", images.shims.spec(*SLEEP))
    again.create(rootfs=[mount])
    mounted = images.calls().count("CimMountImage") - (2 if call == "CimMountImage" else 1)
    assert images.calls().count("CimDismountImage") == mounted


@pytest.mark.parametrize("images", [27800], indirect=True)
def test_block_cim_layers_are_merged_and_mounted(images: Images) -> None:
    paths = json.dumps([images.image("2.bcim"), images.image("1.bcim")])
    merged = images.image("merged.bcim")
    bare = images.mount("BlockCIM", f"parentCimPaths={paths}", "blockCIMType=file")
    shim = images.shims.start("c0", images.shims.spec(*SLEEP))
    assert "mergedCIMPath" in refused(status.UNKNOWN, shim.create, rootfs=[bare])
    whole = images.mount("BlockCIM", f"parentCimPaths={paths}", "blockCIMType=file", f"mergedCIMPath={merged}")
    shim = images.run(whole, "sh", "-c", "exit 5")
    assert shim.wait().exit_status == 5
    shim.delete()
    (entry,) = images.emulator.journal("CimMergeMountImage")
    assert entry["arguments"]["flags"] == 0x20
    assert images.calls()[-1] == "CimDismountImage"


@pytest.mark.parametrize("images", [17763, 22621], indirect=True)
def test_cim_layers_are_refused_on_older_build(images: Images) -> None:
    shim = images.shims.start("c1", images.shims.spec(*SLEEP))
    assert "26100" in refused(status.UNKNOWN, shim.create, rootfs=[forked(images)])
