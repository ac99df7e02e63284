"""The build of Windows that an image is for, read from its layers.

Neither the OCI spec nor the request names it. A base layer does: its registry,
`Files\\Windows\\System32\\config\\SOFTWARE`, has the build below `Microsoft\\Windows NT\\CurrentVersion`. Images for
the emulator have no registry; they may have a file `Windows/os-version` with the version (`10.0.20348.2031`), which is
read only where HCS is emulated.

A build that cannot be read is unknown and is not checked: the shim must not refuse what HCS would accept.
"""

from __future__ import annotations

from shim.container.layers import MountedRoot, SnapshotMounts, WindowsLayers, join
from shim.oci import windows_versions
from shim.oci.errors import InvalidSpec
from shim.platform import files, host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.container.layers import Plan

VERSION_FILE = ("Windows", "os-version")
_HIVES = (("Files", "Windows", "System32", "config", "SOFTWARE"), ("Hives", "Software_Base"))
_KEY = "Microsoft\\Windows NT\\CurrentVersion"
_VALUE = "CurrentBuildNumber"
# Releases that are the one before plus an enablement update: a base layer may have the earlier number.
_AMBIGUOUS = range(18362, 19046)


def build_of(plan: Plan) -> int:
    """The image's build; 0 when it is not known."""
    directories = _directories(plan)
    if host.IS_EMULATED:
        for directory in directories:
            for path in (_path(directory, "Files", *VERSION_FILE), _path(directory, *VERSION_FILE)):
                if build := _from_version_file(path):
                    return build
    return _from_registry(directories[-1]) if isinstance(plan, WindowsLayers) and directories else 0


def _directories(plan: Plan) -> Sequence[str]:
    """The directories with the image's files, from the topmost layer to the base."""
    if isinstance(plan, WindowsLayers):
        return plan.parents
    if isinstance(plan, MountedRoot):
        return [plan.path]
    found: list[str] = []
    for mount in plan.mounts if isinstance(plan, SnapshotMounts) else ():
        lower = [option[len("lowerdir=") :] for option in mount.options if option.startswith("lowerdir=")]
        found += lower[0].split(":") if lower else [mount.source]
    return found


def _path(directory: str, *names: str) -> str:
    for name in names:
        directory = join(directory, name)
    return directory


def _from_version_file(path: str) -> int:
    try:
        return windows_versions.parse(files.read(path, 100, follow=False).decode().strip(), path)
    except (OSError, UnicodeDecodeError, InvalidSpec):
        return 0


def _from_registry(base: str) -> int:
    from shim.container.registry_hive import Hive, HiveError

    for names in _HIVES:
        try:
            with open(files.open_regular(_path(base, *names), follow=False), "rb", buffering=0) as file:
                text = Hive(file).text(_KEY, _VALUE)
            build = windows_versions.parse(text, _VALUE)
        except (OSError, HiveError, InvalidSpec):
            continue
        return 0 if build in _AMBIGUOUS else build
    return 0
