"""Run critest with one shim, on a machine with a network of its own, and write the outcome of every spec.

  unshare --net python -m tests.cri.windows.run SHIM OUTPUT [REGULAR EXPRESSION OF SPECS]

The network namespace has only the loopback interface. It also has the address of the pods, since programs under Wine
have the network of the host, and port 80, on which the web server of the specs listens.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import asdict

from tests.cri.windows.critest import Critest, Outcome
from tests.cri.windows.images import build_store
from tests.cri.windows.node import SHIMS, CritestNode, install_programs
from tests.support.oci_registry import Registry
from tests.wine.conftest import Machine

POD_ADDRESS = "10.11.12.13/32"  # of tests/wine/cni.c


@contextmanager
def started_node(shim: str) -> Iterator[CritestNode]:
    """containerd with this shim, on a machine of its own."""
    directory = Path(tempfile.mkdtemp(prefix="critest-"))
    machine = Machine(directory)
    try:
        machine.set_up()
        install_programs(machine)
        with Registry(build_store()) as registry:
            node = CritestNode(machine, shim, registry)
            try:
                yield node
            finally:
                node.stop()
    finally:
        machine.tear_down()
        shutil.rmtree(directory, ignore_errors=True)


def run_specs(node: CritestNode, pattern: str) -> tuple[list[Outcome], str]:
    """The outcomes of all specs that match, and the leaks after them."""
    critest = Critest(node)
    critest.wait_until_ready()
    node.begin()
    outcomes = []
    for spec in critest.list_specs():
        if re.search(pattern, spec):
            outcome = critest.run(spec)
            print(f"{outcome.state:8}{outcome.seconds:6.1f} s  {spec}", flush=True)
            outcomes.append(outcome)
    try:
        node.expect_clean()
    except AssertionError as error:
        return outcomes, str(error)
    return outcomes, ""


def main() -> None:
    shim, output = sys.argv[1:3]
    assert shim in SHIMS, f"the shim is one of {SHIMS}"
    for command in (["link", "set", "lo", "up"], ["addr", "add", POD_ADDRESS, "dev", "lo"]):
        subprocess.run(["ip", *command], check=True)
    with started_node(shim) as node:
        outcomes, leaks = run_specs(node, sys.argv[3] if len(sys.argv) > 3 else "")
    Path(output).write_text(json.dumps({"specs": [asdict(outcome) for outcome in outcomes], "leaks": leaks}, indent=1))


if __name__ == "__main__":
    main()
