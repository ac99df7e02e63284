"""Builds of Windows: how people write them, and which image runs on which host.

Where the rule differs between containerd and Microsoft's shim, containerd's is followed: it is the corrected one, and a
shim must not refuse what containerd has chosen.
"""

from __future__ import annotations

from shim.oci.errors import InvalidOption

# Releases whose base images are or were published, by the names of their tags.
RELEASES = {
    "1607": 14393,
    "ltsc2016": 14393,
    "1709": 16299,
    "1803": 17134,
    "1809": 17763,
    "ltsc2019": 17763,
    "1903": 18362,
    "1909": 18363,
    "2004": 19041,
    "20h2": 19042,
    "ltsc2022": 20348,
    "23h2": 25398,
    "ltsc2025": 26100,
}
# From the first on, a host runs images of its own generation and of the one before: the interfaces are stable.
GENERATIONS = (20348, 26100)
ALLOWED = "a build (20348), a version (10.0.20348) or a release (ltsc2022)"
# Builds have been numbers of five digits since the first Windows that had containers, and fit 16 bits.
_LOWEST, _HIGHEST = 10000, 65535


def parse(text: str, where: str) -> int:
    """The build that is meant. A release name may be any of RELEASES; the fourth part of a version does not matter."""
    wanted = text.strip().lower()
    if wanted in RELEASES:
        return RELEASES[wanted]
    parts = wanted.split(".")
    if all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        if len(parts) in (3, 4) and parts[:2] == ["10", "0"]:
            parts = parts[2:3]
        if len(parts) == 1 and _LOWEST <= int(parts[0]) <= _HIGHEST:
            return int(parts[0])
    raise InvalidOption(f"{where} is {text!r}: give {ALLOWED}; releases are {', '.join(RELEASES)}")


def oldest_on(host: int) -> int:
    """The oldest image that runs on a host without a VM."""
    if host < GENERATIONS[0]:
        return host
    below = [build for build in GENERATIONS if build <= host]
    return below[-2] if len(below) > 1 else below[0]


def runs_in_process(host: int, image: int) -> bool:
    """Whether process isolation is possible: up to 20348 for the same build, from then on for the generation before."""
    return oldest_on(host) <= image <= host


def runs_in_vm(host: int, image: int) -> bool:
    """Whether hypervisor isolation is: a VM has the image's own kernel, which must not be newer than the host."""
    return image <= host
