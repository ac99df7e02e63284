"""computecore.dll: compute systems."""

from __future__ import annotations

import asyncio
import json

from hcs_emulator.service.compute_system.system import ComputeSystem
from hcs_emulator.service.errors import ERROR_ACCESS_DENIED, HcsError
from hcs_emulator.service.exports.registry import Call, export
from hcs_emulator.service.schema.modify import check_modification
from hcs_emulator.service.schema.queries import (
    CRASH_OPTIONS,
    ENUMERATE_QUERY,
    FORCE_OPTIONS,
    PAUSE_OPTIONS,
    SAVE_OPTIONS,
    property_types,
)
from hcs_emulator.service.schema.shapes import check
from hcs_emulator.service.transport.wire import Reply

GENERIC_ALL = 0x10000000
HCS_E_OPERATION_TIMEOUT = 0x80370118


def require_access(call: Call) -> None:
    if not call.number & GENERIC_ALL:
        raise HcsError(ERROR_ACCESS_DENIED, f"[{call.name}] access 0x{call.number:08X} is not GENERIC_ALL (0x10000000)")


@export("HcsEnumerateComputeSystems")
async def enumerate_systems(call: Call) -> Reply:
    query = call.document("query")
    if query is not None:
        check(ENUMERATE_QUERY, query, call.name, call.host.build)
    return Reply(document=json.dumps(call.host.enumerate(query or {})))


@export("HcsCreateComputeSystem")
async def create_system(call: Call) -> Reply:
    system = call.host.create(call.text("id"), call.document("configuration"))
    handle = call.open(system)
    system.add_handle(handle)
    return Reply(handle=handle.number)


@export("HcsOpenComputeSystem")
async def open_system(call: Call) -> Reply:
    require_access(call)
    system = call.host.find(call.text("id"))
    handle = call.open(system)
    system.add_handle(handle)
    return Reply(handle=handle.number)


@export("HcsCloseComputeSystem")
async def close_system(call: Call) -> Reply:
    return call.close(ComputeSystem)


@export("HcsSetComputeSystemCallback")
async def listen_to_system(call: Call) -> Reply:
    handle, system = call.handle(ComputeSystem)
    # After the reply, so that the library has registered the callback when the first event arrives.
    asyncio.get_running_loop().call_soon(system.listen, handle)
    return Reply()


@export("HcsStartComputeSystem")
async def start_system(call: Call) -> Reply:
    call.options()
    await call.target(ComputeSystem).start()
    return Reply()


@export("HcsShutDownComputeSystem")
async def shut_down_system(call: Call) -> Reply:
    call.options(FORCE_OPTIONS)
    await call.target(ComputeSystem).shutdown()
    return Reply()


@export("HcsTerminateComputeSystem")
async def terminate_system(call: Call) -> Reply:
    call.options()
    await call.target(ComputeSystem).terminate()
    return Reply()


@export("HcsCrashComputeSystem")
async def crash_system(call: Call) -> Reply:
    call.options(CRASH_OPTIONS)
    await call.target(ComputeSystem).crash()
    return Reply()


@export("HcsPauseComputeSystem")
async def pause_system(call: Call) -> Reply:
    call.options(PAUSE_OPTIONS)
    await call.target(ComputeSystem).pause()
    return Reply()


@export("HcsResumeComputeSystem")
async def resume_system(call: Call) -> Reply:
    call.options()
    await call.target(ComputeSystem).resume()
    return Reply()


@export("HcsSaveComputeSystem")
async def save_system(call: Call) -> Reply:
    options = call.options(SAVE_OPTIONS)
    await call.target(ComputeSystem).save(options)
    return Reply()


@export("HcsGetComputeSystemProperties")
async def system_properties(call: Call) -> Reply:
    system = call.target(ComputeSystem)
    types = property_types(call.document("propertyQuery"), call.host.build)
    return Reply(document=json.dumps(system.properties(types)))


@export("HcsModifyComputeSystem")
async def modify_system(call: Call) -> Reply:
    system = call.target(ComputeSystem)
    system.require_alive()
    await system.modify(check_modification(call.document("configuration"), system.system_type, call.host.build))
    return Reply()


@export("HcsWaitForComputeSystemExit", since=20348)
async def wait_for_system(call: Call) -> Reply:
    system = call.target(ComputeSystem)
    if not await system.wait(call.timeout()):
        raise HcsError(HCS_E_OPERATION_TIMEOUT, f"{system.id} has not exited in time")
    return Reply(document=json.dumps(system.exit_status()))
