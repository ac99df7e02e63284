"""Device extensions: files that describe objects of a container's device namespace, named by an annotation."""

from __future__ import annotations

from shim.hcs_bindings.windows_version import windows_build
from shim.oci.annotations import container as names
from shim.oci.errors import InvalidSpec
from shim.oci.spec import parse
from shim.platform import files, host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.oci.annotations.container import Annotations

FIRST_BUILD = 20348
_MAX_FILE = 1 << 20


def read(annotations: Annotations) -> dict[str, Any]:
    """The container's `AdditionalDeviceNamespace`. A missing file is reported first, as by Microsoft's shim."""
    paths = annotations.texts(names.DEVICE_EXTENSIONS)
    for path in paths:
        if not host.exists(path):
            raise InvalidSpec(
                f"failed to find path to driver extensions at {path}, which annotation {names.DEVICE_EXTENSIONS} names"
            )
    if (build := windows_build()) < FIRST_BUILD:
        raise InvalidSpec(
            f"device extensions are not supported on this build ({build}): annotation {names.DEVICE_EXTENSIONS} needs "
            f"Windows build {FIRST_BUILD} or later"
        )
    return {"device_extension": [_extension(path) for path in paths]}


def _extension(path: str) -> dict[str, Any]:
    try:
        return parse(files.read(path, _MAX_FILE), path)
    except OSError as error:
        raise InvalidSpec(
            f"failed to read extension file at {path}, named by annotation {names.DEVICE_EXTENSIONS}: {error.strerror}"
        ) from None
