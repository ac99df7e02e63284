"""The native library: connect, lost connections, start of the service, forks, many clients."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hcs_emulator.service.transport.server import Client, Reply, Request
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.scripted_service import (
    DISCONNECT,
    E_INVALID_HANDLE,
    GENERIC_ALL,
    NOT_AVAILABLE,
    OPERATION,
    ROOT,
    Library,
    error_message,
    ffi,
    scripted_service,
)

# The start of a client program; the test appends the rest.
CLIENT = "from tests.support.scripted_service import *\nlib = Library()\ndocument = ffi.new('PWSTR *')\n"


def start_client(directory: Path, program: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "HCS_EMULATOR_DIR": str(directory)}
    command = [sys.executable, "-c", CLIENT + program]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True)


def run_client(directory: Path, program: str) -> str:
    client = start_client(directory, program)
    output, _ = client.communicate(timeout=60)
    assert client.returncode == 0
    return output


def test_pending_calls_fail_when_the_connection_is_lost(tmp_path: Path, lib: Library) -> None:
    async def never(client: Client, request: Request) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    with scripted_service(tmp_path) as service:
        for call in ("HcsStartComputeSystem", "HcsGetServiceProperties", "HcsCreateComputeSystem"):
            service.handlers[call] = never
        system, created = lib.open(), ffi.new("HCS_SYSTEM *")
        results: list[tuple[int, str | None]] = []

        def ask() -> None:
            document = ffi.new("PWSTR *")
            results.append((lib.HcsGetServiceProperties(None, document), lib.take(document)))

        with lib.operation() as start, lib.operation() as create:
            assert lib.HcsStartComputeSystem(system, start, None) == 0
            assert lib.HcsCreateComputeSystem("a", "{}", create, None, created) == 0
            asker = threading.Thread(target=ask)
            asker.start()
            eventually(lambda: len(service.requests) == 4)
            service.disconnect_all()
            results += [lib.result(start), lib.result(create)]
            asker.join(60)
            assert lib.HcsStartComputeSystem(created[0], start, None) == DISCONNECT
        assert [code for code, _ in results] == [DISCONNECT] * 3
        assert all("service.log" in error_message(document) for _, document in results)
        del service.handlers["HcsGetServiceProperties"]
        assert lib.HcsGetServiceProperties(None, None) == 0, "the next call connects anew"
        assert lib.HcsOpenComputeSystem("a", GENERIC_ALL, created) == 0
        lib.HcsCloseComputeSystem(created[0])


def test_replaced_service_is_used_for_new_calls(tmp_path: Path, lib: Library) -> None:
    for name in ("one", "two", "three"):
        with scripted_service(tmp_path / name) as service:
            assert lib.HcsGetServiceProperties(None, None) == 0, "at once, even if the loss was not noticed yet"
            assert service.names() == ["HcsGetServiceProperties"]


def test_invalid_frame_from_the_service_closes_the_connection(tmp_path: Path, lib: Library) -> None:
    def garbage(client: Client, request: Request) -> Reply:
        client._socket.send(b"\xff" * 64)
        return Reply()

    with scripted_service(tmp_path) as service:
        service.handlers["HcsGetServiceProperties"] = garbage
        assert lib.HcsGetServiceProperties(None, None) == DISCONNECT
        eventually(lambda: not service.server.clients)


def test_unusable_directory_is_reported(tmp_path: Path, lib: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    document = ffi.new("PWSTR *")
    for directory, message in ((tmp_path / "no" / "parent", "cannot make"), (tmp_path / ("x" * 120), "too long")):
        monkeypatch.setenv("HCS_EMULATOR_DIR", str(directory))
        assert lib.HcsGetServiceProperties(None, document) == NOT_AVAILABLE
        assert message in error_message(lib.take(document))
        with lib.operation() as operation:
            assert lib.HcsEnumerateComputeSystems(None, operation) == NOT_AVAILABLE
            assert message in error_message(lib.result_now(operation)[1])


def test_missing_launcher_is_reported(tmp_path: Path) -> None:
    program = """
import shutil
alone = os.path.join(os.environ["HCS_EMULATOR_DIR"], "libcomputecore.so")
shutil.copy(lib.path, alone)
lib.raw = ffi.dlopen(alone)
print(hex(lib.HcsGetServiceProperties(None, document)), error_message(lib.take(document)))
"""
    output = run_client(tmp_path, program)
    assert output.startswith(hex(NOT_AVAILABLE))
    assert "runhcs emulator start" in output


def launcher(directory: Path, script: str) -> str:
    """Create a copy of the library beside a launcher script; returns the Python lines that load it."""
    directory.mkdir()
    (directory / "hcs-emulator-service").write_text(script)
    (directory / "hcs-emulator-service").chmod(0o755)
    copy = directory / "libcomputecore.so"
    copy.write_bytes(Library().path.read_bytes())
    return f"lib.raw = ffi.dlopen({str(copy)!r})\n"


def test_failed_start_of_the_service_is_reported(tmp_path: Path) -> None:
    program = launcher(tmp_path / "library", "#!/bin/sh\necho no wheels >&2\nexit 1\n")
    program += "print(hex(lib.HcsGetServiceProperties(None, document)), error_message(lib.take(document)))"
    (tmp_path / "run").mkdir()
    output = run_client(tmp_path / "run", program)
    assert output.startswith(hex(NOT_AVAILABLE))
    assert str(tmp_path / "run" / "service.log") in output
    assert (tmp_path / "run" / "service.log").read_text() == "no wheels\n"


SERVICE = """
import asyncio, os, sys
sys.path.insert(0, {root!r})
from hcs_emulator.service.transport.server import Reply, serve
class One:
    async def call(self, client, request):
        return Reply(document=str(os.getpid()))
    def disconnected(self, client):
        pass
async def main():
    server = await serve(os.path.join(sys.argv[2], "hcs.sock"), One())
    with open(os.path.join(sys.argv[2], "started"), "a") as file:
        opened = [os.path.realpath("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd")]
        print(os.getpid(), os.getppid(), os.getsid(0), opened, file=file)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_service_is_started_on_demand_once(tmp_path: Path) -> None:
    """Many clients find no service: one is started, detached from all of them, and serves them all."""
    script = tmp_path / "service.py"
    script.write_text(SERVICE.format(root=str(ROOT)))
    program = launcher(tmp_path / "library", f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    program += f"os.set_inheritable(os.open({str(script)!r}, 0), True)\n"
    program += "assert lib.HcsGetServiceProperties(None, document) == 0\nprint(lib.take(document), os.getsid(0))"
    run = tmp_path / "run"
    run.mkdir()
    clients = [start_client(run, program) for _ in range(8)]
    outputs = [client.communicate(timeout=60)[0].split() for client in clients]
    pid = int(outputs[0][0])
    try:
        assert [client.returncode for client in clients] == [0] * 8
        assert {int(output[0]) for output in outputs} == {pid}
        lines = (run / "started").read_text().splitlines()
        assert len(lines) == 1
        served, parent, session, opened = lines[0].split(maxsplit=3)
        assert int(served) == pid
        assert int(parent) not in {client.pid for client in clients}
        assert session not in {output[1] for output in outputs}
        assert str(run / "service.log") in opened
        assert str(script) not in opened, "the client's descriptors are not the service's"
    finally:
        os.kill(pid, signal.SIGKILL)


def test_forked_child_has_a_connection_of_its_own(tmp_path: Path) -> None:
    program = f"""
system = lib.open("parent")
child = os.fork()
if child == 0:
    code = lib.run("HcsStartComputeSystem", system, OPERATION, None)[0]
    own = lib.open("child")
    stale = lib.run("HcsStartComputeSystem", system, OPERATION, None)[0]
    lib.HcsCloseComputeSystem(own)
    ok = code == stale == {E_INVALID_HANDLE} and lib.run("HcsEnumerateComputeSystems", None, OPERATION)[0] == 0
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert lib.run("HcsStartComputeSystem", system, OPERATION, None) == (0, None)
"""
    with scripted_service(tmp_path) as service:
        pids: list[int] = []
        service.handlers["HcsEnumerateComputeSystems"] = lambda client, request: pids.append(client.pid) or Reply()
        service.handlers["HcsStartComputeSystem"] = lambda client, request: pids.append(client.pid) or Reply()
        run_client(tmp_path, program)
        child, parent = pids
        assert child != parent
        eventually(lambda: sorted(client.pid for client in service.disconnected_clients) == sorted(pids))


def test_forked_child_does_not_keep_the_parent_connected(tmp_path: Path) -> None:
    program = """
lib.open()
ready, other = os.pipe()
if os.fork() == 0:
    os.close(other)
    print(os.getpid(), flush=True)
    os.close(1)
    import signal
    signal.pause()
os._exit(0)
"""
    with scripted_service(tmp_path) as service:
        forked = int(run_client(tmp_path, program))
        try:
            eventually(lambda: service.disconnected_clients)
        finally:
            os.kill(forked, signal.SIGKILL)


def test_client_death_during_a_call_is_noticed(tmp_path: Path, lib: Library) -> None:
    with scripted_service(tmp_path) as service:
        going_on = asyncio.Event()

        async def slow(client: Client, request: Request) -> Reply:
            await going_on.wait()
            return Reply(handle=33)

        service.handlers["HcsCreateComputeSystem"] = slow
        program = """
out = ffi.new("HCS_SYSTEM *")
assert lib.HcsCreateComputeSystem("a", "{}", lib.HcsCreateOperation(None, None), None, out) == 0
import signal
signal.pause()
"""
        client = start_client(tmp_path, program)
        eventually(lambda: service.requests)
        client.kill()
        client.communicate()
        eventually(lambda: len(service.disconnected_clients) == 1)
        assert lib.run("HcsEnumerateComputeSystems", None, OPERATION) == (0, None), "others do not notice"
        service.do(going_on.set)
        # Reported again, because the late response opened a handle.
        eventually(lambda: len(service.disconnected_clients) == 2)
        assert service.disconnected_clients[0] is service.disconnected_clients[1]


def test_hundred_client_processes_are_served(tmp_path: Path) -> None:
    """Concurrent processes, each with a connection of its own."""
    program = """
import sys
def client():
    system = lib.open()
    for number in range(20):
        assert lib.run("HcsGetComputeSystemProperties", system, OPERATION, str(number)) == (0, str(number))
    print("ok", flush=True)
    sys.stdin.readline()  # until the test closes it

children = []
for _ in range(100):
    children.append(os.fork())
    if children[-1] == 0:
        client()
        os._exit(0)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""
    with scripted_service(tmp_path) as service:
        service.handlers["HcsGetComputeSystemProperties"] = lambda client, request: Reply(document=request.strings[0])
        clients = start_client(tmp_path, program)
        eventually(lambda: len(service.server.clients) == 100)
        output, _ = clients.communicate(timeout=60)
        assert (clients.returncode, output.count("ok")) == (0, 100)
        eventually(lambda: not service.server.clients)


def test_client_without_free_descriptors_fails_one_call_only(tmp_path: Path) -> None:
    """The pipes of its process cannot be passed: only that call fails."""
    program = """
import resource
system, process, info = lib.open(), ffi.new("HCS_PROCESS *"), ffi.new("HCS_PROCESS_INFORMATION *")
def create():
    with lib.operation() as operation:
        assert lib.HcsCreateProcess(system, "{}", operation, None, process) == 0
        code = lib.HcsWaitForOperationResultAndProcessInfo(operation, 20000, info, document)
        text = lib.take(document)
    lib.HcsCloseProcess(process[0])
    return hex(code), text and error_message(text), len(os.listdir("/proc/self/fd"))
before = len(os.listdir("/proc/self/fd"))
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (before + 1, hard))
assert create() == ("0x80070004", "this process has no descriptors left for stdio: close some", before)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
assert create() == ("0x0", None, before + 3)
assert len({info.StdInput, info.StdOutput, info.StdError}) == 3
"""
    with scripted_service(tmp_path) as service:

        def three_pipes(client: Client, request: Request) -> Reply:
            first, second = os.pipe()
            return Reply(handle=service.new_handle(), pid=1, streams=(first, second, os.dup(first)))

        service.handlers["HcsCreateProcess"] = three_pipes
        run_client(tmp_path, program)


def test_interpreter_exit_during_events_is_safe(tmp_path: Path) -> None:
    """A callback into a finalized interpreter would crash, so handles are closed first, as the bindings do."""
    program = """
import atexit
system = lib.open()
callback = ffi.callback("void(HCS_EVENT *, void *)", lambda event, context: None)
atexit.register(lib.HcsCloseComputeSystem, system)
assert lib.HcsSetComputeSystemCallback(system, 0, None, callback) == 0
"""
    with scripted_service(tmp_path) as service:

        def flood(client: Client, handle: int) -> None:
            for _ in range(20):
                client.send_event(handle, 2, "{}")
            if client.connected:
                service.loop.call_later(0.0005, flood, client, handle)

        def registered(client: Client, request: Request) -> Reply:
            flood(client, request.handle)
            return Reply()

        service.handlers["HcsSetComputeSystemCallback"] = registered
        for _ in range(5):
            run_client(tmp_path, program)
        eventually(lambda: len(service.disconnected_clients) == 5)


def test_signals_are_not_delivered_to_library_threads(tmp_path: Path) -> None:
    """A signal delivered to a thread of the library would not wake the main thread."""
    program = """
import signal
system = lib.open()
callback = ffi.callback("void(HCS_EVENT *, void *)", lambda event, context: None)
assert lib.HcsSetComputeSystemCallback(system, 0, None, callback) == 0
with lib.operation() as operation:
    lib.HcsStartComputeSystem(system, operation, None)
    lib.result(operation)
blocked = [line for task in os.listdir("/proc/self/task") if int(task) != os.getpid()
           for line in open(f"/proc/self/task/{task}/status") if line.startswith("SigBlk")]
assert blocked and all(int(line.split()[1], 16) & 1 << signal.SIGTERM - 1 for line in blocked), blocked
"""
    with scripted_service(tmp_path):
        run_client(tmp_path, program)


def test_timeout_expires_while_the_service_is_stopped(emulator: Emulator) -> None:
    program = f"""
import signal, time
with lib.operation() as operation:
    assert lib.HcsEnumerateComputeSystems(None, operation) == 0
    assert lib.result(operation)[0] == 0
    os.kill({emulator.pid}, signal.SIGSTOP)
    try:
        assert lib.HcsEnumerateComputeSystems(None, operation) == 0
        assert lib.result(operation, 50) == (TIMEOUT, None)
    finally:
        os.kill({emulator.pid}, signal.SIGCONT)
    assert lib.result(operation)[0] == 0
"""
    run_client(emulator.directory, program)
