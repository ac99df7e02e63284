"""The runtimes of `runhcs config`. The name of a runtime defines it:

    runhcs-wcow-process                           a container is processes of the host
    runhcs-wcow-process-20348                     … and its image must fit this build, or release (-ltsc2022)
    runhcs-wcow-hypervisor                        a pod is a utility VM, of its image's own Windows
    runhcs-wcow-hypervisor-20348                  … and that Windows must be of this build, or release
    runhcs-wcow-hypervisor-20348-1vp2gb           … and the VM has 1 virtual processor and 2 GiB
    runhcs-wcow-hypervisor-20348-reserve-4core    … and the VM sees 4 cores, all others are masked, and its memory,
                                                  2 GiB for each core, is physical from the start: reserve equals limit
    runhcs-lcow                                   a pod is a utility VM with a Linux guest, for Linux images
    runhcs-lcow-2vp4gb, runhcs-lcow-reserve-2core … of these sizes

Names may have any build and any size.
"""

from __future__ import annotations

import re

from attrs import field, frozen
from attrs.validators import ge, max_len

from shim.oci.errors import InvalidSpec
from shim.oci.windows_versions import RELEASES, parse

PROCESS = "runhcs-wcow-process"
HYPERVISOR = "runhcs-wcow-hypervisor"
LCOW = "runhcs-lcow"
# Printed when no name is given: the builds of Windows Server 2019, 2022 and 2025.
DEFAULTS = (
    PROCESS,
    *(f"{PROCESS}-{build}" for build in (17763, 1809, 20348, 26100)),
    HYPERVISOR,
    *(
        f"{HYPERVISOR}-{build}{suffix}"
        for build in (17763, 1809, 20348, 26100)
        for suffix in ("", *(() if build == 1809 else ("-1vp2gb", "-2vp4gb", "-4vp8gb", "-reserve-4core")))
    ),
    *(f"{LCOW}{suffix}" for suffix in ("", "-1vp2gb", "-2vp4gb", "-4vp8gb")),
)
RESERVED_MB_PER_CORE = 2048

_NAME = re.compile(
    rf"(?P<isolation>{PROCESS}|{HYPERVISOR}|{LCOW})"
    r"(?:-(?![0-9]+vp|reserve-)(?P<version>[0-9a-z]+))?"
    r"(?:-(?P<processors>[1-9][0-9]*)vp(?P<gigabytes>[1-9][0-9]*)gb|-reserve-(?P<cores>[1-9][0-9]*)core)?"
)
_LONGEST_LABEL = 63


class UnknownRuntime(ValueError):  # noqa: N818
    """A name that defines no runtime."""


@frozen
class Runtime:
    """One runtime handler. 0 means that the name does not set it."""

    name: str = field(validator=max_len(_LONGEST_LABEL))
    hypervisor: bool
    build: int = field(default=0, validator=ge(0))
    processors: int = field(default=0, validator=ge(0))
    memory_mb: int = field(default=0, validator=ge(0))
    reserved: bool = False
    linux: bool = False

    @property
    def summary(self) -> str:
        if not self.hypervisor:
            fits = f", images of Windows build {self.build}{_release(self.build)}" if self.build else ""
            return f"process isolation, containers are processes of the host{fits}"
        parts = ["hypervisor isolation"]
        if self.linux:
            parts.append("a VM with a Linux guest")
        elif self.build:
            parts.append(f"a VM of Windows build {self.build}{_release(self.build)}")
        else:
            parts.append("a VM of its image's own Windows")
        if self.reserved:
            parts.append(f"{_count(self.processors, 'core')}, others masked, {self.memory_mb} MiB, all reserved")
        elif self.processors:
            parts.append(f"{_count(self.processors, 'virtual processor')}, {self.memory_mb} MiB")
        return ", ".join(parts)


def runtime(name: str) -> Runtime:
    """The runtime of this name. Raises UnknownRuntime."""
    match = _NAME.fullmatch(name)
    if match is None or len(name) > _LONGEST_LABEL:
        raise UnknownRuntime(
            f"{name!r} is not the name of a runtime: try {PROCESS}, {HYPERVISOR}-20348-1vp2gb or {LCOW}"
        )
    linux = match["isolation"] == LCOW
    if linux and match["version"]:
        raise UnknownRuntime(f"{name!r}: a Linux guest has no build of Windows, so use {LCOW}")
    hypervisor = match["isolation"] != PROCESS
    build = _build(match["version"], name) if match["version"] else 0
    if not hypervisor:
        if match["processors"] or match["cores"]:
            larger = name.replace(PROCESS, HYPERVISOR)
            raise UnknownRuntime(f"{name!r}: only VMs have a size, so use {PROCESS}, or {larger}")
        return Runtime(name, False, build)
    if match["cores"]:
        cores = int(match["cores"])
        return Runtime(name, True, build, cores, cores * RESERVED_MB_PER_CORE, True, linux)
    if match["processors"]:
        return Runtime(name, True, build, int(match["processors"]), int(match["gigabytes"]) * 1024, linux=linux)
    return Runtime(name, True, build, linux=linux)


def runtimes(names: list[str]) -> list[Runtime]:
    """The named runtimes, or the defaults; duplicates are removed."""
    return [runtime(name) for name in dict.fromkeys(names or DEFAULTS)]


def _build(version: str, name: str) -> int:
    try:
        return parse(version, f"the version of {name}")
    except InvalidSpec as error:
        raise UnknownRuntime(str(error)) from None


def _release(build: int) -> str:
    names = [release for release, number in RELEASES.items() if number == build and release.startswith("ltsc")]
    return f" ({names[0]})" if names else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
