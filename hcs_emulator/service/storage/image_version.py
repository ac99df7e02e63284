"""Which build of Windows an image is of, and what a host makes of it.

A stand-in image may carry its version in `Windows/os-version` (`10.0.20348.2031`); a real host looks into the registry
of the base layer. Without one, nothing is known and everything fits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from hcs_emulator.service.errors import HCS_E_IMAGE_MISMATCH, HcsError
from hcs_emulator.service.storage.layers import layer_files

FILE = os.path.join("Windows", "os-version")
# From here on the interfaces between user and kernel mode are stable from one generation to the next.
STABLE = (20348, 26100)


def image_build(directories: Iterable[str]) -> int:
    """The first that is told, from the top layer to the base; 0 for none."""
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
