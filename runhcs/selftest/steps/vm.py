"""A hypervisor-isolated container."""

from __future__ import annotations

import os

from runhcs.selftest.runner import Context, Step, StepFailed, StepSkipped
from runhcs.selftest.scenarios import process, run_to_exit, windows_spec
from runhcs.selftest.shim_driver import ShimDriver
from shim.api.runhcs_options import Options
from shim.api.wellknown import Any as PackedAny
from shim.ttrpc.status import StatusError

# Codes of HCS and of the hypervisor for a machine that cannot run VMs.
NO_HYPERVISOR = ("0x80370102", "0xC0351000", "0x80370114")


def vm(context: Context) -> str:
    node = context.node
    base = node.image()[-1]
    if not os.path.isdir(os.path.join(base, "UtilityVM")):
        raise StepSkipped(f"{base} has no UtilityVM directory", "give the layers of an image with a utility VM")
    values = Options(sandbox_isolation=Options.SandboxIsolation.HYPERVISOR, sandbox_platform="windows/amd64")
    options = PackedAny(type_url=Options.FULL_NAME, value=values.encode())
    spec = windows_spec("echo in a VM& ping -n 600 127.0.0.1 > nul")
    spec["windows"]["hyperv"] = {}
    shim = ShimDriver(context, node.new_id("vm"), spec)
    out = shim.output()
    try:
        task = shim.create(options=options, stdout=out.path)
    except StatusError as error:
        if any(code.lower() in str(error).lower() for code in NO_HYPERVISOR):
            raise StepSkipped(f"this machine runs no VMs: {error}", "Install-WindowsFeature Hyper-V; restart") from None
        raise StepFailed(f"Create failed: {error}") from None
    task.start()
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
    task.kill(9)
    task.wait()
    task.delete()
    shim.shutdown()
    context.details["output"] = out.text().strip()
    if out.text().strip() != "in a VM" or code != 7:
        raise StepFailed(f"the container printed {out.text()!r}, and an exec of `exit 7` exited with {code}")
    if status == 0 and len(received) != 1024:
        raise StepFailed(f"of 1024 lines on stdin {len(received)} reached a process in the VM")
    return "output, exit status, and 1 MB of stdin of processes in a VM"


STEPS = [Step("vm", "a container in a utility VM runs: output, stdin and its end, exec", vm, 240.0)]
