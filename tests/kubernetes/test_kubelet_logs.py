"""Logs of containers, as `kubectl logs` reads them from the kubelet."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kubernetes.manifests import SLEEP, container, pod
from tests.kubernetes.standalone import INTERVAL, TIMEOUT, StandaloneKubelet
from tests.support.eventually import eventually


def test_log_has_both_streams_in_order_and_its_last_lines(kubelet: StandaloneKubelet) -> None:
    """A last line without an end is in the log when the process has exited."""
    script = "for i in 1 2 3; do echo out $i; done; sleep 1; echo err >&2; sleep 1; printf incomplete"
    kubelet.run(pod("spoken", container(script=script), restartPolicy="Never"))
    assert kubelet.expect_terminated("spoken")["exitCode"] == 0
    assert kubelet.log("spoken") == "out 1\nout 2\nout 3\nerr\nincomplete"
    assert kubelet.log("spoken", query="?tailLines=2") == "err\nincomplete"
    assert kubelet.log("spoken", query="?limitBytes=4") == "out "
    (line,) = kubelet.log("spoken", query="?tailLines=1&timestamps=true").splitlines()
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z incomplete", line)
    kubelet.remove("spoken")


def test_followed_log_has_each_line_when_it_is_written_and_ends_with_the_container(
    kubelet: StandaloneKubelet, tmp_path: Path
) -> None:
    """The container writes a line for each file that the test makes."""
    script = "for i in 1 2 3; do while [ ! -e /host/$i ]; do sleep 0.1; done; echo line $i; done"
    volume = {"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}}
    main = container(script=script, volumeMounts=[{"name": "host", "mountPath": "/host"}])
    kubelet.run(pod("followed", main, container("other"), volumes=[volume], restartPolicy="Never"))
    kubelet.expect_ready("followed")
    with kubelet.follow_log("followed") as log:
        for number in (b"1", b"2", b"3"):
            (tmp_path / number.decode()).touch()
            assert log.readline() == b"line " + number + b"\n"
        assert log.read() == b""
    assert kubelet.expect_terminated("followed")["exitCode"] == 0
    kubelet.remove("followed")


def test_log_of_the_previous_container_is_kept(kubelet: StandaloneKubelet) -> None:
    """Every run says which it is."""
    volumes = [{"name": "count", "emptyDir": {}}]
    script = f"echo x >> /count/runs; n=$(wc -l < /count/runs); echo run $n; [ $n = 2 ] || exit 1; {SLEEP}"
    main = container(script=script, volumeMounts=[{"name": "count", "mountPath": "/count"}])
    kubelet.run(pod("again", main, volumes=volumes))
    kubelet.expect_restarts("again", 1)
    kubelet.expect_ready("again")
    eventually(lambda: kubelet.log("again") == "run 2\n", "the log of the second run", TIMEOUT, INTERVAL)
    assert kubelet.log("again", query="?previous=true") == "run 1\n"
    kubelet.remove("again")


def test_long_lines_are_complete(kubelet: StandaloneKubelet) -> None:
    """CRI splits lines of more than 16 KiB, and the kubelet joins them."""
    line = "printf '%s ' $i; head -c 40000 /dev/zero | tr '\\0' x; echo"
    script = f"i=0; while [ $i -lt 200 ]; do i=$((i+1)); {line}; done"
    kubelet.run(pod("long", container(script=script), restartPolicy="Never"))
    assert kubelet.expect_terminated("long")["exitCode"] == 0
    lines = kubelet.log("long").splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(1, 201))
    assert {len(line.split()[1]) for line in lines} == {40_000}
    kubelet.remove("long")
