"""Show task events of this node's shims, as `runhcs agent` has received them.

runhcs events             the recent ones
runhcs events -f          and all that come
runhcs events --json      one JSON object on a line, for programs
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import Any

from runhcs import agent_client, console, shims

HEAD = ("time", "namespace", "pod", "topic", "container_id", "id", "exec_id")


def configure(parser: argparse.ArgumentParser) -> None:
    shims.configure(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="wait for further events")


def run(args: argparse.Namespace) -> int:
    try:
        for event in agent_client.events(args, args.follow):
            if args.namespace not in ("", event["namespace"]):
                continue
            console.show(json.dumps(event) if args.json else line(event), flush=True)
    except agent_client.AgentError as error:
        console.show(f"runhcs events: {error}", to_stderr=True)
        return 1
    return 0


def line(event: dict[str, Any]) -> str:
    """`10:01:02.345 k8s.io pod exit c1 exit_status=3 pid=42`"""
    moment = datetime.fromtimestamp(event["time"] / 1e9, UTC)
    container = event.get("container_id") or "-"
    process = event.get("exec_id") or event.get("id") or ""
    shown = [f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z", event["namespace"], event["pod"],
             event["topic"].removeprefix("/tasks/"), container]  # fmt: skip
    if process and process != container:
        shown.append(f"exec={process}")
    shown += [f"{name}={value}" for name, value in event.items() if name not in HEAD]
    return " ".join(shown)
