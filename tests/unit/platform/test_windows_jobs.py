"""Job objects of Windows on fake libraries: limits that stay, the closed handle, silos, stdio pipes, group members."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from shim.platform.job_types import INVALID_HANDLE, INVALID_PARAMETER, JobError, Limits
from shim.platform.windows import _jobs_cffi

PROCESS_IDS, ACCOUNTING, EXTENDED_LIMITS, CREATE_SILO, IO_ATTRIBUTION = 3, 8, 9, 35, 42
JOB_MEMORY, AFFINITY, KILL_ON_CLOSE = 0x200, 0x10, 0x2000
ACCESS_DENIED, E_NOTIMPL = 5, 0x80004001 - (1 << 32)


class Ffi:
    """cffi's, with the members that it has on Windows only."""

    error = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(_jobs_cffi.ffi, name)

    def getwinerror(self) -> tuple[int, str]:
        return self.error, "message"


class Kernel32:
    """Job functions of one job, with the handle 0x10."""

    def __init__(self, ffi: Ffi) -> None:
        self.ffi = ffi
        self.limits = ffi.new("EXTENDED_LIMITS *")
        self.refused: dict[int, int] = {}  # class -> error
        self.silo = False
        self.attributes_io = False
        self.working_sets: dict[int, int] = {}  # pid -> bytes, 0 if it has exited
        self.bind_result = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *_: 1

    def CreateJobObjectW(self, attributes: Any, name: str) -> Any:
        return self.ffi.cast("void *", 0x10)

    def CreateIoCompletionPort(self, *_: Any) -> Any:
        return self.ffi.cast("void *", 0x20)

    def GetQueuedCompletionStatus(self, *_: Any) -> int:
        return 0

    def SetInformationJobObject(self, job: Any, kind: int, information: Any, size: int) -> int:
        assert job == self.ffi.cast("void *", 0x10), "NULL is the job of the calling process"
        if kind in self.refused:
            self.ffi.error = self.refused[kind]
            return 0
        if kind == EXTENDED_LIMITS:
            self.limits[0] = information[0]
        if kind == IO_ATTRIBUTION:
            self.attributes_io = bool(information.ControlFlags & 1)
        self.silo = self.silo or kind == CREATE_SILO
        return 1

    def QueryInformationJobObject(self, job: Any, kind: int, information: Any, size: int, used: Any) -> int:
        assert job == self.ffi.cast("void *", 0x10), "NULL is the job of the calling process"
        if kind == EXTENDED_LIMITS:
            information[0] = self.limits[0]
        if kind == PROCESS_IDS:
            information.Listed = len(self.working_sets)
            for at, pid in enumerate(self.working_sets):
                information.Ids[at] = pid
        if kind == ACCOUNTING:
            information.Io = {"ReadOperations": 1, "ReadBytes": 2, "WriteOperations": 3, "WriteBytes": 4}
        if kind == IO_ATTRIBUTION:
            information.Read, information.Write = {"Count": 11, "Size": 12}, {"Count": 13, "Size": 14}
            return int(self.attributes_io)
        return 1

    def OpenProcess(self, access: int, inherit: int, pid: int) -> Any:
        return self.ffi.cast("void *", pid if self.working_sets[pid] else 0)

    def NtQueryInformationProcess(self, process: Any, kind: int, counters: Any, size: int, used: Any) -> int:
        assert (kind, size) == (3, 112)
        counters.PrivateWorkingSetSize = self.working_sets[int(self.ffi.cast("uintptr_t", process))]
        return 0

    def BfSetupFilter(self, job: Any, *_: Any) -> int:
        return self.bind_result


class Modules:
    """The job modules of Windows, imported on this system."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.winapi: Any = ModuleType("_winapi")
        self.winapi.CloseHandle = lambda raw: None
        self.winapi.Overlapped = object
        self.nt: Any = ModuleType("nt")
        self.nt.__getattr__ = lambda name: 0  # flags
        self.nt.getpid, self.nt.urandom = lambda: 7, bytes
        self.nt.set_handle_inheritable = lambda handle, inheritable: None
        monkeypatch.setitem(sys.modules, "_winapi", self.winapi)
        monkeypatch.setitem(sys.modules, "nt", self.nt)
        import shim.platform.windows as package

        before = set(sys.modules)
        from shim.platform.windows import job, job_library, job_pipes, job_process, job_stats, job_users

        self.job, self.pipes, self.users = job, job_pipes, job_users
        self._package, self._added = package, [name for name in sys.modules if name not in before]
        self.ffi = Ffi()
        self.kernel32 = Kernel32(self.ffi)
        for module in (job, job_library, job_process, job_stats, job_users):
            monkeypatch.setattr(module, "ffi", self.ffi)
            monkeypatch.setattr(module, "library", lambda name: self.kernel32)
        monkeypatch.setattr(job, "run_soon", lambda function, *arguments: None)  # no messages of the job
        monkeypatch.setattr(job, "administrators_only", lambda: 0x5D)
        monkeypatch.setattr(job_pipes, "administrators_only", lambda: 0x5D)

    def forget(self) -> None:
        """They were imported with fakes: nothing else may use them."""
        for name in self._added:
            del sys.modules[name]
            if hasattr(self._package, name.rpartition(".")[2]):
                delattr(self._package, name.rpartition(".")[2])


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[Modules]:
    modules = Modules(monkeypatch)
    yield modules
    modules.forget()


def test_memory_update_keeps_other_limits(modules: Modules) -> None:
    job = modules.job.Job("c1")
    limits = modules.kernel32.limits
    assert limits.Basic.LimitFlags == KILL_ON_CLOSE
    limits.Basic.LimitFlags |= AFFINITY
    limits.Basic.Affinity = 3
    job.set_limits(Limits(memory=1 << 30))
    assert limits.Basic.LimitFlags == KILL_ON_CLOSE | AFFINITY | JOB_MEMORY
    assert (limits.Basic.Affinity, limits.JobMemory) == (3, 1 << 30)
    job.set_limits(Limits())
    assert limits.Basic.LimitFlags == KILL_ON_CLOSE | AFFINITY


@pytest.mark.parametrize(("attributed", "expected"), [(True, [11, 12, 13, 14]), (False, [1, 2, 3, 4])])
def test_storage_statistics(modules: Modules, attributed: bool, expected: list[int]) -> None:
    """I/O of the disks on behalf of the job; without attribution, the counters of its processes."""
    if not attributed:
        modules.kernel32.refused[IO_ATTRIBUTION] = INVALID_PARAMETER
    storage = modules.job.Job("c1").statistics()["Storage"]
    names = ("ReadCountNormalized", "ReadSizeBytes", "WriteCountNormalized", "WriteSizeBytes")
    assert [storage[name] for name in names] == expected


def test_private_working_set_is_summed_by_process(modules: Modules) -> None:
    job = modules.job.Job("c1")
    modules.kernel32.working_sets = {100: 5, 104: 0, 108: 7}
    assert job.statistics()["Memory"]["MemoryUsagePrivateWorkingSetBytes"] == 12


def test_closed_job_is_not_used(modules: Modules) -> None:
    job = modules.job.Job("c1")
    job.close()
    job.close()
    for use in (
        job.statistics, job.process_list, job.terminate,
        lambda: job.signal_all("CtrlC"), lambda: job.wait_empty(0), lambda: job.set_limits(Limits(memory=1)),
        lambda: job.set_affinity([(1, 0)]),
    ):  # fmt: skip
        with pytest.raises(JobError) as caught:
            use()
        assert caught.value.code == INVALID_HANDLE


def test_job_without_bind_filter_is_no_silo(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules.job.os.path, "exists", lambda path: False)
    assert not modules.job.Job("c1").can_bind and not modules.kernel32.silo


def test_job_with_bind_filter_is_a_silo(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules.job.os.path, "exists", lambda path: path.endswith("bindfltapi.dll"))
    assert modules.job.Job("c1").can_bind and modules.kernel32.silo


def test_silo_that_cannot_be_created_is_an_error(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules.job.os.path, "exists", lambda path: path.endswith("bindfltapi.dll"))
    modules.kernel32.refused[CREATE_SILO] = ACCESS_DENIED
    with pytest.raises(JobError, match="silo") as caught:
        modules.job.Job("c1")
    assert caught.value.code == ACCESS_DENIED
    modules.kernel32.bind_result = E_NOTIMPL  # Wine's
    assert not modules.job.Job("c1").can_bind


def test_stdio_pipes_are_for_administrators_only(modules: Modules) -> None:
    created: list[tuple[Any, ...]] = []
    modules.winapi.CreateNamedPipe = lambda *arguments: created.append(arguments) or 1
    modules.winapi.CreateFile = lambda *_: 2
    modules.winapi.ConnectNamedPipe = lambda *_, **__: SimpleNamespace(GetOverlappedResult=lambda wait: None)
    assert modules.pipes.create(True) == (1, 2)
    assert created[0][-1] == 0x5D, "the default descriptor lets every user read from the pipe"


class Netapi32:
    """Users and members of groups; an account of the domain has the name of each new user."""

    def __init__(self, ffi: Ffi, refused: int = 0) -> None:
        self.ffi = ffi
        self.refused = refused
        self.users: list[str] = []
        self.comments: dict[str, str] = {}
        self.members: list[tuple[str, int]] = []
        self._kept: list[Any] = []

    def NetUserAdd(self, server: Any, level: int, info: Any, wrong: Any) -> int:
        self.users.append(self.ffi.string(info.Name))
        self.comments[self.users[-1]] = self.ffi.string(info.Comment)
        return 0

    def NetUserGetInfo(self, server: Any, name: str, level: int, buffer: Any) -> int:
        if name not in self.users:
            return 2221
        if level == 1:
            text = self.ffi.new("char16_t[]", self.comments[name])
            info = self.ffi.new("USER_INFO *", {"Comment": text})
            self._kept.append(text)
        else:
            assert level == 23
            info = self.ffi.new("USER_SID *", {"Sid": self.ffi.cast("void *", 0x51D)})
        self._kept.append(info)
        buffer[0] = info
        return 0

    def NetLocalGroupAddMembers(self, server: Any, group: str, level: int, members: Any, count: int) -> int:
        assert (level, count) == (0, 1), "level 3 is a name, which may be another account's"
        self.members.append((group, int(self.ffi.cast("uintptr_t", members.Sid))))
        return self.refused

    def NetApiBufferFree(self, buffer: Any) -> int:
        return 0

    def NetUserDel(self, server: Any, name: str) -> int:
        self.users.remove(name)
        return 0


def test_group_member_is_added_by_sid(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = Netapi32(modules.ffi)
    monkeypatch.setattr(modules.users, "library", lambda name: accounts)
    assert len(modules.users._create_user("c1", "Operators")) > 20
    assert accounts.users == ["c1"] and accounts.members == [("Operators", 0x51D)]


def test_user_that_cannot_join_the_group_is_removed(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = Netapi32(modules.ffi, refused=1387)
    monkeypatch.setattr(modules.users, "library", lambda name: accounts)
    with pytest.raises(JobError, match="Operators") as caught:
        modules.users._create_user("c1", "Operators")
    assert caught.value.code == 1387 and accounts.users == []


CRI_ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("id", "comment", "removed"),
    [
        (CRI_ID, "", True),  # of Microsoft's shim
        (CRI_ID, "the night shift", False),
        (CRI_ID.upper(), "", False),
        ("administrator", "", False),
        ("c" * 30, "", False),
        ("alice", "containerd-shim-runhcs-v1: user of container alice", True),
        ("a-container-of-ctr-01", "containerd-shim-runhcs-v1: user of container a-container-of-ctr-02", False),
    ],
)
def test_user_of_a_container_is_removed_only_if_recognised(
    modules: Modules, monkeypatch: pytest.MonkeyPatch, id: str, comment: str, removed: bool
) -> None:
    accounts = Netapi32(modules.ffi)
    monkeypatch.setattr(modules.users, "library", lambda name: accounts)
    accounts.users, accounts.comments = [id[:20]], {id[:20]: comment}
    modules.users.remove_container_user(id)
    assert accounts.users == ([] if removed else [id[:20]])
    modules.users.remove_container_user("unknown")


def test_created_user_is_recognised(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = Netapi32(modules.ffi)
    monkeypatch.setattr(modules.users, "library", lambda name: accounts)
    for container in ("web", CRI_ID):
        modules.users._create_user(container, "Operators")
        assert accounts.users == [container[:20]]
        modules.users.remove_container_user(container)
        assert accounts.users == []
