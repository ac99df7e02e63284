"""A guest that answers with members of the wrong type: everything in its VM has exited, and the VM does not run on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.container.ledger import Ledger
from shim.ttrpc.status import StatusError
from shim.uvm.gcs import protocol
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.shims import Shims
from tests.support.vm_image import SLEEP, VmShims

# Far less than the timeouts with which the shim notices a guest that does not answer.
SOON = 25.0

# In the guest's process: change what it answers, as the file says.
PATCH = """
import json, os
from hcs_emulator.vm import bridge_frames

original = bridge_frames.encode

def encode(frame_type, number, message):
    try:
        with open(os.environ["HOSTILE_GUEST"]) as file:
            answers = json.load(file)
    except OSError:
        answers = {}
    if frame_type & bridge_frames.KIND == bridge_frames.RESPONSE:
        message = {**message, **answers.get(str(frame_type & bridge_frames.PROCEDURE), {})}
    return original(frame_type, number, message)

bridge_frames.encode = encode
"""


class HostileVms(VmShims):
    answers: Path

    def answer(self, procedure: int, **members: Any) -> None:
        """From now on the guest answers so."""
        new = self.answers.with_suffix(".new")
        new.write_text(json.dumps({str(procedure): members}))
        new.rename(self.answers)

    def expect_clean(self, *bundles: str) -> None:
        eventually(lambda: not self.workers() and not self.leaked(), f"no VM, there is {self.leaked()}", SOON)
        for bundle in bundles:
            assert Ledger(bundle).entries() == []


@pytest.fixture
def hostile(
    start_emulator: Callable[..., Emulator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HostileVms]:
    (tmp_path / "sitecustomize.py").write_text(PATCH)
    monkeypatch.setenv("HOSTILE_GUEST", str(tmp_path / "answers"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    emulator = start_emulator()
    monkeypatch.undo()
    shims = Shims(emulator.env)
    vms = HostileVms(emulator, shims)
    vms.answers = tmp_path / "answers"
    yield vms
    shims.close()


@pytest.mark.parametrize("members", [{"ExitCode": [1]}, {"ExitCode": "x"}, {"Result": "x"}, {"Result": 1e300}])
def test_ill_typed_exit_ends_the_vm(hostile: HostileVms, members: dict[str, Any]) -> None:
    """Otherwise no exit in the pod would be noticed any more."""
    pod = hostile.pod()
    first = hostile.run_in(pod, "c1", *SLEEP)
    second = hostile.run_in(pod, "c2", *SLEEP)
    hostile.answer(protocol.WAIT_FOR_PROCESS, **members)
    first.kill(9)
    for shim in (first, second, pod):
        assert shim.wait(timeout=SOON).exit_status
        shim.delete()
    hostile.expect_clean(first.bundle, second.bundle, pod.bundle)


@pytest.mark.parametrize("procedure", [protocol.SHUTDOWN_GRACEFUL, protocol.MODIFY_SETTINGS])
@pytest.mark.parametrize("members", [{"Result": "x"}, {"Result": [1]}, {"ErrorRecords": 5}])
def test_ill_typed_answer_during_teardown_does_not_keep_the_vm(
    hostile: HostileVms, procedure: int, members: dict[str, Any]
) -> None:
    shim = hostile.run("c1", *SLEEP)
    hostile.answer(procedure, **members)
    shim.kill(9)
    assert shim.wait(timeout=SOON).exit_status
    hostile.expect_clean(shim.bundle)
    hostile.events.expect(["create c1", "start c1", "exit c1"], "c1")
    shim.delete()


@pytest.mark.parametrize("named", ["../escaped", "{directory}/escaped", "a42e7cda-d03f-480c-9cc2-a4de20abb878"])
def test_address_that_is_no_guid_is_not_published(hostile: HostileVms, named: str) -> None:
    """The shim creates a file, on Windows an entry of a driver, of the name that the guest reports for a container."""
    directory = hostile.emulator.directory
    guid = named.format(directory=directory)
    hostile.answer(protocol.GET_PROPERTIES, Properties=json.dumps({"SystemGUID": guid}))
    shim = hostile.run("c1", *SLEEP)
    assert not (directory / "escaped").exists()
    addresses = directory / "hvsock-addresses"
    assert not addresses.exists() or not list(addresses.iterdir())
    shim.kill(9)
    shim.wait(timeout=SOON)
    shim.delete()
    hostile.expect_clean(shim.bundle)


def test_ill_typed_process_id_fails_exec_at_once(hostile: HostileVms) -> None:
    shim = hostile.run("c1", *SLEEP)
    hostile.answer(protocol.EXECUTE_PROCESS, ProcessId="1001")
    shim.exec("e1", hostile.shims.process(*SLEEP))
    begun = time.monotonic()
    with pytest.raises(StatusError):
        shim.start("e1")
    assert time.monotonic() - begun < SOON
    assert shim.wait(timeout=SOON).exit_status
    hostile.expect_clean(shim.bundle)
    shim.delete()
