"""A standalone container in a utility VM, through a real shim: stdio, exits, signals, execs, stats, updates."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.api.runhcs_stats import Statistics
from shim.hcs_bindings import network, service
from shim.oci.annotations.vm import DUMP_DIRECTORY
from shim.ttrpc import status
from tests.support.bindings import create_endpoint, reset_libraries, use
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.fifo_reader import Reader
from tests.support.shims import Shims, refused
from tests.support.vm_image import SLEEP, VmShims, fifo, options


def test_container_runs_and_reports_exit(vms: VmShims) -> None:
    stdout, stderr = fifo(vms, "out"), fifo(vms, "err")
    out, err = Reader(stdout), Reader(stderr)
    shim = vms.run("c1", "cmd", "/c", "echo hello & echo oops>&2 & exit 7", stdout=stdout, stderr=stderr)
    assert shim.wait().exit_status == 7
    answer = shim.delete()
    assert answer.exit_status == 7 and answer.pid > 0
    assert out.text().split() == ["hello"] and err.text().split() == ["oops"]
    vms.events.expect(["create c1", "start c1", "exit c1", "delete c1"])
    eventually(lambda: not vms.leaked(), "no leaked resource of the VM")
    shim.shutdown()
    shim.wait_exited()


def test_vm_writes_its_dump_into_the_dump_directory(vms: VmShims, emulator: Emulator) -> None:
    """The worker process of a VM has only the rights that the VM group was granted."""
    dumps = vms.directory / "dumps"
    dumps.mkdir(mode=0o700)
    shim = vms.start("c1", *SLEEP, annotations={DUMP_DIRECTORY: str(dumps)})
    vms.create(shim)
    shim.start()
    emulator.fault("HcsGetComputeSystemProperties", crash_vm=True)
    shim.stats()
    shim.wait()
    assert [path.name for path in dumps.iterdir()] == ["c1@vm-windows-crash"]


def test_container_address_is_published_while_it_exists(vms: VmShims, emulator: Emulator) -> None:
    shim = vms.start("c1", "sleep", "600")
    vms.create(shim)
    (address,) = (emulator.directory / "hvsock-addresses").iterdir()

    def reported() -> set[str]:
        """The guest journals an answer after it has sent it."""
        answers = [entry["answer"] for entry in emulator.journal() if "SystemGUID" in str(entry.get("answer", ""))]
        return {answer["Properties"]["SystemGUID"] for answer in answers}

    eventually(lambda: reported() == {address.name}, f"the id of {address.name} in the journal")
    assert (emulator.directory / "hvsock" / address.read_text()).is_dir(), "the VM's runtime id"
    shim.start()
    shim.kill(9)
    shim.wait()
    shim.delete()
    eventually(lambda: not address.exists(), "the entry's removal")


def test_stdin_reaches_process_and_closes(vms: VmShims) -> None:
    stdin, stdout = fifo(vms, "in"), fifo(vms, "out")
    out = Reader(stdout)
    shim = vms.start("c1", "cat")
    writer = os.open(stdin, os.O_RDWR)
    vms.create(shim, stdin=stdin, stdout=stdout)
    shim.start()
    sent = b"".join(b"line %d\n" % number for number in range(20000))
    threading.Thread(target=_send, args=(writer, sent), daemon=True).start()
    assert shim.wait().exit_status == 0
    assert out.text() == sent.decode()
    shim.delete()


def _send(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.close(descriptor)


def test_close_io_closes_stdin(vms: VmShims) -> None:
    stdin, stdout = fifo(vms, "in"), fifo(vms, "out")
    out = Reader(stdout)
    shim = vms.start("c1", "cat")
    writer = os.open(stdin, os.O_RDWR)
    vms.create(shim, stdin=stdin, stdout=stdout)
    shim.start()
    os.write(writer, b"last words")
    shim.close_io()
    assert shim.wait().exit_status == 0
    assert out.text() == "last words"
    os.close(writer)
    shim.delete()


def test_terminal_and_resize(vms: VmShims) -> None:
    stdin, stdout = fifo(vms, "in"), fifo(vms, "out")
    out = Reader(stdout)
    shim = vms.start("c1", "sh", "-c", "read line; stty size; echo got $line")
    writer = os.open(stdin, os.O_RDWR)
    vms.create(shim, stdin=stdin, stdout=stdout, terminal=True)
    shim.start()
    shim.resize(width=132, height=43)
    os.write(writer, b"words\n")
    assert shim.wait().exit_status == 0
    assert "43 132" in out.text() and "got words" in out.text()
    os.close(writer)
    shim.delete()


def test_execs_run_and_exit(vms: VmShims) -> None:
    shim = vms.run("c1", *SLEEP)
    stdout = fifo(vms, "out")
    out = Reader(stdout)
    shim.exec("e1", vms.shims.process("cmd", "/c", "echo from exec & exit 3"), stdout=stdout)
    pid = shim.start("e1")
    assert shim.wait("e1").exit_status == 3
    assert out.text().split() == ["from", "exec"]
    assert shim.state("e1").pid == pid
    assert shim.delete("e1").exit_status == 3
    shim.exec("e2", vms.shims.process(*SLEEP))
    shim.start("e2")
    shim.kill(9)
    assert shim.wait("e2").exit_status != 0  # it went with its container
    assert shim.wait().exit_status != 0
    shim.delete()
    eventually(lambda: "exit c1" in vms.events.received("c1"), "the container's exit event")
    events = vms.events.received("c1")
    assert events.index("exit e2") < events.index("exit c1")


@pytest.mark.parametrize("signal", [9, 15, 2])
def test_signals_terminate_init(vms: VmShims, signal: int) -> None:
    shim = vms.run("c1", *SLEEP)
    refused(status.FAILED_PRECONDITION, shim.kill, 3)
    shim.kill(signal)
    shim.wait()
    refused(status.NOT_FOUND, shim.kill, signal)
    shim.delete()


def test_kill_before_start(vms: VmShims) -> None:
    shim = vms.start("c1", *SLEEP)
    vms.create(shim)
    shim.kill(15)
    assert shim.wait().exit_status == 1
    shim.delete()
    vms.events.expect(["create c1", "exit c1", "delete c1"])
    eventually(lambda: not vms.leaked(), "no leaked resource of the VM")


def test_stats_of_container_and_vm(vms: VmShims) -> None:
    shim = vms.run("c1", *SLEEP)
    assert shim.state().pid in [process.pid for process in shim.pids()]
    answer = shim.stats()
    assert answer is not None and answer.type_url == Statistics.FULL_NAME
    statistics = Statistics.decode(answer.value)
    assert statistics.windows is not None and statistics.windows.memory is not None
    assert statistics.vm is not None and statistics.vm.memory is not None
    assert statistics.vm.memory.vm_memory is not None
    assert statistics.vm.memory.vm_memory.assigned_memory == 1024 * 256
    assert 0 < statistics.vm.memory.working_set_bytes <= 1 << 30
    refused(status.UNIMPLEMENTED, shim.pause)
    shim.kill(9)
    shim.wait()
    shim.delete()


def test_update_changes_vm(vms: VmShims) -> None:
    shim = vms.run("c1", *SLEEP)
    shim.update({"memory": {"limit": 2047 << 20}, "cpu": {"maximum": 5000, "shares": 300}})
    changes = vms.documents("HcsModifyComputeSystem")[-2:]
    assert changes == [
        {"ResourcePath": "VirtualMachine/ComputeTopology/Memory/SizeInMB", "RequestType": "Update", "Settings": 2048},
        {
            "ResourcePath": "VirtualMachine/ComputeTopology/Processor/Limits",
            "RequestType": "Update",
            "Settings": {"Limit": 5000, "Weight": 300},
        },
    ]
    refused(status.UNKNOWN, shim.update, {"cpu": {"shares": 20000}})
    shim.kill(9)
    shim.wait()
    shim.delete()


def test_mounts_are_shared_with_vm(vms: VmShims) -> None:
    data = vms.directory / "data"
    data.mkdir()
    (data / "a.txt").write_text("directory")
    (data / "b.txt").write_text("file")
    mounts = [
        {"destination": "C:\\data", "source": str(data), "options": ["ro"]},
        {"destination": "C:\\b.txt", "source": str(data / "b.txt")},
        {"destination": "C:\\pod", "source": "sandbox:///shared"},
    ]
    stdout = fifo(vms, "out")
    out = Reader(stdout)
    script = "cat /data/a.txt /b.txt; echo x > /data/c 2>/dev/null || echo refused; echo y > /pod/z && cat /pod/z"
    shim = vms.run("c1", "sh", "-c", script, members={"mounts": mounts}, stdout=stdout)
    assert shim.wait().exit_status == 0
    assert out.text() == "directoryfilerefused\ny\n"
    shim.delete()


def test_unsupported_specs_are_refused(vms: VmShims) -> None:
    shim = vms.start("c1", *SLEEP, annotations={"io.microsoft.virtualmachine.wcow.securitypolicy": "e30="})
    assert "confidential" in refused(status.UNIMPLEMENTED, vms.create, shim)
    os.rename(vms.layers[1] / "UtilityVM", vms.layers[1] / "other")
    shim = vms.start("c2", *SLEEP)
    assert "UtilityVM" in refused(status.UNKNOWN, vms.create, shim)
    assert not vms.leaked()


def test_boot_timeout(vms: VmShims) -> None:
    vms.shims.env["HCSSHIM_TIMEOUT_GCSCONNECTION"] = "1"
    vms.emulator.fault("HcsStartComputeSystem", delay=3)
    shim = vms.start("c1", *SLEEP)
    refused(status.DEADLINE_EXCEEDED, vms.create, shim)
    eventually(lambda: not vms.leaked(), "no leaked resource of the VM")


def test_shim_crash_leaks_nothing(vms: VmShims) -> None:
    shim = vms.run("c1", *SLEEP)
    assert len(vms.workers()) == 1
    shim.kill_daemon()
    shim.delete_command()
    assert not vms.leaked()
    assert Path(vms.scratch("c1") / "vm" / "sandbox.vhdx").exists()  # the snapshot's, and goes with it


def test_options_reach_vm_document(vms: VmShims) -> None:
    shim = vms.start("c1", *SLEEP)
    vms.create(shim, options=options(vm_processor_count=1, vm_memory_size_in_mb=2049))
    (created,) = vms.documents("HcsCreateComputeSystem")
    topology = created["VirtualMachine"]["ComputeTopology"]
    assert topology["Memory"]["SizeInMB"] == 2050 and topology["Processor"] == {"Count": 1}


def test_drivers_are_installed_in_vm(vms: VmShims) -> None:
    drivers = vms.directory / "drivers"
    shim = vms.start("c1", *SLEEP, annotations={"io.microsoft.virtualmachine.kerneldrivers": str(drivers)})
    assert "does not exist" in refused(status.UNKNOWN, vms.create, shim)
    drivers.mkdir()
    shim = vms.start("c2", *SLEEP, annotations={"io.microsoft.virtualmachine.kerneldrivers": str(drivers)})
    # The emulator's VMs have no such tool; only the command line is checked.
    assert "pnputil" in refused(status.UNKNOWN, vms.create, shim)
    (entry,) = eventually(lambda: vms.emulator.journal("guest:ExecuteProcess"), "the journal's entry")
    line = entry["arguments"]["Settings"]["ProcessParameters"]["CommandLine"]
    assert line.endswith("\\s1/*.inf /subdirs /install") and "pnputil.exe /add-driver" in line
    eventually(lambda: not vms.leaked(), "no leaked resource of the VM")


def test_writable_share_is_refused_if_disabled(vms: VmShims) -> None:
    forbidden = {"io.microsoft.virtualmachine.fileshares.disablewritable": "true"}
    mount = {"destination": "C:\\data", "source": str(vms.directory)}
    shim = vms.start("c1", *SLEEP, annotations=forbidden, mounts=[mount])
    assert "disablewritable" in refused(status.UNKNOWN, vms.create, shim)
    shim = vms.start("c2", *SLEEP, annotations=forbidden, mounts=[{**mount, "options": ["ro"]}])
    vms.create(shim)


def test_limits_are_scaled_to_vm(vms: VmShims) -> None:
    spec = vms.spec(*SLEEP, annotations={"io.microsoft.virtualmachine.computetopology.processor.count": "1"})
    spec["windows"]["resources"] = {"cpu": {"maximum": 2500}}
    shim = vms.shims.start("c1", spec)
    vms.create(shim, options=options(scale_cpu_limits_to_sandbox=True))
    eventually(lambda: len(vms.emulator.journal("guest:Create")) == 2, "the entries of VM and container")
    created = vms.emulator.journal("guest:Create")[1]
    limits = created["arguments"]["ContainerConfig"]["Container"]["Processor"]
    assert limits == {"Maximum": min(2500 * (os.cpu_count() or 1), 10_000)}


@pytest.mark.parametrize("crash", [False, True])
def test_created_namespace_is_removed_with_container(
    vms: VmShims, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, crash: bool
) -> None:
    use(vms.emulator, monkeypatch, tmp_path_factory.mktemp("hcs"))
    endpoint = create_endpoint()
    spec = vms.spec(*SLEEP)
    spec["windows"]["network"] = {"endpointList": [endpoint]}
    shim = vms.shims.start("c1", spec)
    vms.create(shim)
    shim.start()
    (namespace,) = network.namespaces()
    assert network.namespace_endpoints(namespace) == [endpoint]
    changes = vms.documents("HcsModifyComputeSystem")
    assert [change for change in changes if change["Settings"].get("EndpointId") == endpoint]
    if crash:
        shim.kill_daemon()
        shim.delete_command()
    else:
        shim.kill(9)
        shim.wait()
        shim.delete()
    assert network.namespaces() == [] and network.endpoints() == [endpoint]
    assert not vms.leaked()
    reset_libraries()


def test_gmsa_uses_hvsocket_service(
    vms: VmShims, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    use(vms.emulator, monkeypatch, tmp_path_factory.mktemp("hcs"))
    spec = vms.spec(*SLEEP)
    spec["windows"]["credentialSpec"] = '{"CmsPlugins":["ActiveDirectory"]}'
    shim = vms.shims.start("c1", spec)
    vms.create(shim)
    eventually(lambda: len(vms.emulator.journal("guest:Create")) == 2, "the entries of VM and container")
    container = vms.emulator.journal("guest:Create")[1]["arguments"]["ContainerConfig"]["Container"]
    assert container["ContainerCredentialGuard"]["Transport"] == "HvSocket"
    paths = [change["ResourcePath"] for change in vms.documents("HcsModifyComputeSystem")]
    assert len([path for path in paths if "/ServiceTable/" in path]) == 1
    shim.kill(9)
    shim.wait()
    shim.delete()
    (guard,) = service.properties("ContainerCredentialGuard")
    assert not guard.get("Instances")
    reset_libraries()


def test_every_vm_setting_is_accepted_by_hcs(start_emulator: Callable[..., Emulator]) -> None:
    """The documents of a VM with every annotation pass the strict validation of the emulated HCS."""
    emulator = start_emulator("--build", "26100")
    shims = Shims(emulator.env)
    vms = VmShims(emulator, shims)
    prefix, topology = "io.microsoft.virtualmachine.", "io.microsoft.virtualmachine.computetopology."
    value = {"Key": {"Hive": "Software", "Name": "x"}, "Name": "n", "Type": "DWord", "DWordValue": 1}
    annotations = {
        f"{topology}processor.count": "1",
        f"{topology}processor.limit": "50000",
        f"{topology}processor.weight": "200",
        f"{topology}memory.sizeinmb": "2048",
        f"{topology}memory.lowmmiogapinmb": "64",
        f"{topology}memory.highmmiobaseinmb": "4096",
        f"{topology}memory.highmmiogapinmb": "256",
        f"{topology}numa.mapped-physical-nodes": "0",
        f"{topology}numa.count-of-processors": "1",
        f"{topology}numa.count-of-memory-blocks": "2048",
        f"{prefix}fullyphysicallybacked": "true",
        f"{prefix}storageqos.iopsmaximum": "777",
        f"{prefix}storageqos.bandwidthmaximum": "888",
        f"{prefix}resource-partition-id": "a8b1c9d0-1111-4222-8333-444455556666",
        f"{prefix}console.pipe": "\\\\.\\pipe\\con",
        f"{prefix}dump-directory-path": str(vms.directory),
        f"{prefix}hv-socket.service-table.9e3f1c77-0000-4b3a-8a5e-0c1d2e3f4a5b": '{"AllowWildcardBinds":true}',
        f"{prefix}wcow.additional-reg-keys": json.dumps([value]),
        f"{prefix}wcow.timezone.noinherit": "true",
        "io.microsoft.container.processdumplocation": "C:\\dumps\\{container_id}",
    }
    try:
        shim = vms.run("c1", *SLEEP, members={"annotations": annotations})
        shim.kill(9)
        shim.wait()
        shim.delete()
        # Shares that are not mapped directly are removed with the container.
        changes = vms.documents("HcsModifyComputeSystem")
        shares = [change["RequestType"] for change in changes if change["ResourcePath"].endswith("/Shares")]
        assert shares == ["Add", "Add", "Remove", "Remove"]
    finally:
        shims.close()
