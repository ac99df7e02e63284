"""The root file system of a Linux VM: a tmpfs with the host's programs read-only, and everything else its own.

It is built by the process that becomes the guest's init, in its new namespaces.
"""

from __future__ import annotations

import os
import stat

from hcs_emulator.service.virtual_machine.cgroups import Cgroups, enable_controllers, write
from hcs_emulator.vm.linux import syscalls

AGENT = "/agent/gcs"
VSOCK = "/run/vsock.sock"
# The network namespace of a pod on the host: the shim names this path in the spec of the sandbox's container.
POD_NETWORK = "/run/netns/pod"
HOSTNAME = "utilityvm"
_NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_FILES = {
    "/etc/hostname": HOSTNAME + "\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "/etc/group": "root:x:0:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def build(
    directory: str, cgroups: Cgroups, agent: str, host_directories: list[str], network_namespace: str = ""
) -> None:
    """Build the root at an existing directory and make it the root of the process. `agent` is a program of the host,
    `host_directories` is what it needs of the host besides. `network_namespace` is a file of the host.
    """
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("root", directory, "tmpfs", 0, "mode=755")
    for name in ("dev", "etc", "proc", "root", "run", "sys", "tmp", "var", "agent", "mnt"):
        os.mkdir(f"{directory}/{name}")
    os.chmod(f"{directory}/tmp", 0o1777)
    os.symlink("/run", f"{directory}/var/run")
    os.mkdir(f"{directory}/var/tmp")
    for name in ("/usr", "/bin", "/sbin", *sorted(entry.path for entry in os.scandir("/") if entry.name[:3] == "lib")):
        _host_directory(directory, name)
    for path in host_directories:
        _bind_host(directory, path)
    for path in ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/mke2fs.conf"):
        if os.path.exists(path):
            _bind_host(directory, path)
    for path, content in _FILES.items():
        with open(directory + path, "w") as file:
            file.write(content)
    _resolv_conf(directory)
    if agent:
        _bind_host(directory, agent, directory + AGENT)
    _make_devices(f"{directory}/dev")
    syscalls.mount("proc", f"{directory}/proc", "proc")
    syscalls.mount("sysfs", f"{directory}/sys", "sysfs")
    _protect_host(directory)
    _make_buses(f"{directory}/sys/bus")
    _make_device_numbers(f"{directory}/sys/dev")
    _mount_cgroups(directory, cgroups)
    if network_namespace:
        os.mkdir(f"{directory}/run/netns")
        with open(directory + POD_NETWORK, "x"):
            pass
        syscalls.mount(network_namespace, directory + POD_NETWORK, flags=syscalls.MS_BIND)
    _enter(directory)


def _host_directory(root: str, path: str) -> None:
    """A directory of programs; with merged directories (/bin is usr/bin) the same symlink."""
    if os.path.islink(path):
        os.symlink(os.readlink(path), root + path)
    elif os.path.isdir(path):
        _bind_host(root, path)


def _bind_host(root: str, path: str, target: str = "") -> None:
    target = target or root + path
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "x"):
            pass
    syscalls.bind_read_only(path, target)


def _resolv_conf(root: str) -> None:
    """As on the host: a VM in the network of a pod can reach the same servers."""
    try:
        with open("/etc/resolv.conf") as file:
            content = file.read()
    except OSError:
        content = ""
    with open(f"{root}/etc/resolv.conf", "w") as file:
        file.write(content)


def _make_devices(dev: str) -> None:
    syscalls.mount("dev", dev, "tmpfs", syscalls.MS_NOSUID, "mode=755")
    os.umask(0)
    for name, (major, minor) in _NODES.items():
        os.mknod(f"{dev}/{name}", stat.S_IFCHR | 0o666, os.makedev(major, minor))
    os.umask(0o022)
    # The kernel is the host's, and its messages are none of the VM's: a reader waits for ever. A link, since a FIFO in
    # this directory stops an agent that looks for the nodes of an assigned device.
    os.mkfifo(f"{dev}/../run/.kmsg", 0o600)
    os.symlink("/run/.kmsg", f"{dev}/kmsg")
    for name, target in _LINKS.items():
        os.symlink(target, f"{dev}/{name}")
    for name in ("pts", "shm", "mapper"):
        os.mkdir(f"{dev}/{name}")
    syscalls.mount("devpts", f"{dev}/pts", "devpts", syscalls.MS_NOSUID, "newinstance,ptmxmode=0666,mode=620")
    syscalls.mount("shm", f"{dev}/shm", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=1777")


def _protect_host(root: str) -> None:
    """Settings of the kernel that have no namespace: a guest must not change the host's."""
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"):
        if not os.path.exists(root + path):
            continue
        substitute = f"{root}/run/.{os.path.basename(path)}"
        with open(substitute, "w"):
            pass
        syscalls.mount(substitute, root + path, flags=syscalls.MS_BIND)


def _make_buses(bus: str) -> None:
    syscalls.mount("bus", bus, "tmpfs", 0, "mode=755")
    for name in ("vmbus", "scsi"):
        os.makedirs(f"{bus}/{name}/devices")


def _make_device_numbers(numbers: str) -> None:
    """/sys/dev: by it a guest finds the nodes of an assigned device. The host's entries are none of the VM's."""
    syscalls.mount("numbers", numbers, "tmpfs", 0, "mode=755")
    for name in ("char", "block"):
        os.mkdir(f"{numbers}/{name}")


def _enter(directory: str) -> None:
    os.chdir(directory)
    syscalls.pivot_root(".", ".")  # the old root is then on top of the new one
    syscalls.unmount(".")
    os.chdir("/")


def _mount_cgroups(root: str, cgroups: Cgroups) -> None:
    """Mount the hierarchies at /sys/fs/cgroup of the guest. The caller is in a new cgroup namespace."""
    target = root + "/sys/fs/cgroup"
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    if cgroups.hierarchies and cgroups.hierarchies[0].version == 2:
        syscalls.mount("cgroup2", target, "cgroup2", flags)
        # Controllers can be enabled for children only in a group without processes.
        os.mkdir(target + "/init")
        write(target + "/init/cgroup.procs", "0")
        enable_controllers(target)
        return
    syscalls.mount("cgroup", target, "tmpfs", flags, "mode=755")
    for hierarchy in cgroups.hierarchies:
        place = os.path.join(target, hierarchy.controllers.removeprefix("name="))
        os.mkdir(place)
        syscalls.mount("cgroup", place, "cgroup", flags, hierarchy.controllers)
