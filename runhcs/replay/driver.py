"""Drives one recorded shim: starts a shim on the replaying emulator, sends it the recorded requests, and sends the
recorded events of HCS. Everything is below one directory, which is removed.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from attrs import define, field

from hcs_emulator.replay.guest import WAIT
from hcs_emulator.replay.script import Difference, Script
from hcs_emulator.replay.service import ReplayService
from runhcs.recording.reading import RecordedShim, Recording
from runhcs.replay.conversion import JOB_EVENT, POLLS, Event, Published, Replayable, Request, comparable, convert
from runhcs.replay.paths import HostPaths
from runhcs.replay.replayed_jobs import INCIDENTAL, ReplayedJobs
from runhcs.replay.requests import Requests, Streams
from runhcs.replay.timeline import PATIENCE, Timeline
from runhcs.shim_driver import EventEndpoint, ShimCommands, ShimError
from shim.platform import boot_directory, host
from shim.recording.requests import CREATE, CREATE_SANDBOX
from shim.recording.scrub import Scrubber
from shim.ttrpc.client import Client
from shim.ttrpc.status import ClosedError, StatusError

# A pause in which nothing happened is not repeated in full.
LONGEST_PAUSE = 0.5
# More than any timeout of the shim itself.
REQUEST_SECONDS = 300.0
# For a request that was still waiting when the recording ended.
UNANSWERED_SECONDS = 2.0


@define
class Answer:
    """The replay of one request."""

    request: Request
    seconds: float = 0.0
    response: dict[str, Any] | None = None
    error: tuple[int, str] | None = None


@define
class Outcome:
    shim: RecordedShim
    answers: list[Answer] = field(factory=list)
    differences: list[Difference] = field(factory=list)
    calls: int = 0
    guest_calls: int = 0
    seconds: float = 0.0


class Driver:
    def __init__(self, recording: Recording, shim: RecordedShim, *, delays: bool, real_time: bool) -> None:
        """Raises RecordingError."""
        self._shim = shim
        self._real_time = real_time
        self._script_source = convert(shim)
        # Short: the names of sockets are limited.
        self._directory = Path(tempfile.mkdtemp(prefix="rhr-", dir="/tmp"))
        self._paths = HostPaths(str(self._directory))
        self._scrubber = Scrubber(command_lines=recording.command_lines)
        source = self._script_source
        self._timeline = Timeline(_ends(source))
        self._script = Script(
            source.calls, source.guest_calls, int(shim.identity.get("build") or 0), self._normalize,
            self._timeline.done, delays, source.is_linux, source.boot_seconds, source.given_guids,
        )  # fmt: skip
        # Also without recorded jobs: no container of a recording may start a process of this machine.
        self._jobs = ReplayedJobs(self._directory, source.jobs, self._normalize_all, self._timeline.done)
        self._outcome = Outcome(shim, calls=len(source.calls), guest_calls=len(source.guest_calls))
        self._lock = threading.Lock()

    def _normalize(self, value: Any) -> Any:
        """Arguments as the recording has them: documents parsed, without secrets, with the paths of the recording."""
        if isinstance(value, dict):
            return self._paths.recorded(comparable(self._scrubber.document(value)))
        if isinstance(value, str):
            if value[:1] in ("{", "["):
                try:
                    return self._paths.recorded(self._scrubber.document(json.loads(value)))
                except ValueError:
                    pass
            return self._paths.recorded(value)
        return value

    def _normalize_all(self, values: list[Any]) -> Any:
        return self._paths.recorded(self._scrubber.document(values))

    def run(self) -> Outcome:
        hcs = self._directory / "hcs"
        hcs.mkdir(mode=0o700)
        service = ReplayService(str(hcs), self._script, self._script_source.vm_ids)
        streams = Streams(str(self._directory / "io"))
        events = EventEndpoint(str(self._directory / "events.sock"))
        shim = self._shim_commands(events)
        began = time.monotonic()
        job_differences: list[Difference] = []
        try:
            service.start()
            self._write_bundles()
            self._replay(shim, service, streams, events)
            job_differences = self._jobs.differences()
        finally:
            shim.kill()
            self._jobs.close()
            events.close()
            service.close()
            streams.close()
            _unmount_below(str(self._directory))
            shutil.rmtree(self._directory, ignore_errors=True)
        self._outcome.seconds = time.monotonic() - began
        self._outcome.differences += self._script.differences + self._script.unused() + job_differences
        return self._outcome

    def _shim_commands(self, events: EventEndpoint) -> ShimCommands:
        identity = self._shim.identity
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("HCS_EMULATOR_", "RUNHCS_", "OTEL_"))}  # fmt: skip
        environment |= {
            "HCS_EMULATOR_DIR": str(self._directory / "hcs"), "RUNHCS_SOCKET_DIR": str(self._directory / "s"),
            "RUNHCS_AGENT": "0", "RUNHCS_STANDBY": "0", "TTRPC_ADDRESS": events.address, "MAX_SHIM_VERSION": "2",
        }  # fmt: skip
        launcher = self._jobs.prepare(delays=self._script.delays)
        shim = ShimCommands(
            str(launcher), identity["id"], self._paths.inside(identity["bundle"]),
            namespace=identity["namespace"], address="/run/none.sock", environment=environment,
            publish_binary="/bin/false",
        )  # fmt: skip
        if identity.get("debug"):
            shim.flags.append("-debug")
        return shim

    def _write_bundles(self) -> None:
        created = [request.fields for request in self._script_source.requests
                   if request.method in (CREATE, CREATE_SANDBOX)]  # fmt: skip
        bundles = {
            fields.get("id") or fields.get("sandbox_id", ""): fields.get("bundle") or fields.get("bundle_path", "")
            for fields in created
        }
        bundles.setdefault(self._shim.identity["id"], self._shim.identity["bundle"])
        for container, recorded in bundles.items():
            local = Path(self._paths.inside(recorded))
            (local / "rootfs").mkdir(parents=True, exist_ok=True)
            entry = self._script_source.specs.get(container)
            if entry is None:
                continue
            if entry.get("boot_files"):
                self._paths.set_alias(str(self._directory / "hcs" / boot_directory.NAME), entry["boot_files"])
            self._paths.create(entry["paths"])
            if entry["spec"] is not None:
                (local / "config.json").write_text(json.dumps(self._paths.spec(entry["spec"], entry["paths"])))

    def _replay(self, shim: ShimCommands, service: ReplayService, streams: Streams, events: EventEndpoint) -> None:
        requests = Requests(self._paths, streams, self._scrubber)
        options = self._shim.identity.get("options") or {}
        try:
            client = shim.start(requests.packed(options).encode() if options.get("type_url") else b"").client
        except ShimError as error:
            self._outcome.differences.append(Difference("start", "the shim does not start", None, str(error)))
            return
        source = self._script_source
        items: list[Request | Event] = [*source.requests, *source.events]
        items.sort(key=lambda one: one.begin if isinstance(one, Request) else one.time)
        watcher = _EventWatcher(source.published, events, self._timeline)
        watcher.start()
        threads = []
        last = 0
        for item in items:
            moment = item.begin if isinstance(item, Request) else item.time
            self._timeline.wait_before(moment)
            self._pause(moment - last if last else 0)
            last = moment if isinstance(item, Event) else (item.end or moment)
            if isinstance(item, Request):
                thread = threading.Thread(target=self._send, args=(client, requests, item, shim.pid), daemon=True)
                thread.start()
                threads.append(thread)
            else:
                self._happen(service, item)
        self._timeline.wait_before(1 << 62)
        for thread in threads:
            thread.join(PATIENCE)
        watcher.stop()
        client.close()
        self._outcome.answers.sort(key=lambda one: one.request.begin)
        self._compare_events(source, events)

    def _pause(self, nanoseconds: int) -> None:
        seconds = max(0, nanoseconds) / 1e9
        time.sleep(seconds if self._real_time else min(seconds, LONGEST_PAUSE))

    def _happen(self, service: ReplayService, event: Event) -> None:
        entry = event.entry
        if event.kind == "event":
            data = entry["data"] if isinstance(entry["data"], str) else json.dumps(entry["data"])
            if not service.send_event(entry["handle"], entry["type"], data, PATIENCE):
                problem = "the shim has not created or opened what it concerns"
                self._add(Difference(f"event 0x{entry['type']:08X}", problem, entry["data"]))
        elif event.kind == JOB_EVENT:
            if not self._jobs.send(entry):
                self._add(Difference(f"{entry['event']} of a job", "the shim has no job", entry))
        elif event.kind == WAIT:
            request = entry["request"]
            container, pid = str(request.get("ContainerId", "")), int(request.get("ProcessId", 0))
            service.answer_wait(container, pid, entry["response"])
        elif "closed" in entry["body"]:
            service.disconnect_guests()
        else:
            service.notify(entry["body"])
        self._timeline.done(event)

    def _send(self, client: Client, requests: Requests, request: Request, shim_pid: int) -> None:
        answer = Answer(request)
        began = time.monotonic()
        timeout = REQUEST_SECONDS if request.end else UNANSWERED_SECONDS
        try:
            message = requests.message(request.service, request.method, request.fields)
            payload = client.call(request.service, request.method, message.encode(), timeout=timeout)
            answer.response = requests.response(request.service, request.method, payload, shim_pid)
        except StatusError as error:
            answer.error = (error.code, str(self._paths.recorded(error.message)))
        except (ClosedError, TimeoutError) as error:
            answer.error = (-1, f"{type(error).__name__}: {error}")
        answer.seconds = time.monotonic() - began
        self._timeline.done(request)
        with self._lock:
            self._outcome.answers.append(answer)
        self._compare(answer)

    def _compare(self, answer: Answer) -> None:
        request = answer.request
        if not request.end or request.method in POLLS:
            return  # not answered then, or dependent on the moment
        recorded = None if request.error is None else (request.error[0], request.error[1])
        if answer.error != recorded:
            self._add(Difference(request.method, "another error", recorded, answer.error))
        elif recorded is None:
            expected = Requests.comparable(request.response, self._shim.identity.get("pid", 0))
            if answer.response != expected:
                self._add(Difference(request.method, "another response", expected, answer.response))

    def _compare_events(self, source: Replayable, events: EventEndpoint) -> None:
        recorded = sorted(one.topic for one in source.published)
        replayed = sorted(events.topics)
        if recorded != replayed:
            self._add(Difference("events", "other task events", recorded, replayed))

    def _add(self, difference: Difference) -> None:
        with self._lock:
            self._outcome.differences.append(difference)


class _EventWatcher:
    """Marks published events as done, by their number: they come in order."""

    def __init__(self, published: list[Published], events: EventEndpoint, timeline: Timeline) -> None:
        self._published = published
        self._events = events
        self._timeline = timeline
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        waiting = list(self._published)
        seen = 0
        while waiting and not self._stop.wait(0.005):
            topics = self._events.topics
            for topic in topics[seen:]:
                found = next((one for one in waiting if one.topic == topic), None)
                if found is not None:
                    waiting.remove(found)
                    self._timeline.done(found)
            seen = len(topics)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)


def _ends(source: Replayable) -> list[tuple[int, object]]:
    """What later requests and events wait for."""
    found: list[tuple[int, object]] = [(one.end, one) for one in source.requests if one.end]
    found += [(one.end, one) for one in source.calls if one.end and not one.is_incidental]
    found += [(one.end, one) for one in source.guest_calls if one.end and one.procedure != WAIT]
    # Not their ends: a process may exit before the call that terminates it returns.
    found += [(one["begin"], one) for one in source.jobs if one["function"] not in INCIDENTAL]
    found += [(one.time, one) for one in source.events]
    return found + [(one.time, one) for one in source.published]


def _unmount_below(directory: str) -> None:
    """What the shim has mounted and not unmounted, since the recording ended before."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        targets = [line.split(" ")[4] for line in file]
    for target in reversed(targets):
        if target.startswith(directory + "/"):
            host.unmount(target)
