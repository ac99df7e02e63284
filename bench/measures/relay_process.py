"""The process that `relay_throughput` measures: the shim's relay from stdin to stdout.

`python -m bench.measures.relay_process`. A module of its own, since its start counts: it imports nothing else.
"""

from __future__ import annotations

from threading import Event

from shim.platform.stdio_endpoints import Pump, Relay, duplicate


def main() -> None:
    done = Event()
    Relay().add(Pump(duplicate(0), duplicate(1), done.set, survives_sink_failure=True))
    done.wait()


if __name__ == "__main__":
    main()
