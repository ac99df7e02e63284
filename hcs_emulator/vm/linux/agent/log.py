"""The agent's log: logrus entries on standard error, which the machine connects to the host's log listener."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from typing import Any

LEVELS = {"trace": 6, "debug": 5, "info": 4, "warning": 3, "warn": 3, "error": 2, "fatal": 1, "panic": 0}
_settings: dict[str, Any] = {"level": LEVELS["debug"], "json": True, "descriptor": 2}
_lock = threading.Lock()


def configure(level: str, as_json: bool, descriptor: int = 2) -> None:
    _settings.update(level=LEVELS[level], json=as_json, descriptor=descriptor)


def _write(level: str, message: str, fields: dict[str, Any]) -> None:
    if LEVELS[level] > _settings["level"]:
        return
    now = time.time_ns()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09d}Z"
    entry = {**fields, "level": level, "msg": message, "time": stamp}
    if _settings["json"]:
        line = json.dumps(entry, separators=(",", ":"))
    else:
        line = " ".join(f"{name}={json.dumps(value)}" for name, value in entry.items())
    data = line.encode() + b"\n"
    with _lock:
        try:
            while data:
                data = data[os.write(_settings["descriptor"], data) :]
        except BrokenPipeError:  # a Go program ends by this signal when its standard error is closed
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)
            os._exit(128 + signal.SIGPIPE)


def debug(message: str, **fields: Any) -> None:
    _write("debug", message, fields)


def info(message: str, **fields: Any) -> None:
    _write("info", message, fields)


def warning(message: str, **fields: Any) -> None:
    _write("warning", message, fields)


def error(message: str, **fields: Any) -> None:
    _write("error", message, fields)
