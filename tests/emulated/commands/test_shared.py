"""Shared daemons: which pods share one, and that whatever fails, a pod gets a daemon that serves it."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shim.api.runhcs_options import Options
from shim.api.runtimeoptions import Options as GenericOptions
from shim.api.wellknown import Any as Packed
from shim.commands import SANDBOX_CONTROLLER, SHIM_SCOPE
from shim.commands.shared import DAEMON_PANIC_LOG
from tests.support.emulator import is_alive
from tests.support.eventually import eventually
from tests.support.shim_commands import MEMBER, NAMESPACE, SANDBOX, Binary, connect, dial, shut_down


class Pods(Binary):
    """Starts pods of a scope."""

    def pod(self, id: str, scope: str = "node", *, namespace: str = NAMESPACE, **more: str) -> Pod:
        """A pod that is served; `more` are annotations."""
        bundle = self.pod_bundle(f"{namespace}-{id}", {SHIM_SCOPE: scope, **more} if scope else more)
        return self.pod_in(bundle, id, namespace=namespace)

    def pod_in(self, bundle: Path, id: str, *, namespace: str = NAMESPACE, stdin: bytes = b"") -> Pod:
        flags = [namespace if word == NAMESPACE else word for word in self.flags(id)]
        result = self.run(*flags, "start", cwd=bundle, stdin=stdin)
        assert (result.returncode, result.stderr) == (0, b""), result
        pod = Pod(id, bundle, result.stdout.decode())
        assert (bundle / "address").read_text() == pod.address
        assert connect(dial(pod.address), id).shim_pid == pod.pid
        return pod

    def control_sockets(self) -> list[Path]:
        return list(self.sockets.glob("shared-*"))


class Pod:
    def __init__(self, id: str, bundle: Path, address: str) -> None:
        self.id = id
        self.bundle = bundle
        self.address = address
        self.pid = int((bundle / "shim.pid").read_text())

    @property
    def is_shared(self) -> bool:
        return (self.bundle / DAEMON_PANIC_LOG).exists()

    def is_served(self) -> bool:
        return connect(dial(self.address), self.id).shim_pid == self.pid

    def end(self) -> None:
        """Shutdown; returns when its socket is removed."""
        shut_down(self.address, self.id)
        socket = Path(self.address.removeprefix("unix://"))
        eventually(lambda: not socket.exists(), "the end of the pod")


@pytest.fixture(params=["1", "0"], ids=["native", "python"])
def pods(request: pytest.FixtureRequest) -> Iterator[Pods]:
    """With the launcher's code, then with Python's."""
    pods = Pods()
    pods.env["RUNHCS_NATIVE"] = request.param
    yield pods
    pods.close()


def test_pods_share_daemon_that_exits_with_the_last(pods: Pods) -> None:
    first, second, third = (pods.pod(f"p{number}") for number in range(3))
    assert first.pid == second.pid == third.pid
    assert len({pod.address for pod in (first, second, third)}) == 3, "each has a socket of its own"
    for pod, left in ((first, [second, third]), (third, [second])):
        pod.end()
        assert all(other.is_served() for other in left)
    assert is_alive(second.pid)
    second.end()
    eventually(lambda: not is_alive(second.pid), "the exit of the daemon")
    pods.expect_clean()


def test_default_is_a_daemon_per_pod(pods: Pods) -> None:
    first, second = pods.pod("p1", ""), pods.pod("p2", "pod")
    assert first.pid != second.pid
    assert not first.is_shared and not second.is_shared and not pods.control_sockets()


def test_scope_decides_which_namespaces_share(pods: Pods) -> None:
    one, other = pods.pod("p1", "namespace"), pods.pod("p1", "namespace", namespace="other")
    assert one.pid != other.pid, "the ids are the same, the namespaces differ"
    assert pods.pod("p2", "namespace").pid == one.pid
    node = pods.pod("p3", "node")
    assert node.pid not in (one.pid, other.pid)
    same_id = pods.pod("p3", "node", namespace="other")
    assert same_id.pid == node.pid and same_id.address != node.address


def test_containerd_and_environment_are_not_shared_across(pods: Pods) -> None:
    first = pods.pod("p1")
    pods.env["HCS_EMULATOR_DIR"] += "-other"
    second = pods.pod("p2")
    assert second.pid != first.pid
    pods.env["NAMESPACE"] = "differs-with-each-call"
    assert pods.pod("p3").pid == second.pid
    bundle = pods.pod_bundle("p4", {SHIM_SCOPE: "node"})
    flags = ["/run/other.sock" if word == "/run/none.sock" else word for word in pods.flags("p4")]
    assert pods.run(*flags, "start", cwd=bundle).returncode == 0
    assert int((bundle / "shim.pid").read_text()) not in (first.pid, second.pid)


def test_other_limits_of_process_are_not_shared(pods: Pods) -> None:
    first = pods.pod("p1")
    bundle = pods.pod_bundle("p2", {SHIM_SCOPE: "node"})
    words = ["prlimit", "--nofile=500", str(pods.launcher), *pods.flags("p2"), "start"]
    launcher, pods.launcher = pods.launcher, Path("/usr/bin/env")
    try:
        assert pods.run(*words, cwd=bundle).returncode == 0
    finally:
        pods.launcher = launcher
    assert int((bundle / "shim.pid").read_text()) != first.pid


def test_new_version_starts_new_daemon_and_old_one_serves_on(pods: Pods) -> None:
    old = pods.pod("p1")
    os.utime(pods.program)
    new = pods.pod("p2")
    assert new.pid != old.pid and old.is_served()
    assert pods.pod("p3").pid == new.pid
    old.end()
    eventually(lambda: not is_alive(old.pid), "the exit of the old daemon")
    assert new.is_served()


def test_concurrent_starts_end_in_one_daemon(pods: Pods) -> None:
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda number: pods.pod(f"p{number}"), range(8)))
    assert len({pod.pid for pod in started}) == 1
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Pod.end, started))
    pods.expect_clean()


def test_starts_while_the_last_pod_ends_are_served(pods: Pods) -> None:
    """The daemon either takes the pod or has removed its control socket: no start fails, none gets a dead daemon."""
    pod = pods.pod("p0")
    for number in range(1, 8):
        with ThreadPoolExecutor(2) as pool:
            ended, started = pool.submit(pod.end), pool.submit(pods.pod, f"p{number}")
            ended.result()
            pod = started.result()
        assert pod.is_shared and pod.is_served()
    pod.end()
    pods.expect_clean()


def test_full_daemon_is_followed_by_another(pods: Pods) -> None:
    pods.env["RUNHCS_SHARED_MAX_PODS"] = "2"
    started = [pods.pod(f"p{number}") for number in range(5)]
    pids = [pod.pid for pod in started]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4] != pids[0]
    assert all(pod.is_served() and pod.is_shared for pod in started)
    assert len(pods.control_sockets()) == 1


def test_old_daemon_is_followed_by_another(pods: Pods) -> None:
    pods.env["RUNHCS_SHARED_MAX_AGE"] = "1"
    first = pods.pod("p0")
    numbers = iter(range(1, 1000))
    eventually(lambda: pods.pod(f"p{next(numbers)}").pid != first.pid, "a new daemon", interval=0.3)
    assert first.is_served()


def test_killed_start_gives_up_its_pod_only(pods: Pods) -> None:
    first = pods.pod("p1")
    bundle = pods.pod_bundle("b", {SHIM_SCOPE: "node"})
    with pods.starting(bundle) as start:
        address = (bundle / "address").read_text()
        start.kill()
    eventually(lambda: not Path(address.removeprefix("unix://")).exists(), "the end of its pod")
    assert first.is_served()
    first.end()
    pods.expect_clean()


def test_killed_first_start_leaves_nothing(pods: Pods) -> None:
    with pods.starting(pods.pod_bundle("b", {SHIM_SCOPE: "node"})) as start:
        start.kill()
    pods.expect_clean()


def test_killed_daemon_is_replaced(pods: Pods) -> None:
    first = pods.pod("p1")
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: not is_alive(first.pid), "its end")
    second = pods.pod("p2")
    assert second.is_shared and second.pid != first.pid and len(pods.control_sockets()) == 1


def test_delete_after_crash_removes_both_sockets(pods: Pods) -> None:
    started = [pods.pod(f"p{number}") for number in range(2)]
    os.kill(started[0].pid, signal.SIGKILL)
    eventually(lambda: not is_alive(started[0].pid), "its end")
    for pod in started:
        pods.delete(pod.bundle, pod.id)
    pods.expect_clean()


class DyingDaemon:
    """A process at the control socket that dies during the handover of a pod."""

    def __init__(self, control: Path, stage: str) -> None:
        self._stage = stage
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(control))
        self._listener.listen(8)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        connection, _ = self._listener.accept()
        with connection, self._listener:
            if self._stage == "accepted":
                return
            connection.send(b"A%d" % os.getpid())
            if self._stage == "greeted":
                return
            _, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 8)
            for descriptor in descriptors:
                os.close(descriptor)
            if self._stage == "ready":
                connection.send(b"R")
                connection.recv(1)  # until `start` has printed the address


@pytest.mark.parametrize("stage", ["accepted", "greeted", "handed over"])
def test_daemon_that_dies_during_the_handover_is_replaced(pods: Pods, stage: str) -> None:
    first = pods.pod("p1")
    (control,) = pods.control_sockets()
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: not is_alive(first.pid), "its end")
    control.unlink()
    dying = DyingDaemon(control, stage)
    second = pods.pod("p2")
    dying.thread.join(60)
    assert not dying.thread.is_alive() and second.is_served() and second.pid not in (first.pid, os.getpid())
    third = pods.pod("p3")
    assert third.is_shared and len(pods.control_sockets()) == 1
    pods.delete(first.bundle, first.id)
    for pod in (second, third):
        pod.end()
    pods.expect_clean()


def test_daemon_that_dies_after_the_handover_leaves_nothing(pods: Pods) -> None:
    """`start` has succeeded by then: containerd finds no shim at the address, and runs `delete`."""
    first = pods.pod("p1")
    (control,) = pods.control_sockets()
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: not is_alive(first.pid), "its end")
    control.unlink()
    dying = DyingDaemon(control, "ready")
    bundle = pods.pod_bundle("p2", {SHIM_SCOPE: "node"})
    assert pods.run(*pods.flags("p2"), "start", cwd=bundle).returncode == 0
    dying.thread.join(60)
    for directory, name in ((first.bundle, "p1"), (bundle, "p2")):
        pods.delete(directory, name)
    pods.expect_clean()


def test_hung_daemon_gets_no_more_pods(pods: Pods) -> None:
    first = pods.pod("p1")
    os.kill(first.pid, signal.SIGSTOP)
    try:
        other = pods.pod("p2")
        assert other.is_shared and other.pid != first.pid
        assert pods.pod("p3").pid == other.pid
    finally:
        os.kill(first.pid, signal.SIGCONT)
    assert first.is_served()
    first.end()
    eventually(lambda: not is_alive(first.pid), "its end")
    assert pods.pod("p4").pid == other.pid, "it has not removed the socket of its successor"


def test_file_in_the_way_of_control_socket_is_a_daemon_per_pod(pods: Pods) -> None:
    first = pods.pod("p1")
    (control,) = pods.control_sockets()
    control.unlink()
    control.mkdir()
    alone = pods.pod("p2")
    assert not alone.is_shared and first.is_served()
    control.rmdir()


def test_sigterm_ends_all_pods(pods: Pods) -> None:
    started = [pods.pod(f"p{number}") for number in range(3)]
    os.kill(started[0].pid, signal.SIGTERM)
    eventually(lambda: not is_alive(started[0].pid), "its exit")
    pods.expect_clean()


def test_member_joins_sandbox_in_shared_daemon(pods: Pods) -> None:
    pods.pod("other")
    pod = pods.pod("pod", **SANDBOX)
    member = pods.pod_in(pods.pod_bundle("member", MEMBER), "member")
    assert member.address == pod.address and member.pid == pod.pid


@pytest.mark.parametrize("kind", ["toml", "annotations", "toml annotations"])
def test_options_choose_the_scope(pods: Pods, kind: str) -> None:
    if kind == "annotations":
        message: Options | GenericOptions = Options(default_container_annotations={SHIM_SCOPE: "node"})
    elif kind == "toml":
        message = GenericOptions(config_body=b'ShimScope = "node"\n')
    else:
        message = GenericOptions(config_body=b'[DefaultContainerAnnotations]\n"%s" = "node"\n' % SHIM_SCOPE.encode())
    stdin = Packed(type_url=message.FULL_NAME, value=message.encode()).encode()
    first, second = (pods.pod_in(pods.bundle(name), name, stdin=stdin) for name in ("p1", "p2"))
    assert first.pid == second.pid and first.is_shared
    own = pods.pod_in(pods.pod_bundle("p3", {SHIM_SCOPE: "pod"}), "p3", stdin=stdin)
    assert own.pid != first.pid, "the annotation overrides the options"


def test_sandboxes_of_the_sandbox_service_share_by_options(pods: Pods) -> None:
    message = GenericOptions(config_body=b'ShimScope = "namespace"\n')
    stdin = Packed(type_url=message.FULL_NAME, value=message.encode()).encode()
    pids = set()
    for name in ("s1", "s2"):
        bundle = pods.directory / SANDBOX_CONTROLLER / NAMESPACE / name
        bundle.mkdir(parents=True)
        result = pods.run(*pods.flags(name), "start", cwd=bundle, stdin=stdin)
        answer = json.loads(result.stdout)
        assert answer["version"] == 3 and answer["address"] == (bundle / "address").read_text()
        pids.add(connect(dial(answer["address"]), name).shim_pid)
    assert len(pids) == 1


def test_no_standby_is_started_for_shared_daemons(pods: Pods) -> None:
    pods.env["RUNHCS_STANDBY"] = "1"
    first, second = pods.pod("p1"), pods.pod("p2")
    assert first.pid == second.pid and pods.daemons() == [first.pid]
    assert not list(pods.sockets.glob("standby-*"))


def test_unknown_scope_is_refused(pods: Pods) -> None:
    bundle = pods.pod_bundle("b", {SHIM_SCOPE: "cluster"})
    result = pods.run(*pods.flags(), "start", cwd=bundle)
    assert result.returncode == 1 and b"'cluster': use pod, namespace or node" in result.stderr
    pods.expect_clean()


def test_control_socket_is_private(pods: Pods) -> None:
    pods.pod("p1")
    (control,) = pods.control_sockets()
    assert control.stat().st_mode & 0o777 == 0o600 and control.parent.stat().st_mode & 0o777 == 0o700


def test_socket_directory_open_to_others_is_refused(pods: Pods) -> None:
    pods.sockets.mkdir(mode=0o755)
    bundle = pods.pod_bundle("b", {SHIM_SCOPE: "node"})
    result = pods.run(*pods.flags(), "start", cwd=bundle)
    assert result.returncode == 1 and b"is open to others" in result.stderr


def test_connections_that_hand_over_nothing_cost_nothing(pods: Pods) -> None:
    """Probes, clients that send garbage, and clients that hang do not delay a start, nor keep the daemon."""
    pod = pods.pod("p1")
    (control,) = pods.control_sockets()
    hanging = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(4)]
    for client in hanging:
        client.connect(str(control))
    hanging[0].send(b"garbage")
    hanging[1].close()
    other = pods.pod("p2")
    assert other.pid == pod.pid
    pod.end()
    other.end()
    pods.expect_clean()
    for client in hanging:
        client.close()


def test_panic_log_of_daemon_is_in_each_bundle(pods: Pods) -> None:
    """What the process writes as it crashes is reported for each pod by `delete`; an error of one pod only for it."""
    first, second = pods.pod("p1"), pods.pod("p2")
    os.kill(first.pid, signal.SIGSEGV)
    eventually(lambda: not is_alive(first.pid), "its crash")
    for pod in (first, second):
        assert "Segmentation fault" in (pod.bundle / DAEMON_PANIC_LOG).read_text()
        assert (pod.bundle / "panic.log").read_text() == ""
        assert b"Segmentation fault" in pods.delete(pod.bundle, pod.id)[1]
    pods.expect_clean()
