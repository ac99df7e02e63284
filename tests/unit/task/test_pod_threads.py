"""Threads of a daemon that serves several pods: they have the name of their pod, and each pod has a bounded number."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from shim import threads
from shim.hcs_bindings import events, timers
from shim.task.diagnostics import stacks
from shim.ttrpc.deadlines import Deadlines
from shim.ttrpc.workers import BoundedWorkers
from tests.support.eventually import eventually


def test_pod_is_passed_on_to_new_threads_and_callbacks() -> None:
    found: dict[str, str] = {}
    done = threading.Semaphore(0)

    def note(name: str) -> None:
        found[name] = threads.current_pod()
        done.release()

    def in_pod() -> None:
        threads.run_soon(note, "run_soon")
        threads.start_thread(note, ("start_thread",))
        threads.run_parallel([lambda: note("parallel")], 60)
        timers.after(0, lambda: note("timer"))
        subscription = events.Subscription("it", 0, lambda _data, _name: events.Exit(0))
        subscription.on_exit(lambda _exit: note("exit"))
        subscription.on_event(lambda *_: note("event"))
        kept.append(subscription)

    kept: list[events.Subscription] = []
    threads.run_for_pod("ns/p1", in_pod)
    assert threads.current_pod() == "" and threads.pods().get(threading.get_ident()) is None
    subscription = kept[0]
    subscription.deliver(7, "")
    on_exit = subscription._on_exit[0]
    on_exit(events.Exit(0))
    for _ in range(6):
        assert done.acquire(timeout=60)
    names = ("run_soon", "start_thread", "parallel", "timer", "exit", "event")
    assert found == dict.fromkeys(names, "ns/p1")


def test_thread_without_pod_passes_on_none() -> None:
    def callback() -> None: ...

    assert threads.for_own_pod(callback) is callback
    with pytest.raises(ZeroDivisionError):
        threads.run_for_pod("ns/p1", lambda: 1 // 0)
    assert threads.pods() == {}


def test_stacks_of_a_pod_leave_out_others() -> None:
    release, ready = threading.Event(), threading.Semaphore(0)

    def wait_in(name: str) -> None:
        ready.release()
        release.wait(60)

    started = [threading.Thread(target=threads.run_for_pod, args=(name, wait_in, name)) for name in ("n/a", "n/b")]
    for thread in started:
        thread.start()
    for _ in started:
        assert ready.acquire(timeout=60)
    text = stacks.all_threads("n/a")
    everything = stacks.all_threads()
    release.set()
    for thread in started:
        thread.join(60)
    assert "of pod n/a" in text and "of pod n/b" not in text
    assert "\n1 threads of other pods of this daemon are not shown.\n" in text
    assert "this one answers" in text, "threads of no pod are shown"
    assert "of pod n/a" in everything and "of pod n/b" in everything


class Hanging:
    """Functions that hang in a pool until they are released."""

    def __init__(self, workers: BoundedWorkers, count: int) -> None:
        self.release, running = threading.Event(), threading.Semaphore(0)

        def hang() -> None:
            running.release()
            self.release.wait(60)

        for _ in range(count):
            workers.submit(hang, never)
        for _ in range(count):
            assert running.acquire(timeout=60)


def never(*_: object) -> None:
    raise AssertionError("it has not waited")


def test_functions_beyond_the_limit_run_in_order_when_others_end() -> None:
    workers = BoundedWorkers(2, Deadlines(), wait_seconds=60)
    hanging = Hanging(workers, 2)
    late: list[tuple[object, int]] = []
    for number in range(5):
        workers.submit(never, lambda reason, number: late.append((reason, number)), number)
    assert late == []
    hanging.release.set()
    eventually(lambda: len(late) == 5, "all of them")
    assert sorted(late) == [(None, number) for number in range(5)]
    workers.close()


def test_functions_that_wait_for_hanging_ones_are_refused() -> None:
    deadlines = Deadlines()
    workers = BoundedWorkers(2, deadlines, wait_seconds=0.05)
    hanging = Hanging(workers, 2)
    refused: list[str] = []
    for _ in range(2):
        workers.submit(never, refused.append)
    eventually(lambda: len(refused) == 2, "the refusal of those that wait")
    assert all("2 calls of this pod are running" in reason for reason in refused)
    with pytest.raises(RuntimeError, match="2 calls of this pod are running"):
        workers.submit(never, never)  # at once: the pool is known to hang
    hanging.release.set()
    done = threading.Event()

    def accepted() -> bool:
        try:
            workers.submit(done.set, lambda _: done.set())
        except RuntimeError:
            return False
        return True

    eventually(accepted, "a free thread")
    assert done.wait(60)
    workers.close()
    deadlines.close()


class ManualDeadlines(Deadlines):
    """The test decides when the time of those that wait has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.watched: list[Any] = []

    def watch(self, call: Any) -> None:
        self.watched.append(call)


def test_function_that_waits_is_not_refused_if_another_has_ended_meanwhile() -> None:
    deadlines = ManualDeadlines()
    workers = BoundedWorkers(1, deadlines, wait_seconds=60)
    first = Hanging(workers, 1)
    second, refused = threading.Event(), list[str]()
    is_running = threading.Event()
    workers.submit(never, lambda reason: (is_running.set(), second.wait(60)))
    workers.submit(never, refused.append)
    first.release.set()
    assert is_running.wait(60)
    waiting = deadlines.watched[-1]
    waiting.expire()
    assert refused == [] and deadlines.watched[-1] is waiting and len(deadlines.watched) == 3, "it is considered again"
    waiting.expire()
    assert len(refused) == 1, "none has ended since"
    second.set()
    workers.close()


def test_function_that_fails_does_not_keep_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)
    workers = BoundedWorkers(1, Deadlines(), wait_seconds=60)
    go, done = threading.Event(), threading.Event()

    def fail() -> None:
        assert go.wait(60)
        raise MemoryError

    workers.submit(fail, never)
    workers.submit(never, lambda reason: reason is None and done.set())
    go.set()
    assert done.wait(60)
    eventually(lambda: reported, "the report of the failure")
    workers.submit(done.set, lambda _: None)
    workers.close()


def test_functions_that_wait_are_refused_when_the_pool_is_closed() -> None:
    workers = BoundedWorkers(1, Deadlines(), wait_seconds=60)
    hanging = Hanging(workers, 1)
    refused: list[str] = []
    workers.submit(never, refused.append)
    workers.close()
    assert refused == ["the server is shutting down"]
    hanging.release.set()


def test_functions_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.ttrpc.workers.MAX_WAITING", 3)
    workers = BoundedWorkers(1, Deadlines(), wait_seconds=60)
    hanging = Hanging(workers, 1)
    for _ in range(3):
        workers.submit(never, lambda _: None)
    with pytest.raises(RuntimeError, match="1 calls of this pod are running"):
        workers.submit(never, never)
    hanging.release.set()
    workers.close()


def test_bounded_workers_count_nothing_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = BoundedWorkers(1, Deadlines())

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("shim.ttrpc.workers.start_thread", refuse)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="can't start"):
                workers.submit(lambda: None, never)
    done = threading.Event()
    workers.submit(done.set, never)
    assert done.wait(60)
    workers.close()
