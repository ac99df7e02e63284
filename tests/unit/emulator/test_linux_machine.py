"""Parts of the Linux VM's machine that need no VM: the kernel command line, cgroup hierarchies, the relay's faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from hcs_emulator.service.virtual_machine import cgroups, kernel_arguments
from hcs_emulator.vm.linux.bridge_faults import BridgeFaults
from hcs_emulator.vm.linux.gcs import build

AGENT = "/bin/gcs -v4 -log-format json -loglevel info"


def test_command_line_of_a_shim_is_parsed() -> None:
    line = f" 8250_core.nr_uarts=0 panic=-1 quiet pci=off nr_cpus=2 -- -e 1 /bin/vsockexec -e 109 {AGENT}"
    command = kernel_arguments.parse(line)
    assert command.kernel["panic"] == "-1" and command.kernel["quiet"] is None
    assert command.entropy_port == 1
    assert command.ports == {"stderr": 109}
    assert command.arguments == AGENT.split()
    assert not command.console and not command.writable_overlays


def test_command_line_with_forwarded_stdout_and_overlays_is_parsed() -> None:
    command = kernel_arguments.parse(f"quiet -- -e 1 -w /bin/vsockexec -o 110 -e 109 {AGENT}")
    assert command.writable_overlays
    assert command.ports == {"stdout": 110, "stderr": 109}


def test_command_line_with_a_console_is_parsed() -> None:
    line = f'console=ttyS0,115200 -- -e 1 sh -c "/bin/vsockexec -e 109 {AGENT} -core-dump-location /tmp & exec sh"'
    command = kernel_arguments.parse(line)
    assert command.console
    assert command.arguments == [*AGENT.split(), "-core-dump-location", "/tmp"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        'quiet "',
        f"quiet -- -e 0 /bin/vsockexec -e 109 {AGENT}",
        f"quiet -- -e 4294967296 /bin/vsockexec -e 109 {AGENT}",
        f'quiet -- -e 1 sh -c "/bin/vsockexec -e 109 {AGENT}"',
        "quiet -- -e 1 /bin/vsockexec -e",
        "quiet -- -e 1 /bin/vsockexec -e 109",
        f"-quiet -- -e 1 /bin/vsockexec -e 109 {AGENT}",
    ],
)
def test_command_line_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(kernel_arguments.CommandLineError):
        kernel_arguments.parse(line)


def hierarchies(tmp_path: Path, mounts: str, membership: str) -> list[cgroups.Hierarchy]:
    (tmp_path / "mounts").write_text(mounts.replace("ROOT", str(tmp_path)))
    (tmp_path / "cgroup").write_text(membership)
    return cgroups.host_hierarchies(str(tmp_path / "mounts"), str(tmp_path / "cgroup"))


def test_host_with_both_versions_gives_the_hierarchies_of_version_1(tmp_path: Path) -> None:
    (tmp_path / "cpu" / "own").mkdir(parents=True)
    mounts = "cgroup ROOT/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup ROOT/memory cgroup rw,memory 0 0\n"
    mounts += "cgroup2 ROOT/unified cgroup2 rw 0 0\n"
    found = hierarchies(tmp_path, mounts, "3:memory:/elsewhere\n2:cpu,cpuacct:/own\n0::/\n")
    assert [(entry.controllers, entry.base) for entry in found] == [
        ("cpu,cpuacct", str(tmp_path / "cpu" / "own")),
        ("memory", str(tmp_path / "memory")),  # the service's own group is not visible here
    ]


def test_host_with_version_2_gives_one_hierarchy(tmp_path: Path) -> None:
    found = hierarchies(tmp_path, "cgroup2 ROOT/all cgroup2 rw 0 0\n", "0::/system.slice/service\n")
    assert [(entry.version, entry.base) for entry in found] == [(2, str(tmp_path / "all"))]


def test_version_2_groups_get_every_controller_and_limits(tmp_path: Path) -> None:
    hierarchy = cgroups.Hierarchy("", str(tmp_path), "", 2)
    group = tmp_path / "hcs-emulator" / "vm"
    group.mkdir(parents=True)
    for directory in (tmp_path, group.parent, group):
        (directory / "cgroup.controllers").write_text("cpu memory\n")
        (directory / "cgroup.subtree_control").touch()
    for name in ("memory.max", "cpu.max", "cpu.weight"):
        (group / name).touch()
    groups = cgroups.Cgroups("vm", hierarchies=[hierarchy])
    groups.create()
    groups.set_limits(memory_mb=512, processors=1, limit=50_000, weight=300)
    assert (group / "cgroup.subtree_control").read_text() in ("+cpu", "+memory")
    assert (group / "memory.max").read_text() == str(512 << 20)
    assert (group / "cpu.max").read_text() == "50000 100000"
    assert (group / "cpu.weight").read_text() == "300"


def test_vm_in_a_group_of_the_host_has_its_groups_there(tmp_path: Path) -> None:
    (tmp_path / "memory" / "pods" / "one").mkdir(parents=True)
    (tmp_path / "memory" / "pods" / "one" / "memory.limit_in_bytes").write_text(f"{64 << 20}\n")
    (tmp_path / "pids").mkdir()
    found = [cgroups.Hierarchy(name, str(tmp_path / name), "/", 1) for name in ("memory", "pids")]
    groups = cgroups.Cgroups("vm", "/pods/one", hierarchies=found)
    groups.create()
    assert (tmp_path / "memory" / "pods" / "one" / "hcs-emulator" / "vm").is_dir()
    # A hierarchy without that group has them beside the emulator.
    assert (tmp_path / "pids" / "hcs-emulator" / "vm").is_dir()
    assert groups.memory_allowed() == 64 << 20
    groups.remove()
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_dir()) == ["memory", "one", "pids", "pods"]


@pytest.mark.parametrize("limit", ["max", str(0x7FFFFFFFFFFFF000)])
def test_group_without_a_memory_limit_allows_all(tmp_path: Path, limit: str) -> None:
    name = "memory.max" if limit == "max" else "memory.limit_in_bytes"
    (tmp_path / name).write_text(f"{limit}\n")
    groups = cgroups.Cgroups("vm", hierarchies=[cgroups.Hierarchy("memory", str(tmp_path), "", 1)])
    assert groups.memory_allowed() is None


def test_faults_count_the_requests_of_their_procedure() -> None:
    triggered: list[int] = []
    faults = BridgeFaults(triggered.append)
    second = {"id": 1, "seen": 0, "call": "guest:Create", "nth": 2}
    every = {"id": 2, "seen": 0, "call": "guest:*", "nth": None}
    faults.replace([second])
    assert faults.trigger("Create") == [] and faults.trigger("Start") == []
    faults.replace([second, every])  # the count of the first one goes on
    assert [fault["id"] for fault in faults.trigger("Create")] == [1, 2]
    assert [fault["id"] for fault in faults.trigger("Create")] == [2]
    assert triggered == [1, 2, 2]


def test_guest_agent_without_go_names_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNHCS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match="install Go"):
        build.find_or_build()


def test_failed_build_of_the_guest_agent_shows_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "go").write_text("#!/bin/sh\necho the proxy does not answer >&2\nexit 1\n")
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("RUNHCS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(build.BuildError, match="the proxy does not answer"):
        build.find_or_build()
    assert not build.program().exists()
