"""Hypervisor-isolated containers: processes, Hyper-V sockets, dumps."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import uuid
from pathlib import Path

from runhcs.selftest.runner import Context, Step, StepFailed, StepSkipped
from runhcs.selftest.scenarios import process, run_to_exit, windows_spec
from runhcs.selftest.shim_driver import Output, ShimDriver
from runhcs.shim_driver import wait_until
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any as PackedAny
from shim.hcs_bindings.errors import PROCEDURE_NOT_FOUND, HcsError
from shim.hcs_bindings.system import ComputeSystem
from shim.oci.annotations.vm import DUMP_DIRECTORY
from shim.platform import host, hvsocket
from shim.ttrpc.status import StatusError

# Codes of HCS and of the hypervisor for a machine that cannot run VMs.
NO_HYPERVISOR = ("0x80370102", "0xC0351000", "0x80370114")
CONNECT_SECONDS = 10.0
CRASH_SECONDS = 60.0
# A full dump of the memory of the VM.
DUMP_SECONDS = 120.0
# FILE_ALL_ACCESS, as Windows stores GENERIC_ALL.
FULL, GENERIC_ALL = 0x1F01FF, 0x10000000


def _create(context: Context, kind: str, annotations: dict[str, str] | None = None) -> tuple[ShimDriver, Output]:
    """A running container in a utility VM, and its output. Raises StepSkipped if this machine runs no VMs."""
    node = context.node
    base = node.image()[-1]
    if not os.path.isdir(os.path.join(base, "UtilityVM")):
        raise StepSkipped(f"{base} has no UtilityVM directory", "give the layers of an image with a utility VM")
    values = Options(sandbox_isolation=Options.SandboxIsolation.HYPERVISOR, sandbox_platform="windows/amd64")
    options = PackedAny(type_url=Options.FULL_NAME, value=values.encode())
    spec = windows_spec("echo in a VM& ping -n 600 127.0.0.1 > nul")
    spec["windows"]["hyperv"] = {}
    spec["annotations"] = annotations or {}
    shim = ShimDriver(context, node.new_id(kind), spec)
    out = shim.output()
    try:
        task = shim.create(options=options, stdout=out.path)
    except StatusError as error:
        if any(code.lower() in str(error).lower() for code in NO_HYPERVISOR):
            raise StepSkipped(f"this machine runs no VMs: {error}", "Install-WindowsFeature Hyper-V; restart") from None
        raise StepFailed(f"Create failed: {error}") from None
    task.start()
    return shim, out


def _end(shim: ShimDriver) -> None:
    task = shim.client
    task.kill(9)
    task.wait()
    task.delete()
    shim.shutdown()


def _vm_of(shim: ShimDriver) -> dict[str, str]:
    """The properties of the utility VM in HCS."""
    found = [
        one for one in ComputeSystem.enumerate()
        if one.get("SystemType") == "VirtualMachine" and str(one["Id"]).startswith(shim.id)
    ]  # fmt: skip
    if len(found) != 1:
        raise StepFailed(f"HCS lists {len(found)} utility VMs of {shim.id}", "see the log of containerd")
    return {name: str(value) for name, value in found[0].items()}


def vm(context: Context) -> str:
    shim, out = _create(context, "vm")
    task = shim.client
    given, copied = shim.input(), shim.output()
    task.exec("copy", process('findstr "x"'), stdin=given.path, stdout=copied.path)
    task.start("copy")
    sent = b"".join(b"%06d %s\r\n" % (number, b"x" * 1015) for number in range(1024))
    given.write(sent)
    given.close()
    task.close_io("copy")
    status = task.wait("copy").exit_status
    received = copied.text().splitlines()
    task.delete("copy")
    task.exec("exit", process("exit 7"))
    code = run_to_exit(task, "exit")
    task.delete("exit")
    _end(shim)
    context.details["output"] = out.text().strip()
    if out.text().strip() != "in a VM" or code != 7:
        raise StepFailed(f"the container printed {out.text()!r}, and an exec of `exit 7` exited with {code}")
    if status == 0 and len(received) != 1024:
        raise StepFailed(f"of 1024 lines on stdin {len(received)} reached a process in the VM")
    return "output, exit status, and 1 MB of stdin of processes in a VM"


def sockets(context: Context) -> str:
    """An entry for a container in the driver of Hyper-V sockets, and a connection to a service that does not exist."""
    shim, _ = _create(context, "vm-sockets")
    machine = _vm_of(shim)["RuntimeId"]
    context.details["VM"] = machine
    try:
        hvsocket.AddressInfo(str(uuid.uuid4()), machine.lower()).close()
    except OSError as error:
        step = "the Hyper-V socket driver is a part of Hyper-V: reinstall the feature"
        raise StepFailed(f"the address of a container cannot be published: {error}", step) from None
    refusal = "" if host.IS_EMULATED else _connect(machine)
    context.details["connection to a missing service"] = refusal
    _end(shim)
    return "an address can be published" + ("" if not refusal else f"; a connection to a missing service: {refusal}")


def _connect(machine: str) -> str:
    """How the connection to a service of the VM fails that nobody offers."""
    from shim.platform.windows.hvsocket import AF_HYPERV, HV_PROTOCOL_RAW

    try:
        client = socket.socket(AF_HYPERV, socket.SOCK_STREAM, HV_PROTOCOL_RAW)
    except OSError as error:
        code = getattr(error, "winerror", None) or error.errno
        raise StepFailed(f"this system has no Hyper-V sockets (error {code})", "reinstall Hyper-V") from None
    with client:
        client.settimeout(CONNECT_SECONDS)
        try:
            client.connect((machine, str(uuid.uuid4())))
        except TimeoutError:
            raise StepFailed(f"a connection to a missing service does not end within {CONNECT_SECONDS:.0f} s") from None
        except OSError as error:
            return f"{error.strerror or error} ({getattr(error, 'winerror', None) or error.errno})"
    raise StepFailed("a connection to a service that nobody offers was accepted")


def dumps(context: Context) -> str:
    """A VM that crashes writes its dump into the directory of the annotation, to which the shim gives access."""
    directory = context.node.directory / "dumps"
    directory.mkdir(exist_ok=True)
    context.on_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))
    shim, _ = _create(context, "vm-dumps", {str(DUMP_DIRECTORY): str(directory)})
    has_access = _vm_group_has_access(context, directory)
    try:
        with ComputeSystem.open(_vm_of(shim)["Id"]) as machine:
            machine.crash(timeout=CRASH_SECONDS)
    except HcsError as error:
        context.details["crash"] = str(error)
        if error.code == PROCEDURE_NOT_FOUND:
            raise StepSkipped("this build of Windows has no HcsCrashComputeSystem") from None
        raise StepFailed(f"the VM cannot be crashed: {error}") from None
    status = shim.client.wait().exit_status
    found = wait_until(lambda: any(path.stat().st_size for path in directory.glob("*windows-crash*")), DUMP_SECONDS)
    context.details["files"] = {path.name: path.stat().st_size for path in sorted(directory.iterdir())}
    shim.client.delete()
    shim.shutdown()
    if not found:
        raise StepFailed(f"a VM that crashed left no dump in {directory}", "see the log of the VM worker process")
    if not has_access:
        raise StepFailed(f"the VM group has no inherited full access to {directory}", "see `icacls` of the directory")
    return f"the container exited with {status}; {', '.join(context.details['files'])}"


def _vm_group_has_access(context: Context, directory: Path) -> bool:
    if host.IS_EMULATED:
        context.details["access"] = stat.filemode(directory.stat().st_mode)
        return bool(directory.stat().st_mode & stat.S_IWOTH)
    from runhcs.selftest.windows import vm_group_entries

    entries = vm_group_entries(directory)
    context.details["access"] = [f"flags {flags:#x}, rights {rights:#x}" for flags, rights in entries]
    return any(flags & 3 == 3 and (rights & FULL == FULL or rights & GENERIC_ALL) for flags, rights in entries)


STEPS = [
    Step("vm", "a container in a utility VM runs: output, stdin and its end, exec", vm, 240.0),
    Step("vm-sockets", "Hyper-V sockets of containers can be published, and a missing service refuses", sockets, 240.0),
    Step("vm-dumps", "a VM that crashes writes its dump into the directory of the annotation", dumps, 240.0),
]
