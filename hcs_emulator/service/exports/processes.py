"""computecore.dll: processes."""

from __future__ import annotations

import asyncio
import json

from hcs_emulator.service.compute_system.process import Process
from hcs_emulator.service.compute_system.system import ComputeSystem
from hcs_emulator.service.errors import ERROR_INVALID_PARAMETER, HcsError
from hcs_emulator.service.exports.registry import Call, export
from hcs_emulator.service.exports.systems import HCS_E_OPERATION_TIMEOUT
from hcs_emulator.service.schema.process import check_modify, check_parameters, check_signal
from hcs_emulator.service.transport.wire import Reply


@export("HcsCreateProcess")
async def create_process(call: Call) -> Reply:
    system = call.target(ComputeSystem)
    system.require_running("create a process")
    process = await system.create_process(check_parameters(call.document("processParameters"), call.host.build))
    handle = call.open(process)
    process.add_handle(handle)
    if "synchronous-create-process" in call.host.options.quirks:
        # The process runs and the handle is valid, but the wait for the operation fails.
        failure = HcsError(ERROR_INVALID_PARAMETER, "the operation completed synchronously")
        return Reply(failure.hresult, handle=handle.number, document=failure.document())
    return Reply(handle=handle.number, pid=process.pid, streams=process.streams())


@export("HcsOpenProcess")
async def open_process(call: Call) -> Reply:
    process = call.target(ComputeSystem).find_process(call.number)
    handle = call.open(process)
    process.add_handle(handle)
    return Reply(handle=handle.number, pid=process.pid)


@export("HcsCloseProcess")
async def close_process(call: Call) -> Reply:
    return call.close(Process)


@export("HcsSetProcessCallback")
async def listen_to_process(call: Call) -> Reply:
    handle, process = call.handle(Process)
    asyncio.get_running_loop().call_soon(process.listen, handle)
    return Reply()


@export("HcsTerminateProcess")
async def terminate_process(call: Call) -> Reply:
    call.document("options")
    call.target(Process).terminate()
    return Reply()


@export("HcsSignalProcess")
async def signal_process(call: Call) -> Reply:
    process = call.target(Process)
    options = call.document("options")
    if options is None:
        process.terminate()
    else:
        process.signal(check_signal(options, call.host.build))
    if "blocking-signal" in call.host.options.quirks:
        await process.wait(None)
    return Reply()


@export("HcsGetProcessInfo")
async def process_info(call: Call) -> Reply:
    process = call.target(Process)
    return Reply(pid=process.pid, streams=process.streams())


@export("HcsGetProcessProperties")
async def process_properties(call: Call) -> Reply:
    return Reply(document=json.dumps(call.target(Process).status()))


@export("HcsModifyProcess")
async def modify_process(call: Call) -> Reply:
    process = call.target(Process)
    request = check_modify(call.document("settings"), call.host.build)
    if request["Operation"] == "ConsoleSize":
        size = request["ConsoleSize"]
        process.resize(size.get("Height", 0), size.get("Width", 0))
    else:
        process.close_streams(request["CloseHandle"]["Handle"])
    return Reply()


@export("HcsWaitForProcessExit", since=20348)
async def wait_for_process(call: Call) -> Reply:
    process = call.target(Process)
    if not await process.wait(call.timeout()):
        raise HcsError(HCS_E_OPERATION_TIMEOUT, f"process {process.pid} has not exited in time")
    return Reply(document=json.dumps(process.status()))
