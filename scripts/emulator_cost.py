"""What compute systems cost the emulator: create and remove many, and watch the service's descriptors, threads and
memory.

    python scripts/emulator_cost.py [ROUNDS]

Uses a private emulator in a temporary directory. Each round creates a container, starts it, runs `cmd /c echo hello`,
terminates it.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

DOCUMENT = {"SchemaVersion": {"Major": 2, "Minor": 1}, "Owner": "cost", "Container": {}}
IDLE = 200


def cost(pid: int) -> tuple[int, int, int]:
    """Descriptors, threads and resident KiB."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"]), int(status["VmRSS"].split()[0])


def show(what: str, pid: int) -> None:
    descriptors, threads, memory = cost(pid)
    print(f"{what:>12}  {descriptors:4} descriptors  {threads:2} threads  {memory:7} KiB", flush=True)


def run(directory: Path, rounds: int) -> None:
    # The library is found, and bound, when it is imported: the environment has to be set before.
    from runhcs.emulator import command
    from shim.hcs_bindings.system import ComputeSystem

    pid = int(command(str(directory), "status")["pid"])
    show("start", pid)
    before = cost(pid)[2]
    idle = [ComputeSystem.create(f"idle{number}", DOCUMENT) for number in range(IDLE)]
    print(f"an idle compute system: {(cost(pid)[2] - before) / IDLE:.1f} KiB")
    for system in idle:
        system.terminate()
        system.close()
    for number in range(rounds):
        with ComputeSystem.create(f"round{number}", DOCUMENT) as system:
            system.start()
            parameters = {"CommandLine": "cmd /c echo hello", "CreateStdOutPipe": True}
            with system.create_process(parameters) as process, os.fdopen(process.stdout, "rb") as output:
                assert output.read() == b"hello\r\n"
            system.terminate()
        if (number + 1) % max(1, rounds // 10) == 0:
            show(f"round {number + 1}", pid)
    durations: dict[str, list[int]] = {}
    for line in (directory / "journal.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "call" in entry:
            durations.setdefault(entry["call"], []).append(entry["duration_us"])
    for call, values in sorted(durations.items()):
        print(f"{call:36} median {statistics.median(values):8.0f} us in the service, {len(values)} calls")


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    directory = Path(tempfile.mkdtemp(prefix="hcs-", dir="/tmp"))
    os.environ["HCS_EMULATOR_DIR"] = str(directory)
    command = [sys.executable, "-m", "runhcs", "emulator"]
    subprocess.run([*command, "start", "--journal", directory / "journal.jsonl"], check=True)
    try:
        run(directory, rounds)
    finally:
        subprocess.run([*command, "stop"], check=True)
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
