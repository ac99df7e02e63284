"""Diagnostics of a shim with a Linux VM: programs, shares and stacks of the VM; many workloads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from shim.api import shimdiag
from shim.ttrpc import status
from tests.support.fifo_reader import Reader
from tests.support.linux_shims import SLEEP, LinuxShims
from tests.support.shims import Shim, refused

SERVICE = "containerd.runhcs.v1.diag.ShimDiag"


@pytest.fixture
def pod(lcow: LinuxShims) -> Shim:
    return lcow.pod()


def run(lcow: LinuxShims, pod: Shim, *args: str) -> tuple[int, str]:
    """A program of the VM itself: its exit code and what it wrote."""
    stdout = lcow.fifo(f"diag-{len(list(lcow.directory.glob('diag-*')))}")
    out = Reader(stdout)
    request = shimdiag.ExecProcessRequest(args=list(args), workdir="/", stdout=stdout)
    answer = pod.client.call(SERVICE, "DiagExecInHost", request.encode(), timeout=60)
    return shimdiag.ExecProcessResponse.decode(answer).exit_code, out.text()


def test_program_runs_in_the_vm(lcow: LinuxShims, pod: Shim) -> None:
    code, text = run(lcow, pod, "sh", "-c", "ls /run/gcs/c; exit 4")
    assert (code, text) == (4, "pod\n")


def test_directory_is_shared_with_the_vm(lcow: LinuxShims, pod: Shim) -> None:
    directory = lcow.directory / "shared"
    directory.mkdir()
    (directory / "file").write_text("of the host")
    for path in ("shared", "C:\\shared"):
        request = shimdiag.ShareRequest(host_path=str(directory), uvm_path=path)
        refused(status.INVALID_ARGUMENT, pod.client.call, SERVICE, "DiagShare", request.encode(), 60)
    request = shimdiag.ShareRequest(host_path=str(directory), uvm_path="/run/shared", read_only=True)
    pod.client.call(SERVICE, "DiagShare", request.encode(), timeout=60)
    assert run(lcow, pod, "cat", "/run/shared/file") == (0, "of the host")
    assert run(lcow, pod, "touch", "/run/shared/new")[0] != 0


def test_workloads_that_are_created_at_once_do_not_disturb_each_other(lcow: LinuxShims, pod: Shim) -> None:
    names = [f"c{number}" for number in range(6)]
    shims = [lcow.workload(pod, name, *SLEEP) for name in names]
    for name in names:
        lcow.rootfs(name)

    def life(shim: Shim) -> int:
        lcow.create(shim)
        shim.start()
        shim.kill(9)
        code = shim.wait().exit_status
        shim.delete()
        return int(code)

    with ThreadPoolExecutor(len(shims)) as pool:
        assert list(pool.map(life, shims)) == [137] * len(shims)
    assert lcow.failures() == []
    listed = run(lcow, pod, "sh", "-c", "ls /run/gcs/c; ls /run/mounts/scsi 2>/dev/null || true")
    assert listed == (0, "pod\n")
