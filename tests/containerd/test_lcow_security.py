"""The security settings of a Linux spec are enforced in the container: capabilities, seccomp, masked and read-only
paths, no new privileges, users and groups, namespaces. An unprivileged container gets no more than it requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shim.oci.annotations.container import HOST_PROCESS, HOST_PROCESS_INHERIT_USER
from tests.containerd.lcow import GUESTS, LinuxNode
from tests.containerd.node import Node
from tests.support.linux_spec import CAPABILITY_MASK

PRIVILEGED = "io.microsoft.virtualmachine.lcow.privileged"

pytestmark = pytest.mark.parametrize(
    ("version", "guest"), [("1.6", "emulated"), ("1.7", "gcs"), *(("2.3", guest) for guest in GUESTS)]
)


@pytest.fixture
def linux(node: Node, guest: str) -> LinuxNode:
    return LinuxNode(node, guest)


def status(text: str) -> dict[str, str]:
    """Fields of /proc/self/status."""
    return {line.split(":")[0]: line.split(":")[1].strip() for line in text.splitlines() if ":" in line}


def test_default_capabilities_and_no_new_privileges(linux: LinuxNode) -> None:
    fields = status(linux.output("cat", "/proc/self/status"))
    assert fields["CapEff"] == fields["CapPrm"] == fields["CapBnd"] == CAPABILITY_MASK
    assert fields["NoNewPrivs"] == "1" and fields["Seccomp"] == "0"


def test_dropped_capabilities_are_missing(linux: LinuxNode) -> None:
    script = "cat /proc/self/status; chown 1 /tmp 2>/dev/null || echo chown: refused"
    text = linux.output("sh", "-c", script, flags=("--cap-drop", "CAP_CHOWN", "--cap-drop", "CAP_NET_RAW"))
    assert int(status(text)["CapEff"], 16) == int(CAPABILITY_MASK, 16) & ~(1 << 0 | 1 << 13)
    assert "refused" in text


def test_mount_needs_its_capability(linux: LinuxNode) -> None:
    script = "mount -t tmpfs none /tmp && echo mounted || echo refused"
    assert "refused" in linux.output("sh", "-c", script)
    assert "mounted" in linux.output("sh", "-c", script, flags=("--cap-add", "CAP_SYS_ADMIN"))


def test_seccomp_profile_is_applied(linux: LinuxNode, tmp_path: Path) -> None:
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}],
    }
    (tmp_path / "profile.json").write_text(json.dumps(profile))
    script = "grep Seccomp: /proc/self/status; mkdir /tmp/new 2>/dev/null && echo made || echo refused"
    assert linux.output("sh", "-c", script).split() == ["Seccomp:", "0", "made"]
    flags = ("--seccomp", "--seccomp-profile", str(tmp_path / "profile.json"))
    assert linux.output("sh", "-c", script, flags=flags).split() == ["Seccomp:", "2", "refused"]


def test_masked_and_read_only_paths(linux: LinuxNode) -> None:
    script = (
        "head -c 1 /proc/kcore | wc -c; ls /sys/firmware | wc -l; "
        "echo 1 > /proc/sys/kernel/domainname 2>/dev/null && echo written || echo read-only; "
        "touch /sys/kernel/new 2>/dev/null && echo written || echo read-only"
    )
    result = linux.output("sh", "-c", script + " 2>/dev/null")
    assert result.split() == ["0", "0", "read-only", "read-only"]


def test_users_and_supplementary_groups(linux: LinuxNode) -> None:
    user = {"uid": 1234, "gid": 4321, "additionalGids": [29, 999]}
    script = "grep -E '^(Uid|Gid|Groups|CapEff)' /proc/self/status; cat /root/x 2>&1; touch /new 2>&1 || echo refused"
    result = linux.run_spec("sh", "-c", script, process={"user": user})
    fields = status(result.stdout)
    assert fields["Uid"].split() == ["1234"] * 4 and fields["Gid"].split() == ["4321"] * 4, result.stderr
    assert set(fields["Groups"].split()) >= {"29", "999"}
    assert fields["CapEff"].strip("0") == ""  # root's capabilities are lost with its user
    assert "refused" in result.stdout


def test_devices_are_those_of_the_spec(linux: LinuxNode) -> None:
    """The container has the usual devices and no disk; one it makes itself cannot be opened."""
    script = (
        "ls /dev | grep -c -E '^(sd|pmem|loop|vd)'; head -c 1 /dev/zero | wc -c; "
        "mknod /tmp/disk b 7 0 && head -c 1 /tmp/disk >/dev/null 2>&1 && echo opened || echo refused"
    )
    assert linux.run_spec("sh", "-c", script).stdout.split() == ["0", "1", "refused"]


def test_resource_limits_of_the_process(linux: LinuxNode) -> None:
    limits = [{"type": "RLIMIT_NOFILE", "hard": 777, "soft": 555}, {"type": "RLIMIT_CORE", "hard": 0, "soft": 0}]
    result = linux.run_spec("sh", "-c", "ulimit -Sn; ulimit -Hn; ulimit -c", process={"rlimits": limits})
    assert result.stdout.split() == ["555", "777", "0"], result.stderr


def test_host_process_annotations_have_no_effect(linux: LinuxNode, tmp_path: Path) -> None:
    """Only a Windows spec can be a host process container."""
    annotations = {HOST_PROCESS: "true", HOST_PROCESS_INHERIT_USER: "true"}
    script = f"readlink /proc/self/ns/pid; ls {tmp_path} 2>/dev/null || echo absent"
    result = linux.run_spec("sh", "-c", script, annotations=annotations)
    namespace, absent = result.stdout.split()
    assert absent == "absent" and namespace != str(Path("/proc/self/ns/pid").readlink()), result.stderr


def test_privileged_annotation_drops_seccomp_and_keeps_capabilities(linux: LinuxNode) -> None:
    """Capabilities stay those of the spec. Devices of the VM are for workloads of pods."""
    seccomp = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"}]}
    shown = []
    for given in ({}, {PRIVILEGED: "true"}):
        result = linux.run_spec("cat", "/proc/self/status", annotations=given, linux={"seccomp": seccomp})
        fields = status(result.stdout)
        shown.append((fields["CapEff"], fields["Seccomp"]))
    assert shown == [(CAPABILITY_MASK, "2"), (CAPABILITY_MASK, "0")]


def test_privileged_and_device_flags_of_ctr(linux: LinuxNode) -> None:
    """ctr lists the host's devices. The guest's own are used, and the usual ones can be opened."""
    script = "grep CapEff /proc/self/status; mount -t tmpfs x /tmp && echo mounted; echo x > /dev/null && echo opened"
    mask, mounted, opened = linux.output("sh", "-c", script, flags=("--privileged",)).splitlines()
    assert int(mask.split()[1], 16) > int(CAPABILITY_MASK, 16) and (mounted, opened) == ("mounted", "opened")
    assert linux.output("sh", "-c", "echo x > /dev/null && echo opened", flags=("--device", "/dev/null")) == "opened\n"
