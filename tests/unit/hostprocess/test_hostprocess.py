"""Host process containers: root directory, command lines, identity, limits, structures of Windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shim.hostprocess import identity, limits, mounts, paths
from shim.oci.annotations.container import HOST_PROCESS, HOST_PROCESS_INHERIT_USER, HOST_PROCESS_ROOT
from shim.oci.errors import InvalidSpec
from shim.oci.section import Section
from shim.oci.spec import Spec
from shim.platform import command_line, jobs
from shim.platform.job_types import ACCOUNT, INHERIT, MEMBER, SERVICE, Identity, Limits
from shim.platform.linux import job_mounts, job_process
from shim.platform.linux.job_cgroups import Groups
from shim.platform.windows._jobs_cffi import ffi

ROOT = Path(__file__).resolve().parents[3]


def spec(annotations: dict[str, str] | None = None, **members: Any) -> Spec:
    return Spec(
        {
            "process": {"args": ["cmd"], **members.pop("process", {})},
            "windows": members.pop("section", {}),
            "annotations": {HOST_PROCESS: "true", **(annotations or {})},
            **members,
        }
    )


class TestRootDirectory:
    @pytest.mark.parametrize(
        ("given", "bound", "mounted"),
        [
            ("", "C:\\hpc\\", "C:\\hpc\\c1\\"),
            ("D:\\x", "D:\\x\\", "D:\\x\\c1\\"),
            ("D:\\x\\", "D:\\x\\", "D:\\x\\c1\\"),
            ("d:/x/y", "d:\\x\\y\\", "d:\\x\\y\\c1\\"),
        ],
    )
    def test_root_directory(self, given: str, bound: str, mounted: str) -> None:
        given_spec = spec({HOST_PROCESS_ROOT: given} if given else {})
        assert paths.root(given_spec, "c1", True) == bound
        assert paths.root(given_spec, "c1", False) == mounted

    @pytest.mark.parametrize("given", ["x", "C:", "C:\\", "C:x", "C:\\Windows", "c:\\WINDOWS\\x", "C:\\a\\..\\b"])
    def test_invalid_root_directories_are_refused(self, given: str) -> None:
        with pytest.raises(InvalidSpec, match="rootfs-location"):
            paths.root(spec({HOST_PROCESS_ROOT: given}), "c1", True)

    @pytest.mark.parametrize(
        ("text", "expanded"),
        [
            ("%CONTAINER_SANDBOX_MOUNT_POINT%\\a.exe", "C:\\hpc\\a.exe"),
            ("$env:CONTAINER_SANDBOX_MOUNT_POINT/a.ps1", "C:\\hpc/a.ps1"),
            ("%PATH% CONTAINER_SANDBOX_MOUNT_POINT", "%PATH% CONTAINER_SANDBOX_MOUNT_POINT"),
        ],
    )
    def test_mount_point_variable_is_expanded(self, text: str, expanded: str) -> None:
        assert paths.expand(text, "C:\\hpc\\") == expanded

    def test_path_below_root(self) -> None:
        assert paths.below("C:\\hpc\\c1\\", "C:\\var/run\\x") == "C:\\hpc\\c1\\var\\run\\x"
        assert paths.below("/b/rootfs/", "C:\\var\\run") == "/b/rootfs/var/run"
        assert paths.is_below("c:/HPC", "C:\\hpc\\") and paths.is_below("C:\\hpc\\x", "C:\\hpc\\")
        assert not paths.is_below("C:\\hpc2", "C:\\hpc\\")

    @pytest.mark.parametrize(
        ("path", "source", "parts"),
        [
            ("C:\\hpc\\kube-proxy", "\\\\?\\Volume{x}", ["kube-proxy"]),
            ("c:\\HPC/a/b/", "\\\\?\\Volume{x}", ["a", "b"]),
            ("C:\\hpc\\data\\x", "D:\\data", ["x"]),
            ("C:\\data", None, None),
        ],
    )
    def test_innermost_mount_and_its_source(self, path: str, source: str | None, parts: list[str] | None) -> None:
        bound = [
            mounts.HostMount("\\\\?\\Volume{x}", "C:\\hpc\\", False),
            mounts.HostMount("D:\\data", "C:\\hpc\\data", False),
        ]
        found = mounts.innermost(bound, path)
        assert (found and found.source) == source
        assert (found and found.parts_below(path)) == parts

    @pytest.mark.parametrize("destination", ["C:\\..\\x", "C:\\data\\..\\..\\x", "C:/data/../x"])
    def test_mount_destination_with_parent_directory_is_refused(self, destination: str) -> None:
        spec = Spec({"windows": {}, "mounts": [{"source": "/", "destination": destination}]})
        with pytest.raises(InvalidSpec, match="destination"):
            mounts.from_spec(spec)

    def test_root_directory_on_emulator(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HCS_EMULATOR_DIR", "/e")
        assert job_mounts.posix("C:\\a\\b\\") == "/a/b"
        assert job_mounts.posix("\\\\?\\C:\\a") == "/a"
        assert job_mounts.posix("/a/b\\c") == "/a/b\\c"
        assert job_mounts.posix("\\\\?\\Volume{ABC}\\x\\y") == "/e/volumes/abc/x/y"


class TestCommands:
    @pytest.mark.parametrize(
        ("line", "through"),
        [
            ("app.exe /x", "cmd /c app.exe /x"),
            ('"C:\\my app.exe" "a b"', 'cmd /s /c ""C:\\my app.exe" "a b""'),
            ("cmd /c dir", "cmd /c dir"),
            ("CMD.EXE /c dir", "CMD.EXE /c dir"),
            ('"C:\\Windows\\System32\\cmd.exe" /c x', '"C:\\Windows\\System32\\cmd.exe" /c x'),
            ("cmdlet x", "cmd /c cmdlet x"),
        ],
    )
    def test_command_line_is_run_by_cmd(self, line: str, through: str) -> None:
        assert paths.through_shell(line) == through

    @pytest.mark.parametrize(
        ("line", "programs", "arguments", "tail"),
        [
            ("a b c", ["a", "a b", "a b c"], ["a", "b", "c"], "b c"),
            ('"a b" c', ["a b"], ["a b", "c"], "c"),
            ('a "x y" \\"q\\" z\\\\', None, ["a", "x y", '"q"', "z\\\\"], '"x y" \\"q\\" z\\\\'),
            ('a "b""c"', None, ["a", 'b"c'], '"b""c"'),
            ("", [], [""], ""),
        ],
    )
    def test_program_candidates_of_command_line(
        self, line: str, programs: list[str] | None, arguments: list[str], tail: str
    ) -> None:
        if programs is not None:
            assert command_line.programs(line) == programs
        assert command_line.arguments(line) == arguments
        assert command_line.tail(line) == tail

    @pytest.mark.parametrize(
        ("line", "found"),
        [
            ("tool x", "C:\\hpc\\c1\\tool.cmd"),
            ("TOOL.CMD", ""),
            ("where.exe", "C:\\win\\where.exe"),
            ("C:\\Program Files\\app.exe /x", "C:\\Program Files\\app.exe"),
            ("sub\\inner", "C:\\hpc\\c1\\sub\\inner.exe"),
            ("nothing", ""),
        ],
    )
    def test_find_program_without_bind_filter(self, line: str, found: str) -> None:
        there = {
            "C:\\hpc\\c1\\tool.cmd", "C:\\win\\where.exe", "C:\\Program Files\\app.exe", "C:\\hpc\\c1\\sub\\inner.exe",
        }  # fmt: skip
        candidates = command_line.programs(line)
        search = ["C:\\win\\", "C:\\hpc\\c1\\"]
        assert paths.find_program(candidates, "C:\\hpc\\c1", search, there.__contains__) == found

    def test_environment_merges_case_insensitively(self) -> None:
        own = {"Path": "C:\\win", "USERNAME": "SYSTEM", "TEMP": "C:\\t"}
        given = {"PATH": "C:\\mine", "username": "me", "X": "%CONTAINER_SANDBOX_MOUNT_POINT%\\x"}
        made = paths.environment(own, given, "C:\\hpc\\")
        assert made == {
            "TEMP": "C:\\t", "username": "me", "X": "C:\\hpc\\x", "CONTAINER_SANDBOX_MOUNT_POINT": "C:\\hpc\\",
            "PATH": "C:\\mine:/hpc",  # on this host
        }  # fmt: skip

    def test_path_variable_is_extended(self) -> None:
        extended = jobs.extend_path("C:\\a;C:\\b;", "C:\\hpc\\").split(";")
        assert extended[:3] == ["C:\\a", "C:\\b", "C:\\hpc\\"] and extended[-1].endswith("Wbem")


class TestIdentity:
    @pytest.mark.parametrize(
        ("user", "expected"),
        [
            ("NT AUTHORITY\\SYSTEM", Identity(SERVICE, "SYSTEM", "NT AUTHORITY")),
            ("nt authority\\Local Service", Identity(SERVICE, "Local Service", "nt authority")),
            ("system", Identity(SERVICE, "system", "NT AUTHORITY")),
            ("Operators", Identity(MEMBER, "Operators", ".", "0123456789abcdef0123456789abcdef")),
            ("BUILTIN\\Operators", Identity(MEMBER, "Operators", ".", "0123456789abcdef0123456789abcdef")),
            ("corp\\Operators", Identity(ACCOUNT, "Operators", "corp")),
            ("me", Identity(ACCOUNT, "me", ".")),
        ],
    )
    def test_identity_of_user_names(self, user: str, expected: Identity) -> None:
        given_spec = spec(process={"user": {"username": user}})
        name_of_it = "0123456789abcdef0123456789abcdef"
        found = identity.from_spec(given_spec, name_of_it, lambda name: name == "Operators")
        assert found == expected
        assert found.user == ("0123456789abcdef0123" if found.kind == MEMBER else "")

    def test_identity_inherits_shim_user(self) -> None:
        given_spec = spec({HOST_PROCESS_INHERIT_USER: "true"}, process={"user": {"username": "me"}})
        assert identity.from_spec(given_spec, "c1", lambda name: False) == Identity(INHERIT)
        given_spec = spec({HOST_PROCESS_INHERIT_USER: "True"}, process={"user": {"username": "me"}})
        assert identity.from_spec(given_spec, "c1", lambda name: False) == Identity(ACCOUNT, "me", ".")

    @pytest.mark.parametrize("user", ["", "NT AUTHORITY\\Someone"])
    def test_missing_or_unknown_user_is_refused(self, user: str) -> None:
        with pytest.raises(InvalidSpec, match=r"process\.user\.username"):
            identity.from_spec(spec(process={"user": {"username": user}}), "c1", lambda name: False)

    def test_exec_with_other_user_is_refused(self) -> None:
        own = Section({"user": {"username": "System"}}, "process")
        identity.check_exec(Section({"user": {"username": "SYSTEM"}}, "process"), own)
        identity.check_exec(Section({}, "process"), own)
        with pytest.raises(InvalidSpec, match="leave it out"):
            identity.check_exec(Section({"user": {"username": "me"}}, "process"), own)


class TestLimits:
    @pytest.mark.parametrize(
        ("resources", "expected"),
        [
            ({}, Limits()),
            ({"cpu": {"count": 2}}, Limits(rate=2500)),
            ({"cpu": {"count": 99}}, Limits(rate=10_000)),
            ({"cpu": {"maximum": 1}}, Limits(rate=1)),
            ({"cpu": {"shares": 1}}, Limits(weight=1)),
            ({"cpu": {"shares": 5000}}, Limits(weight=5)),
            ({"cpu": {"shares": 10_000}}, Limits(weight=9)),
            ({"cpu": {"shares": 10_001}}, Limits(weight=9)),
            ({"memory": {"limit": (64 << 20) + 5}}, Limits(memory=64 << 20)),
            ({"storage": {"iops": 7, "bps": 9}}, Limits(iops=7, bandwidth=9)),
        ],
    )
    def test_limits_from_spec(self, resources: dict[str, Any], expected: Limits) -> None:
        assert limits.from_spec(spec(section={"resources": resources}), 8, lambda sentence: None) == expected

    def test_limits_that_exclude_each_other_are_refused_in_microsofts_words(self) -> None:
        resources = {"cpu": {"count": 1, "maximum": 100}}
        with pytest.raises(InvalidSpec, match=r"^failed to convert OCI spec to job object limits: invalid spec - "):
            limits.from_spec(spec(section={"resources": resources}), 8, lambda sentence: None)

    @pytest.mark.parametrize(
        ("cpu", "words"),
        [
            ({"maximum": 10_001}, "processor rate of `10001` is invalid"),
            ({"shares": 20_000}, "processor weight value of `17` is invalid"),
        ],
    )
    def test_processor_limit_that_no_job_takes_is_refused_in_microsofts_words(
        self, cpu: dict[str, int], words: str
    ) -> None:
        with pytest.raises(InvalidSpec) as refused:
            limits.from_spec(spec(section={"resources": {"cpu": cpu}}), 8, lambda sentence: None)
        assert refused.value.message.startswith(
            f"failed to set resource limits: failed to set job object cpu limit: {words}"
        )

    def test_update_replaces_other_processor_limit(self) -> None:
        bounds = Limits(weight=3, memory=5)
        limits.set_processor(bounds, {"Count": 1}, 4)
        assert bounds == Limits(rate=2500, memory=5)
        limits.set_processor(bounds, {"Weight": 10_000}, 4)
        assert bounds == Limits(weight=9, memory=5)

    def test_unenforced_limits_are_listed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shim.platform.linux.job_cgroups._hierarchies", lambda: ({}, ""))
        groups = Groups("c1")
        assert groups.set_limits(Limits(rate=5, memory=5, iops=5), []) == ["memory", "rate", "iops"]
        assert not groups.add(1) and groups.paths() == [] and groups.new_oom_kills() == 0


def test_cgroup_names_are_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.platform.linux.job_cgroups._hierarchies", lambda: ({"pids": "/p"}, ""))
    names = [Groups(one).paths()[0] for one in ("a/b", "a.b", "a.2f.b", "..", "x" * 300, "x" * 301)]
    assert len(set(names)) == len(names)
    assert all("/../" not in name and not name.endswith("/..") for name in names)


def test_exit_codes_of_signals() -> None:
    assert job_process.exit_code(0, 70000) == 70000
    assert job_process.exit_code(9, 0) == job_process.TERMINATED
    assert job_process.exit_code(11, 0) == 0xC0000005
    assert job_process.exit_code(15, 0) == 0xC000013A


@pytest.mark.parametrize(
    ("struct", "size", "offsets"),
    [
        ("BASIC_LIMITS", 64, {"LimitFlags": 16, "ActiveProcessLimit": 40, "Affinity": 48}),
        ("EXTENDED_LIMITS", 144, {"Io": 64, "ProcessMemory": 112, "JobMemory": 120, "PeakJobMemory": 136}),
        ("BASIC_ACCOUNTING", 48, {"PageFaults": 32, "ActiveProcesses": 40}),
        ("ACCOUNTING", 96, {"Io": 48}),
        ("STARTUP", 112, {"Flags": 60, "StdInput": 80, "Attributes": 104}),
        ("PROCESS_INFO", 24, {"ProcessId": 16}),
        ("GROUP_MASK", 16, {"Group": 8}),
        ("IO_RATE", 40, {"Volume": 24, "Flags": 36}),
        ("IO_ATTRIBUTION", 72, {"Read": 8, "Write": 40}),
        ("VM_COUNTERS", 112, {"WorkingSetSize": 32, "PrivateUsage": 88, "PrivateWorkingSetSize": 96}),
        ("USER_SID", 40, {"Flags": 24, "Sid": 32}),
        ("GROUP_MEMBER", 8, {"Sid": 0}),
        ("USER_INFO", 56, {"PasswordAge": 16, "HomeDirectory": 24, "Flags": 40, "ScriptPath": 48}),
        (
            "SYSTEM_PROCESS_INFORMATION",
            208,
            {"CreateTime": 32, "ImageName": 56, "ProcessId": 80, "ParentId": 88, "WorkingSetSize": 144,
             "PagefileUsage": 184, "PrivatePageCount": 200},
        ),
    ],
)  # fmt: skip
def test_job_structures_have_windows_layout(struct: str, size: int, offsets: dict[str, int]) -> None:
    assert ffi.sizeof(struct) == size
    for field, offset in offsets.items():
        assert ffi.offsetof(struct, field) == offset
