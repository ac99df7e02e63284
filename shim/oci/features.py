"""The runtime features that `-info` reports: https://github.com/opencontainers/runtime-spec/blob/main/features.md.

CRI offers a handler's recursive read-only mounts and user namespaces by them. Only what the shim guarantees with any
guest is listed: a share of the host is read-only as a whole, so `rro` holds whatever the guest's runc does with it.
The ids of a share's files cannot be mapped, so there is no user namespace for pods.
"""

from __future__ import annotations

from shim.api.wellknown import Any

TYPE_URL = "types.containerd.io/opencontainers/runtime-spec/1/features/Features"
_VERSIONS = '"ociVersionMin":"1.0.0","ociVersionMax":"1.1.0"'
_WINDOWS = "{" + _VERSIONS + ',"mountOptions":["ro","rw"]}'
_LINUX = (
    "{" + _VERSIONS + ',"mountOptions":["bind","dev","exec","nodev","noexec","nosuid","private","rbind","ro",'
    '"rprivate","rro","rw","suid"],"linux":{"namespaces":["cgroup","ipc","mount","network","pid","uts"],'
    '"seccomp":{"enabled":true},"apparmor":{"enabled":false},"selinux":{"enabled":false},'
    '"mountExtensions":{"idmap":{"enabled":false}}}}'
)


def features(system: str) -> Any:
    """Features of containers of an operating system, `linux` or `windows`: JSON, as containerd decodes this type."""
    return Any(type_url=TYPE_URL, value=(_LINUX if system == "linux" else _WINDOWS).encode())
