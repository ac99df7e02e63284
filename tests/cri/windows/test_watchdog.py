"""What the watchdog reports about a spec that takes too long."""

from __future__ import annotations

import pytest

from runhcs.containerd.api.cri import pod_pb2
from tests.cri.windows.critest import PASSED, Critest
from tests.cri.windows.node import SHIMS
from tests.cri.windows.run import started_node

VERSION_SPEC = "[k8s.io] Runtime info runtime should support returning runtime info runtime should return version info"


@pytest.mark.timeout(400)
@pytest.mark.parametrize("shim", SHIMS)
def test_watchdog_reports_stacks_of_shim_and_containerd(shim: str) -> None:
    with started_node(shim) as node:
        critest = Critest(node)
        critest.wait_until_ready()
        metadata = pod_pb2.PodSandboxMetadata(name="watched", uid="watched", namespace="default")
        config = pod_pb2.PodSandboxConfig(metadata=metadata)
        pod = node.call("RunPodSandbox", config=config, runtime_handler="runhcs-process").pod_sandbox_id
        outcome = critest.run(f"{VERSION_SPEC} [Conformance]", watch_time=0)
        assert outcome.state == PASSED, outcome.message
        systems, _, rest = outcome.diagnosis.partition("-- shims (0)")
        stacks, _, goroutines = rest.partition("-- containerd (0)")
        assert pod in systems
        assert pod in stacks
        assert "ttrpc" in stacks  # a thread of our shim, or a goroutine of Microsoft's, serves it
        assert "goroutine 1 [" in goroutines
        assert node.remove_pods() == ""
