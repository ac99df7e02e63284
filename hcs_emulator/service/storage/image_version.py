"""The Windows build of an image, and whether a host can run it.

An image for the emulator may have its version in `Windows/os-version` (`10.0.20348.2031`); a real host reads the
registry of the base layer. An image without a version is compatible with every host.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from hcs_emulator.service.errors import HCS_E_IMAGE_MISMATCH, HcsError
from hcs_emulator.service.storage.layers import layer_files

FILE = os.path.join("Windows", "os-version")
# From this build on, the interface between user and kernel mode is stable from one generation to the next.
STABLE = (20348, 26100)


def image_build(directories: Iterable[str]) -> int:
    """The first build found, from the top layer to the base; 0 for none."""
    for directory in directories:
        try:
            with open(os.path.join(layer_files(directory), FILE), encoding="ascii") as file:
                return int(file.read(100).split(".")[2])
        except (OSError, ValueError, IndexError):
            continue
    return 0


def is_compatible(host: int, image: int) -> bool:
    if host < STABLE[0]:
        return image == host
    generation = max(index for index, build in enumerate(STABLE) if build <= host)
    return STABLE[max(generation - 1, 0)] <= image <= host


def require_compatible(host: int, directories: Iterable[str]) -> None:
    image = image_build(directories)
    if image and not is_compatible(host, image):
        raise HcsError(
            HCS_E_IMAGE_MISMATCH, f"[Create compute system] the image is of build {image}, the host of {host}"
        )
