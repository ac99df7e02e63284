"""Which build of Windows an image is of, as far as its layers tell.

Neither the OCI spec nor the request says. A base layer does: its registry,
`Files\\Windows\\System32\\config\\SOFTWARE`, has the build below `Microsoft\\Windows NT\\CurrentVersion`. Stand-in
images, which have no registry, may carry a file `Windows/os-version` with the version (`10.0.20348.2031`) as its text;
it counts where HCS is emulated.

What cannot be read is not known, and what is not known is not checked: a shim must not refuse what HCS would take.
"""

from __future__ import annotations

from shim.container.layers import ReadyRoot, SnapshotMounts, WindowsLayers, join
from shim.oci import windows_versions
from shim.oci.errors import InvalidSpec
from shim.platform import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from shim.container.layers import Plan

STAND_IN = ("Windows", "os-version")
_HIVES = (("Files", "Windows", "System32", "config", "SOFTWARE"), ("Hives", "Software_Base"))
_KEY = "Microsoft\\Windows NT\\CurrentVersion"
_VALUE = "CurrentBuildNumber"
# Releases that differ from the one before by a switch in an update: a base layer may tell the number before.
_AMBIGUOUS = range(18362, 19046)


def build_of(plan: Plan) -> int:
    """The image's build; 0 when it is not known."""
    directories = _directories(plan)
    if host.IS_EMULATED:
        for directory in directories:
            for path in (_path(directory, "Files", *STAND_IN), _path(directory, *STAND_IN)):
                if build := _stand_in(path):
                    return build
    return _from_registry(directories[-1]) if isinstance(plan, WindowsLayers) and directories else 0


def _directories(plan: Plan) -> Sequence[str]:
    """Where the image's files are, from the top to the base."""
    if isinstance(plan, WindowsLayers):
        return plan.parents
    if isinstance(plan, ReadyRoot):
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


def _stand_in(path: str) -> int:
    try:
        with open(path, encoding="utf-8") as file:
            return windows_versions.parse(file.read(100).strip(), path)
    except (OSError, UnicodeDecodeError, InvalidSpec):
        return 0


def _from_registry(base: str) -> int:
    from shim.container.registry_hive import Hive, HiveError

    for names in _HIVES:
        try:
            with open(_path(base, *names), "rb", buffering=0) as file:
                text = Hive(file).text(_KEY, _VALUE)
            build = windows_versions.parse(text, _VALUE)
        except (OSError, HiveError, InvalidSpec):
            continue
        return 0 if build in _AMBIGUOUS else build
    return 0
