"""Parts of the scenarios with Linux containers: specs, processes, layers, mounts, pods."""

from __future__ import annotations

from typing import Any

VM = "io.microsoft.virtualmachine."
NO_MULTI_MAPPING = f"{VM}lcow.vpmem.nomultimapping"
LCOW = {"sandboxIsolation": "HYPERVISOR", "sandboxPlatform": "linux/amd64"}
ONCE = ("start", "connect", "create", "run", "wait", "io", "state", "delete", "shutdown", "events")
RUN = ("start", "connect", "create", "run")
END = ("kill:,9", "wait", "delete", "shutdown", "events")
# The namespace of the other recordings.
NAMESPACE = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CAPABILITIES = [
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
    "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
]  # fmt: skip
NAMESPACES = ("pid", "ipc", "uts", "mount", "network")
SLEEP = {"args": ["/bin/sleep", "600"]}
TRAP = {"args": ["/bin/sh", "-c", "trap 'exit 4' USR1; trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"]}
# Members of a scenario, not of its spec.
OWN = ("execs", "updates", "rootfs", "options", "fail", "environment")
CONSTRAINTS = {"memory": {"limit": 64 << 20}, "cpu": {"shares": 512, "quota": 50000, "period": 100000}}


def process(*args: str, **members: Any) -> dict[str, Any]:
    """A process as containerd's default spec for Linux has it."""
    return {
        "user": {"uid": 0, "gid": 0},
        "args": list(args),
        "env": [PATH],
        "cwd": "/",
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), CAPABILITIES),
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
        "noNewPrivileges": True,
        **members,
    }


def file_systems() -> list[dict[str, Any]]:
    table = (
        ("/proc", "proc", "proc", "nosuid,noexec,nodev"),
        ("/dev", "tmpfs", "tmpfs", "nosuid,strictatime,mode=755,size=65536k"),
        ("/dev/pts", "devpts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5"),
        ("/dev/shm", "tmpfs", "shm", "nosuid,noexec,nodev,mode=1777,size=65536k"),
        ("/dev/mqueue", "mqueue", "mqueue", "nosuid,noexec,nodev"),
        ("/sys", "sysfs", "sysfs", "nosuid,noexec,nodev,ro"),
        ("/run", "tmpfs", "tmpfs", "nosuid,strictatime,mode=755,size=65536k"),
    )
    return [
        {"destination": target, "type": kind, "source": source, "options": options.split(",")}
        for target, kind, source, options in table
    ]


def spec(*args: str, **members: Any) -> dict[str, Any]:
    """The spec that ctr makes on Windows for an image of the snapshotter windows-lcow."""
    given = members.pop("process", {})
    linux = {
        "resources": {"devices": [{"allow": False, "access": "rwm"}]},
        "cgroupsPath": "/default/task",
        "namespaces": [{"type": name} for name in NAMESPACES],
        "maskedPaths": ["/proc/acpi", "/proc/kcore"],
        "readonlyPaths": ["/proc/bus", "/proc/sys"],
        **members.pop("linux", {}),
    }
    mounts = [*file_systems(), *members.pop("mounts", [])]
    return {
        "ociVersion": "1.1.0",
        "process": process(*(args or ("/bin/echo", "hello")), **given),
        "root": {"path": ""},
        "mounts": mounts,
        "linux": linux,
        "windows": members.pop("windows", {}),
        **members,
    }


def layer(id: str, *options: str) -> list[dict[str, Any]]:
    parents = 'parentLayerPaths=["C:\\\\layers\\\\2","C:\\\\layers\\\\1"]'
    return [{"type": "lcow-layer", "source": f"C:\\snapshots\\{id}", "options": ["rw", *(options or (parents,))]}]


def scenario(name: str, steps: tuple[str, ...] = ONCE, *args: str, **members: Any) -> dict[str, Any]:
    task = f"own-lcow-{name}"
    own = {key: members.pop(key) for key in OWN if key in members}
    if not members.pop("multi_mapping", False):
        members["annotations"] = {NO_MULTI_MAPPING: "true", **members.get("annotations", {})}
    document = spec(*args, **members)
    return {"id": task, "rootfs": layer(task), "spec": document, "steps": list(steps), "options": None, **own}


def annotated(name: str, **annotations: str) -> dict[str, Any]:
    """Keys without `io.microsoft.virtualmachine.`, with `__` for a dot and `_` for a hyphen."""
    values = {VM + key.replace("__", ".").replace("_", "-"): value for key, value in annotations.items()}
    return scenario(name, annotations=values)


def running(name: str, *steps: str, init: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    return scenario(name, (*RUN, *steps, *END), process=init or SLEEP, **members)


def bind(source: str, target: str, *options: str, kind: str = "bind") -> dict[str, Any]:
    return {"destination": target, "type": kind, "source": source, "options": ["rbind", *options]}


def member(pod: str, role: str, steps: tuple[str, ...], id: str = "", **members: Any) -> dict[str, Any]:
    """One task of a pod. Containers share the namespaces of the sandbox in the guest, whose pid they name."""
    annotations = {"io.kubernetes.cri.container-type": role, "io.kubernetes.cri.sandbox-id": pod}
    annotations |= members.pop("annotations", {})
    one = scenario("x", steps, options=LCOW, annotations=annotations, **members)
    return {**one, "id": id or pod, "rootfs": layer(id or pod)}


def pod(name: str, boot: tuple[str, ...], *containers: dict[str, Any], **members: Any) -> dict[str, Any]:
    sandbox = {"process": SLEEP, "windows": {"network": {"networkNamespace": NAMESPACE}}, **members}
    end = ("attach", "connect", "kill:,9", "wait", "delete", "shutdown", "events")
    tasks = {f"-{number}": one for number, one in enumerate(containers, 1)}
    first, last = (member(name, "sandbox", steps, **sandbox) for steps in (boot, end))
    return {"pod": {"-0": first, **tasks, "-9": last}}


EXEC = process("/bin/sh", "-c", "echo out; echo err >&2; exit 5", env=[PATH, "A=b"])
WORKLOAD = (*RUN, "wait", "io", "state", "delete", "shutdown", "events")
BUSY = (
    *RUN, "exec:e1", "run:e1", "wait:e1", "io:e1", "delete:e1", "update:0", "stats", "pids", "kill:,9", "wait",
    "delete", "shutdown", "events",
)  # fmt: skip
LIMITS = {"type": "LinuxResources", "resources": CONSTRAINTS}
