"""The spec that containerd's clients on Linux write for an image: its default Linux spec."""

from __future__ import annotations

from typing import Any

CAPABILITIES = [
    f"CAP_{name}"
    for name in (
        "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
        "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
    )
]  # fmt: skip
#: These capabilities as /proc/self/status shows them.
CAPABILITY_MASK = "00000000a80425fb"
MASKED = [
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
    "/proc/timer_stats", "/proc/sched_debug", "/sys/firmware", "/proc/scsi",
]  # fmt: skip
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
ENVIRONMENT = ["PATH=/bin", "FROM=spec"]


def mounts() -> list[dict[str, Any]]:
    plain = ["nosuid", "noexec", "nodev"]
    devpts = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]
    return [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": plain},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": devpts},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": [*plain, "mode=1777", "size=65536k"]},
        {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": plain},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": [*plain, "ro"]},
        {"destination": "/run", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
    ]  # fmt: skip


def process(*args: str, **members: Any) -> dict[str, Any]:
    sets = dict.fromkeys(("bounding", "effective", "permitted"), CAPABILITIES)
    return {
        "args": list(args),
        "cwd": "/",
        "env": ENVIRONMENT,
        "user": {"uid": 0, "gid": 0},
        "capabilities": sets,
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
        "noNewPrivileges": True,
        **members,
    }


def spec(root: str, id: str, *args: str, **members: Any) -> dict[str, Any]:
    """Members `process` and `linux` are merged; `mounts` are appended."""
    linux = {
        "resources": {"devices": [{"allow": False, "access": "rwm"}]},
        "cgroupsPath": f"/tests/{id}",
        "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
        "maskedPaths": MASKED,
        "readonlyPaths": READ_ONLY,
    }
    return {
        "ociVersion": "1.0.2",
        "process": process(*args, **members.pop("process", {})),
        "root": {"path": root},
        "mounts": [*mounts(), *members.pop("mounts", [])],
        "linux": {**linux, **members.pop("linux", {})},
        **members,
    }
