"""Replay a recording of `runhcs record` on the HCS emulator: a shim gets the recorded requests, and HCS answers as it
did on the node, with the same results, errors and durations. Neither Windows nor the recorded images are needed.

  runhcs replay FILE              every pod of the recording that has its start
  runhcs replay FILE ID           one pod
  runhcs replay FILE --fast       without the recorded durations
  runhcs replay FILE --real-time  with pauses between requests as recorded; they last at most 0.5 s otherwise

It shows the requests, and where the calls of HCS, the messages to guests, the responses or the events differ from the
recording. Exit code: 0 if nothing differs, 3 if something does. Ctrl-C and SIGTERM end the shim and remove its files.
"""

from __future__ import annotations

import argparse
import json
import signal
from typing import Any

import attrs

from runhcs import console
from runhcs.recording.reading import RecordedShim, Recording, RecordingError, read
from runhcs.replay.conversion import convert
from runhcs.replay.driver import Answer, Driver, Outcome
from shim.ttrpc.status import NAMES

DIFFERENT = 3
# Of a document that differs.
SHOWN = 300


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file of `runhcs record`")
    parser.add_argument("id", metavar="ID", nargs="?", default="", help="only the pod or container of this id")
    parser.add_argument("--fast", action="store_true", help="answer at once, without the recorded durations")
    parser.add_argument("--real-time", action="store_true", help="repeat the pauses between requests in full")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(args: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        recording = read(args.file)
        selected = _selected(recording, args.id)
        for shim in selected:
            convert(shim)  # refuses, before anything is replayed
        outcomes = [Driver(recording, shim, delays=not args.fast, real_time=args.real_time).run() for shim in selected]
    except RecordingError as error:
        console.show(f"runhcs replay: {error}", to_stderr=True)
        return 1
    if args.json:
        print(json.dumps([as_json(outcome) for outcome in outcomes], indent=2))
    else:
        for outcome in outcomes:
            console.show("\n".join(lines(outcome)))
    return DIFFERENT if any(outcome.differences for outcome in outcomes) else 0


def _selected(recording: Recording, id: str) -> list[RecordedShim]:
    found = [shim for shim in recording.shims if shim.identity["id"].startswith(id)]
    if not found:
        names = ", ".join(shim.name for shim in recording.shims) or "none"
        raise RecordingError(f"the recording has no pod {id!r}; it has {names}" if id else "the recording has no pods")
    if id or len(found) == 1:
        return found
    whole = [shim for shim in found if shim.identity.get("from_start")]
    return whole or found[:1]


def lines(outcome: Outcome) -> list[str]:
    identity = outcome.shim.identity
    head = f"{outcome.shim.name}, recorded with shim {identity.get('version')} on build {identity.get('build')}"
    guest = f", {outcome.guest_calls} guest messages" if outcome.guest_calls else ""
    shown = [f"{head}: {len(outcome.answers)} requests, {outcome.calls} calls of HCS{guest}, {outcome.seconds:.1f} s"]
    shown += [_request_line(answer) for answer in outcome.answers]
    for difference in outcome.differences:
        shown.append(f"  differs: {difference.what}: {difference.problem}")
        for name, value in (("recorded", difference.recorded), ("replayed", difference.replayed)):
            if value is not None:
                shown.append(f"    {name}: {_short(value)}")
    shown.append(f"  {len(outcome.differences)} differences" if outcome.differences else "  as recorded")
    return shown


def _request_line(answer: Answer) -> str:
    request = answer.request
    names = ("id", "sandbox_id", "exec_id")
    subject = " ".join(request.fields[name] for name in names if request.fields.get(name))
    if answer.error is not None:
        code, message = answer.error
        result = f"{NAMES[code] if 0 <= code < len(NAMES) else 'no answer'}: {message}"
    else:
        result = "ok"
        if status := (answer.response or {}).get("exit_status"):
            result += f", exit status {status}"
    recorded = f"{request.seconds * 1e3:.1f} ms there, " if request.end else "not answered there, "
    return f"  {request.method:9} {subject:20} {recorded}{answer.seconds * 1e3:.1f} ms here  {_short(result)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[:SHOWN] + " …"


def as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "namespace": outcome.shim.identity["namespace"],
        "id": outcome.shim.identity["id"],
        "seconds": outcome.seconds,
        "requests": [
            {"method": one.request.method, "seconds": one.seconds, "recorded_seconds": one.request.seconds,
             "response": one.response, "error": one.error}
            for one in outcome.answers
        ],
        "differences": [attrs.asdict(one) for one in outcome.differences],
    }  # fmt: skip
