"""`runhcs.exe soak` from the zip, for as long as wanted: `make soak-wine ARGS="--hours 2"`.

A machine as in the tests, and the options of `runhcs soak`. Under Wine the soak cannot see the emulator, which is
a process of Linux. So this program samples it, and judges its slopes as the soak judges those of the shims.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from runhcs import process_stats
from runhcs.reports import as_json
from runhcs.soak.samples import Samples
from tests.wine.conftest import ROOT, Machine

SAMPLE_SECONDS = 10.0


def run(machine: Machine, output: Path, arguments: list[str]) -> int:
    command = ["wine", r"C:\node\runhcs.exe", "soak", "--layers", machine.base_layer(), "--json", r"C:\soak.json"]
    command += ["--html", r"C:\soak.html", *arguments]
    samples = Samples()
    begun = time.monotonic()
    # A pipe: Wine's Python cannot use a file of Linux. Programs that a shim starts may keep it open.
    soak = subprocess.Popen(
        command, env=machine.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    log = threading.Thread(target=copy, args=(soak, output / "soak.log"), daemon=True)
    log.start()
    try:
        while soak.poll() is None:
            for values in process_stats.usage([machine.service_pid]).values():
                samples.add((time.monotonic() - begun) / 3600, "emulator", values)
            try:
                soak.wait(SAMPLE_SECONDS)
            except subprocess.TimeoutExpired:
                continue
    finally:
        soak.kill()
    log.join(SAMPLE_SECONDS)
    for name in ("soak.json", "soak.html"):
        if (machine.drive / name).exists():
            shutil.copy(machine.drive / name, output)
    trends = samples.trends()
    points = {metric: series for (_, metric), series in samples.points.items()}
    (output / "emulator.json").write_text(as_json({"trends": trends, "series": points}))
    for trend in trends:
        slope = "too few samples" if trend.slope is None else trend.slope.text(".4g")
        print(f"emulator {trend.metric}: median {trend.median:.6g} {trend.unit}, slope per hour {slope}")
    growing = [trend.sentence() for trend in trends if trend.is_significant]
    for sentence in growing:
        print(f"problem: {sentence}")
    print(f"results are in {output}")
    return soak.returncode or (1 if growing else 0)


def copy(soak: subprocess.Popen[bytes], path: Path) -> None:
    """Its output, to stdout and to a file."""
    assert soak.stdout is not None
    with open(path, "wb", buffering=0) as log:
        for line in soak.stdout:
            log.write(line)
            print(line.decode(errors="replace"), end="", flush=True)


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    output = ROOT / "build" / "soak-wine"
    output.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="wine-"))
    machine = Machine(directory)
    try:
        machine.set_up()
        return run(machine, output, sys.argv[1:])
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.copy(directory / "service.log", output)
        machine.tear_down()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
