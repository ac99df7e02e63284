"""Threads of a daemon that serves several pods: they have the name of their pod, and each pod has a bounded number."""

from __future__ import annotations

import threading

import pytest

from shim import threads
from shim.hcs_bindings import events, timers
from shim.task.diagnostics import stacks
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


def test_bounded_workers_refuse_what_exceeds_the_limit() -> None:
    workers = BoundedWorkers(2)
    release, running = threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        running.release()
        release.wait(60)

    for _ in range(2):
        workers.submit(hang)
    for _ in range(2):
        assert running.acquire(timeout=60)
    with pytest.raises(RuntimeError, match="2 calls of this pod are running"):
        workers.submit(hang)
    release.set()

    def accepted() -> bool:
        try:
            workers.submit(lambda: None)
        except RuntimeError:
            return False
        return True

    eventually(accepted, "a free thread")
    workers.close()


def test_bounded_workers_count_nothing_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = BoundedWorkers(1)

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("shim.ttrpc.workers.start_thread", refuse)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="can't start"):
                workers.submit(lambda: None)
    done = threading.Event()
    workers.submit(done.set)
    assert done.wait(60)
    workers.close()
