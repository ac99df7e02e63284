"""Records a shim under Wine with `runhcs.exe record` of the unpacked zip, run by Python for Windows as driver.py is.

`python.exe record_driver.py EXE DIRECTORY SCENARIO`; the recording is DIRECTORY/recording.jsonl.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.wine.driver import Events, Shim, main
from tests.wine.hostprocess_driver import JobShim
from tests.wine.shim_scenarios import FOREVER, refused, shut_down, wait_event

RUNHCS = r"C:\node\runhcs.exe"
EXIT_SECONDS = 60
SECRET = "correct-horse-battery"


class Recording:
    def __init__(self, directory: str) -> None:
        path = os.path.join(directory, "recording.jsonl")
        # It ends with the shim that it records.
        self._process = subprocess.Popen(
            [RUNHCS, "record", "--new", "--until-exit", "-o", path], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("recording "), line

    def wait(self) -> str:
        output, _ = self._process.communicate(timeout=EXIT_SECONDS)
        assert self._process.returncode == 0, output
        return output


def lifecycle(program: str, directory: str) -> Any:
    """A container with an exec, killed; a secret is in its environment."""
    recording = Recording(directory)
    events = Events("record_lifecycle")
    shim = Shim(program, directory, "lifecycle", FOREVER, events)
    task = shim.start()
    task.create()
    task.start()
    process = {"cwd": "C:\\", "commandLine": "cmd /c exit 7", "args": [], "user": {}, "env": [f"TOKEN={SECRET}"]}
    task.exec("e1", process)
    task.start("e1")
    exec_status = task.wait("e1").exit_status
    task.delete("e1")
    task.kill(9)
    status = task.wait().exit_status
    task.delete()
    wait_event(events, "/tasks/delete")
    shut_down(task)
    exited = shim.wait_exited()
    return {"exec_status": exec_status, "status": status, "exited": exited, "output": recording.wait()}


def missing_program(program: str, directory: str) -> Any:
    """A container that HCS cannot start."""
    recording = Recording(directory)
    shim = Shim(program, directory, "missing", "no-such-program.exe", Events("record_missing"))
    task = shim.start()
    task.create()
    code = refused(task.start)
    refused(task.delete)
    shut_down(task)
    return {"code": code, "exited": shim.wait_exited(), "output": recording.wait()}


def host_process(program: str, directory: str) -> Any:
    """A host process container, which uses a job instead of HCS."""
    recording = Recording(directory)
    events = Events("record_host_process")
    shim = JobShim(program, directory, "hostprocess", f"cmd /c set X={SECRET}& exit 9", events)
    task = shim.start()
    task.create()
    task.start()
    status = task.wait().exit_status
    task.delete()
    wait_event(events, "/tasks/delete")
    shut_down(task)
    exited = shim.wait_exited()
    return {"status": status, "exited": exited, "output": recording.wait()}


if __name__ == "__main__":
    main(lifecycle, missing_program, host_process)
