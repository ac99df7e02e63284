"""Keep the shim of this image installed on this node, or removed from it. The DaemonSet of deploy/ runs it.

  runhcs node-install --node NAME                    install, upgrade and repair
  runhcs node-install --node NAME --mode uninstall   remove
  runhcs node-install --once --no-report             one pass, without Kubernetes; the exit code is 1 if it fails

A pass copies the files, runs `runhcs selftest` with them, switches containerd's runtimes, restarts containerd if its
configuration has changed, and runs `runhcs doctor`. A version that fails is rolled back. Running pods keep their shim.
The node gets the labels containerd-shim-runhcs/ready, state and version, and the annotation
containerd-shim-runhcs/reason; docs/how-to/kubernetes.md describes them.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

from runhcs import shims
from runhcs.installation import LIBRARY
from runhcs.node.cluster import Cluster, ClusterError
from runhcs.node.host import Host
from runhcs.node.readiness import Readiness
from runhcs.node.reconcile import Reconciler, Status
from runhcs.node.record import Record

INTERVAL_SECONDS = 300.0
# The API server may be away for a while; a label must not wait for the next pass.
REPORT_SECONDS = 15.0


def configure(parser: argparse.ArgumentParser) -> None:
    programs = os.environ.get("ProgramFiles", r"C:\Program Files")  # noqa: SIM112  # Windows' own spelling
    directory = rf"{programs}\{LIBRARY}" if shims.WINDOWS else f"/opt/{LIBRARY}"
    parser.add_argument("--mode", choices=("install", "uninstall"), default="install", help="default: %(default)s")
    parser.add_argument("--node", metavar="NAME", default=os.environ.get("NODE_NAME", ""), help="this node's name")
    parser.add_argument("--directory", metavar="DIR", default=directory, help="where to install (default: %(default)s)")
    parser.add_argument("--config", metavar="FILE", default="", help="containerd's configuration")
    parser.add_argument("--service", metavar="NAME", default="", help="the service of containerd")
    parser.add_argument("--restart-command", metavar="COMMAND", default="", help="how to restart containerd (Linux)")
    parser.add_argument(
        "--runtime", action="append", metavar="NAME", default=[], help="add this runtime; may be repeated"
    )
    parser.add_argument(
        "--selftest", action=argparse.BooleanOptionalAction, default=True,
        help="run `runhcs selftest` with a version before containerd uses it",
    )  # fmt: skip
    parser.add_argument(
        "--selftest-step", action="append", metavar="NAME", default=[], help="run only this step; may be repeated"
    )
    parser.add_argument("--retry", metavar="TEXT", default="", help="another value tries a failed version again")
    parser.add_argument("--once", action="store_true", help="one pass, then exit")
    parser.add_argument("--report", action=argparse.BooleanOptionalAction, default=True, help="label the node")
    parser.add_argument("--api-server", metavar="URL", default="", help="default: that of the pod's environment")
    parser.add_argument("--port", type=int, default=0, help="serve the readiness probe on this port of the loopback")
    parser.add_argument(
        "--interval", type=float, default=INTERVAL_SECONDS, metavar="SECONDS",
        help="time between passes (default: %(default).0f)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    if args.report and not args.node:
        print("runhcs node-install: the name of the node is missing: --node, or NODE_NAME", file=sys.stderr)
        return 2
    return Agent(args).run()


class Agent:
    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._stopped = threading.Event()
        self._cluster = Cluster(args.node, args.api_server) if args.report else None
        self._readiness = Readiness(args.port) if args.port else None
        self._logged: Status | None = None
        self._unreported: Status | None = None
        selftest_options = [word for name in args.selftest_step for word in ("--step", name)]
        self._reconciler = Reconciler(
            Host(_install_options(args), args.config, selftest_options),
            Record(Path(args.directory), time.time),
            self.report,
            runtimes=args.runtime,
            retry=args.retry,
            selftest=args.selftest,
        )

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stopped.set())
        while True:
            status = self._reconciler.install() if self._args.mode == "install" else self._reconciler.uninstall()
            self.report(status)
            if self._args.once:
                return 0 if status.is_done else 1
            if self._is_stopped_within(self._args.interval):
                return 0

    def _is_stopped_within(self, seconds: float) -> bool:
        """Wait for the next pass; a report that failed is repeated meanwhile."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self._stopped.wait(min(left, REPORT_SECONDS) if self._unreported else left):
                return True
            if self._unreported is not None:
                self.report(self._unreported)
        return self._stopped.is_set()

    def report(self, status: Status) -> None:
        if status != self._logged:
            self._logged = status
            line = f"{status.state} {status.version}".strip()
            _log(f"{line}: {status.text}" if status.text else line)
        if self._readiness is not None:
            self._readiness.status = status
        if self._cluster is None:
            return
        try:
            self._cluster.report(status)
            self._unreported = None
        except ClusterError as error:
            if self._unreported is None:
                _log(f"the node is not labelled: {error}; it is tried again every {REPORT_SECONDS:.0f} s")
            self._unreported = status


def _install_options(args: argparse.Namespace) -> list[str]:
    options = ["--directory", args.directory]
    given = {"--config": args.config, "--service": args.service, "--restart-command": args.restart_command}
    for name, value in given.items():
        options += [name, value] if value else []
    for name in args.runtime:
        options += ["--runtime", name]
    return options


def _log(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} runhcs node-install: {text}", flush=True)
