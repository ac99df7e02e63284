"""One soak: threads that run short lifecycles, threads that probe the long-lived shims, and the samples between."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random

from attrs import define, field, frozen

from runhcs import emulator
from runhcs.selftest.node import Node
from runhcs.selftest.runner import StepSkipped
from runhcs.selftest.steps.vm import NO_HYPERVISOR
from runhcs.shim_driver import ShimError
from runhcs.soak import lifecycles, samples
from runhcs.soak.containers import SoakHost, event_address
from runhcs.soak.events import AccountError, EventAccounts
from runhcs.soak.samples import Samples, Trend
from runhcs.soak.targets import PROBES_PER_RESTART, Target
from shim.ttrpc.status import ClosedError, StatusError

#: A run with so many failures is ended: more would say nothing new.
MOST_PROBLEMS = 50
#: How long a thread may take for the lifecycle that it is in.
END_TIMEOUT = 120.0
POLL_SECONDS = 0.05
PAUSE_SECONDS = 0.5
#: How long containerd is away before the first sample.
OUTAGE_SECONDS = 1.0
#: By so much of the whole run lifecycles and probes may be ahead of each other. A shim that is probed in the first part
#: of a run only would have no slope in the rest of it.
MOST_LEAD = 0.01
FAILURES = (AccountError, ShimError, StatusError, ClosedError, StepSkipped, OSError, emulator.ControlError)


@frozen
class Plan:
    #: The run ends after this time, or when both numbers are reached; 0: no limit by this number.
    seconds: float
    lifecycles: int
    probes: int
    workers: int
    seed: int
    stats_seconds: float
    sample_seconds: float
    #: A restart of containerd; 0: none.
    restart_seconds: float
    #: While this file exists nothing begins; "": none.
    pause_file: str = ""

    @property
    def limits(self) -> dict[str, int]:
        return {"lifecycles": self.lifecycles, "probes": self.probes}

    def lead(self, name: str, counts: Mapping[str, int]) -> float:
        """How much more of this work is done than of the other, as a part of the run; 0 unless both have a limit."""
        if not all(self.limits.values()):
            return 0.0
        done = {one: counts[one] / most for one, most in self.limits.items()}
        return done[name] - min(done.values())


@define
class Outcome:
    seconds: float = 0.0
    counts: Counter[str] = field(factory=Counter)
    problems: list[str] = field(factory=list)
    samples: Samples = field(factory=Samples)
    notes: list[str] = field(factory=list)
    is_interrupted: bool = False

    @property
    def trends(self) -> list[Trend]:
        return self.samples.trends()

    @property
    def verdict(self) -> list[str]:
        """Sentences about what is wrong; empty if nothing is."""
        growing = [trend.sentence() for trend in self.trends if trend.is_significant]
        return [*self.problems, *growing]


class Soak:
    def __init__(self, node: Node, plan: Plan) -> None:
        self.outcome = Outcome()
        self._plan = plan
        self._events = EventAccounts(event_address(node))
        self._host = SoakHost(node, self._events, has_vms=False)
        self._targets: list[Target] = []
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._begun = time.monotonic()

    def run(self, report: Callable[[Soak, float], None]) -> Outcome:
        """`report` is called often, with the time since the begin. Ctrl-C ends the run as its end does."""
        threads: list[threading.Thread] = []
        try:
            self._create_targets()
            threads = self._start_threads()
            self._watch(report)
        except KeyboardInterrupt:
            self.outcome.is_interrupted = True
        except FAILURES as error:
            self._problem("the soak cannot run", error)
        finally:
            self._end(threads)
        return self.outcome

    # The long-lived shims.

    def _create_targets(self) -> None:
        """Each with what its first calls load, so that samples begin after it."""
        self._host.has_vms = self._can_run_vms()
        random = Random(self._plan.seed)
        for kind in ("container", "pod", *(("vm",) if self._host.has_vms else ())):
            target = Target(self._host, kind, Random(random.random()), self._plan.stats_seconds)
            self._targets.append(target)
            for _ in range(PROBES_PER_RESTART + 1):
                target.step()
                if self._is_over():
                    return
        self._first_outage()
        self._begun = time.monotonic()
        for target in self._targets:
            target.probes = target.stats = target.restarts = 0

    def _first_outage(self) -> None:
        """A shim whose events wait loads modules, too, and has more threads for a while: all of them are probed."""
        is_back = threading.Event()
        threads = [
            threading.Thread(target=self._probe_until, args=(target, is_back), daemon=True) for target in self._targets
        ]
        for thread in threads:
            thread.start()
        try:
            self._events.restart(OUTAGE_SECONDS)
        finally:
            is_back.set()
            for thread in threads:
                thread.join(END_TIMEOUT)

    def _probe_until(self, target: Target, ended: threading.Event) -> None:
        try:
            while not ended.is_set():
                target.step()
        except FAILURES as error:
            self._problem(f"probe of {target.kind}", error)

    def _can_run_vms(self) -> bool:
        base = self._host.node.image()[-1]
        if not os.path.isdir(os.path.join(base, "UtilityVM")):
            self.outcome.notes.append(f"no VMs: {base} has no UtilityVM directory")
            return False
        try:
            lifecycles.vm(self._host, Random(0))
        except StatusError as error:
            if not any(code.lower() in str(error).lower() for code in NO_HYPERVISOR):
                raise
            self.outcome.notes.append(f"no VMs: {error}")
            self._host.clean_up()
            return False
        return True

    # Threads.

    def _start_threads(self) -> list[threading.Thread]:
        random = Random(self._plan.seed)
        threads = [threading.Thread(target=self._probe, args=(target,), daemon=True) for target in self._targets]
        for _ in range(self._plan.workers):
            threads.append(threading.Thread(target=self._live, args=(Random(random.random()),), daemon=True))
        for thread in threads:
            thread.start()
        return threads

    def _live(self, random: Random) -> None:
        while self._may_begin("lifecycles") and self._has_more("lifecycles"):
            kind = lifecycles.choose(random, self._host.has_vms)
            try:
                lifecycles.KINDS[kind][1](self._host, random)
            except FAILURES as error:
                self._problem(f"lifecycle {kind}", error)
            self._count("lifecycles", kind)

    def _probe(self, target: Target) -> None:
        while self._may_begin("probes") and self._has_more("probes"):
            try:
                target.step()
            except FAILURES as error:
                self._problem(f"probe of {target.kind}", error)
                return
            self._count("probes")

    def _may_begin(self, name: str) -> bool:
        """Waits while the soak is paused, or the other kind of work is behind; False when it ends."""
        while self._is_paused() and not self._ending.wait(PAUSE_SECONDS):
            pass
        while self._plan.lead(name, self.outcome.counts) > MOST_LEAD and not self._ending.wait(POLL_SECONDS):
            pass
        return not self._ending.is_set()

    def _is_paused(self) -> bool:
        return bool(self._plan.pause_file) and os.path.exists(self._plan.pause_file)

    def _has_more(self, name: str) -> bool:
        """With a limit of the other number only, this work goes on until that is reached."""
        most = self._plan.limits[name]
        return most == 0 or self.outcome.counts[name] < most

    def _count(self, *names: str) -> None:
        with self._lock:
            self.outcome.counts.update(names)

    def _problem(self, where: str, error: BaseException) -> None:
        with self._lock:
            self.outcome.problems.append(f"{where}: {error or type(error).__name__}")

    # The main thread.

    def _watch(self, report: Callable[[Soak, float], None]) -> None:
        next_sample = 0.0
        next_restart = self._plan.restart_seconds
        while not self._is_over():
            now = time.monotonic() - self._begun
            if now >= next_sample:
                self._sample(now)
                next_sample += self._plan.sample_seconds
            if next_restart and now >= next_restart:
                self._restart_containerd()
                next_restart = now + self._plan.restart_seconds
            report(self, now)
            self._ending.wait(POLL_SECONDS)
            self._begun += self._wait_for_pause()

    def _wait_for_pause(self) -> float:
        """How long the soak was paused. That is no part of the run: a pause would make every slope smaller."""
        begun = time.monotonic()
        if not self._is_paused():
            return 0.0
        self._count("pauses")
        while self._is_paused():
            self._ending.wait(PAUSE_SECONDS)
        return time.monotonic() - begun

    def _is_over(self) -> bool:
        plan, counts = self._plan, self.outcome.counts
        if len(self.outcome.problems) >= MOST_PROBLEMS or time.monotonic() - self._begun >= plan.seconds:
            return True
        return any(plan.limits.values()) and all(counts[name] >= most for name, most in plan.limits.items())

    def _sample(self, now: float) -> None:
        node, hours = self._host.node, now / 3600
        pids = {f"shim of {target.kind}": target.shim.pid for target in self._targets}
        status = emulator.command(node.emulator, "status") if node.emulator else None
        if status is not None:
            pids["emulator"] = status["pid"]
            owner = next((target.shim.id for target in self._targets if target.kind == "vm"), "none")
            for system in status["systems"]:
                if system["Id"].startswith(owner) and system.get("Worker"):
                    pids["guest of vm"] = system["Worker"]
        for process, values in samples.of_processes(pids).items():
            self.outcome.samples.add(hours, process, values)
        self.outcome.samples.add(hours, "node", samples.of_node(node, status))

    def _restart_containerd(self) -> None:
        """Its event endpoint goes and comes back, and its connections are new."""
        self._events.restart()
        for target in self._targets:
            target.must_reconnect = True
        self._count("containerd restarts")

    # The end.

    def _end(self, threads: list[threading.Thread]) -> None:
        """Takes some seconds, and is not interrupted: an interrupted cleanup would leave containers behind."""
        outcome = self.outcome
        outcome.seconds = time.monotonic() - self._begun
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._ending.set()
        deadline = time.monotonic() + END_TIMEOUT
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        if any(thread.is_alive() for thread in threads):
            self._problem("end", TimeoutError(f"a call did not return within {END_TIMEOUT:.0f} s: see `runhcs stacks`"))
        for target in self._targets:
            outcome.counts.update({"stats": target.stats, "restarts": target.restarts})
            if not outcome.problems:
                try:
                    target.end()
                except FAILURES as error:
                    self._problem(f"end of {target.kind}", error)
        for problem in self._host.clean_up():
            outcome.problems.append(f"cleanup: {problem}")
        outcome.counts["events"] = self._events.count
        outcome.counts["repeated events"] = self._events.repeated
        outcome.problems += [f"unexpected events of {one}" for one in self._events.unexpected()]
        self._events.close()
        self._check_nothing_left()

    def _check_nothing_left(self) -> None:
        try:
            leaked = self._host.node.leaks(f"{self._host.node.prefix}-{os.getpid()}-")
        except FAILURES as error:
            self._problem("the last check", error)
            return
        self.outcome.problems += [f"left at the end: {one}" for one in leaked]
