"""Windows builds: how users write them, and which image runs on which host.

Where the rules of containerd and Microsoft's shim differ, containerd's apply: they are the corrected ones, and a shim
must not reject what containerd has chosen. See
https://learn.microsoft.com/en-us/virtualization/windowscontainers/deploy-containers/version-compatibility.
"""

from __future__ import annotations

from shim.oci.errors import InvalidOption

# Releases with published base images, by their tags.
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
# From the first on, a host runs images of its own and of the previous generation: their interfaces are stable.
GENERATIONS = (20348, 26100)
ALLOWED = "a build (20348), a version (10.0.20348) or a release (ltsc2022)"
# Builds have had five digits since the first Windows with containers, and fit 16 bits.
_LOWEST, _HIGHEST = 10000, 65535


def parse(text: str, where: str) -> int:
    """The build of a version or release name (RELEASES); the fourth part of a version is ignored."""
    lower = text.strip().lower()
    if lower in RELEASES:
        return RELEASES[lower]
    parts = lower.split(".")
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
    """Whether process isolation is possible: below build 20348 for the same build, then for the previous generation."""
    return oldest_on(host) <= image <= host


def runs_in_vm(host: int, image: int) -> bool:
    """Whether hypervisor isolation is possible: the image's kernel, in the VM, must not be newer."""
    return image <= host
