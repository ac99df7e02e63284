"""/etc/hostname, /etc/hosts and /etc/resolv.conf of pods and containers."""

from __future__ import annotations

import os
from typing import Any

from hcs_emulator.vm.linux.agent.errors import GuestError, failed

SEARCH_LIMIT = 6
PATHS = ("/etc/hostname", "/etc/hosts", "/etc/resolv.conf")

_IPV6_LINES = """
# The following lines are desirable for IPv6 capable hosts
::1     ip6-localhost ip6-loopback
fe00::0 ip6-localnet
ff00::0 ip6-mcastprefix
ff02::1 ip6-allnodes
ff02::2 ip6-allrouters
"""


def hosts(hostname: str) -> str:
    short = hostname.partition(".")[0]
    names = f"{hostname} {short}" if "." in hostname else hostname
    return f"127.0.0.1 localhost\n127.0.0.1 {names}\n{_IPV6_LINES}"


def resolv_conf(searches: list[str], servers: list[str]) -> str:
    if len(searches) > SEARCH_LIMIT:
        raise GuestError(f"searches has more than {SEARCH_LIMIT} domains")
    content = f"search {' '.join(searches)}\n" if searches else ""
    return content + "".join(f"nameserver {server}\n" for server in servers)


def write(directory: str, path: str, content: str) -> str:
    """Write the file that containers see at `path`; returns where it is."""
    target = os.path.join(directory, os.path.basename(path))
    try:
        with open(target, "w") as file:
            file.write(content)
        os.chmod(target, 0o644)
    except OSError as error:
        raise failed(f'failed to write {os.path.basename(path)} to "{target}"', error) from error
    return target


def is_mounted(spec: dict[str, Any], path: str) -> bool:
    return any(mount.get("destination") == path for mount in spec.get("mounts") or ())


def mount(spec: dict[str, Any], path: str, source: str) -> None:
    options = ["bind", "ro"] if spec["root"].get("readonly") else ["bind"]
    spec.setdefault("mounts", []).append({"destination": path, "type": "bind", "source": source, "options": options})
