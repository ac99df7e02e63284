"""Layers with partitions, and disks with kernel drivers, of Linux containers in a VM."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from shim.api.types import Mount
from shim.ttrpc import status
from tests.support.lcow_image import make_scratch, vhd_footer
from tests.support.linux_shims import LinuxShims
from tests.support.shims import refused

SECTOR = 512
FIRST_SECTOR = 2048


def partitioned(layer: Path, path: Path) -> Path:
    """A disk whose second partition has the file system of a layer."""
    content = layer.read_bytes()[:-SECTOR]
    sectors = len(content) // SECTOR
    first, second = FIRST_SECTOR, 2 * FIRST_SECTOR
    entries = [(first, FIRST_SECTOR), (second, sectors)]
    table = b"".join(struct.pack("<B3sB3sII", 0, b"\0" * 3, 0x83, b"\0" * 3, *entry) for entry in entries)
    record = (b"\0" * 446 + table).ljust(510, b"\0") + b"\x55\xaa"
    size = (second + sectors) * SECTOR
    path.write_bytes((record.ljust(second * SECTOR, b"\0") + content) + vhd_footer(size))
    return path


def test_partitioned_layer_is_mounted_by_its_partition(lcow: LinuxShims) -> None:
    disk = partitioned(lcow.layer / "layer.vhd", lcow.directory / "image.vhd")
    scratch = make_scratch(lcow.scratch("c1"), size=32 << 20)
    layers = json.dumps([{"Path": str(disk), "Partition": 2}])
    mount = Mount(type="lcow-partitioned-layer", options=[f"scratch={scratch}", f"parent-partitioned-layers={layers}"])
    shim = lcow.start("c1", "sh", "-c", "exit 5")
    lcow.create(shim, rootfs=[mount])
    shim.start()
    assert shim.wait().exit_status == 5
    shim.delete()
    assert not lcow.leaked()


def test_driver_that_the_guest_cannot_install_fails_the_create(lcow: LinuxShims) -> None:
    disk = make_scratch(lcow.directory / "driver", size=16 << 20)
    shim = lcow.start("c1", "true", annotations={"io.microsoft.virtualmachine.kerneldrivers": str(disk)})
    assert "install-drivers" in refused(status.UNKNOWN, lcow.create, shim)
    assert not lcow.leaked()
