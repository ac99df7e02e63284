"""The journal, faults, latency profiles and the control socket, through `runhcs emulator`."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import documents
from tests.support.emulator import Emulator
from tests.support.eventually import eventually
from tests.support.wire_client import EXITED, WireClient


def runhcs(emulator: Emulator, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runhcs", "emulator", *arguments]
    return subprocess.run(command, env=emulator.env, capture_output=True, text=True, timeout=60)


def test_journal_records_calls_results_and_events(emulator: Emulator) -> None:
    with WireClient(emulator.directory) as client:
        document = documents.container(Memory={"SizeInMB": 64})
        handle = client.ok("HcsCreateComputeSystem", "web", document).handle
        client.ok("HcsSetComputeSystemCallback", handle=handle)
        client.call("HcsCreateComputeSystem", "web", documents.container())
        client.ok("HcsTerminateComputeSystem", None, handle=handle)
        client.wait_event(handle, EXITED)
    created, refused = emulator.journal("HcsCreateComputeSystem")
    assert created["arguments"] == {"id": "web", "configuration": document}
    assert (created["result"], created["error_events"], created["client_pid"]) == ("0x00000000", [], os.getpid())
    assert created["duration_us"] >= 0 and created["time"].endswith("Z")
    assert refused["result"] == "0x8037010F"
    assert "web" in refused["error_events"][0]["Message"]
    assert emulator.journal("HcsTerminateComputeSystem")[0]["arguments"] == {"computeSystem": "web", "options": None}
    (event,) = emulator.journal(event="SystemExited")
    assert (event["target"], event["document"]["ExitType"]) == ("web", "ForcedExit")
    seqs = [entry["seq"] for entry in emulator.journal()]
    assert sorted(seqs) == list(range(1, len(seqs) + 1))


def test_journal_follow_prints_new_calls(emulator: Emulator) -> None:
    command = [sys.executable, "-m", "runhcs", "emulator", "journal", "-f"]
    with subprocess.Popen(command, env=emulator.env, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        with WireClient(emulator.directory) as client:
            # The follower is connected once it has printed a line.
            os.set_blocking(follower.stdout.fileno(), False)

            def seen() -> str:
                client.ok("HcsEnumerateComputeSystems", None)
                return follower.stdout.readline() if follower.stdout is not None else ""

            line = json.loads(eventually(seen, "a line of the journal"))
        assert line["call"] == "HcsEnumerateComputeSystems"
        follower.terminate()


def test_fault_fails_the_nth_call(emulator: Emulator) -> None:
    assert (
        runhcs(
            emulator, "fault", "add", "--call", "HcsStartComputeSystem", "--nth", "2", "--error", "0x80370109"
        ).returncode
        == 0
    )
    with WireClient(emulator.directory) as client:
        codes = []
        for name in ("one", "two", "three"):
            handle = client.ok("HcsCreateComputeSystem", name, documents.container()).handle
            codes.append(client.call("HcsStartComputeSystem", None, handle=handle).hresult)
            client.ok("HcsTerminateComputeSystem", None, handle=handle)
        assert codes == [0, 0x80370109, 0]
    listed = json.loads(runhcs(emulator, "fault", "list").stdout)
    assert (listed["seen"], listed["triggered"], listed["error"]) == (3, 1, "0x80370109")
    assert runhcs(emulator, "fault", "clear").stdout == "1 removed\n"
    assert runhcs(emulator, "fault", "list").stdout == ""


def test_fault_delays_and_disconnects(emulator: Emulator) -> None:
    emulator.fault("HcsEnumerateComputeSystems", nth=1, delay=5)
    emulator.fault("HcsGetServiceProperties", disconnect=True)
    with WireClient(emulator.directory) as client:
        slow = client.begin("HcsEnumerateComputeSystems", None)
        client.ok("NameToGuid", "others go on meanwhile")
        assert slow not in client._responses
        assert client.finish(slow).hresult == 0
        with pytest.raises(ConnectionError):
            client.call("HcsGetServiceProperties", None)
    duration = emulator.journal("HcsEnumerateComputeSystems")[0]["duration_us"]
    assert duration >= 5_000_000
    with WireClient(emulator.directory) as client:
        client.ok("HcsEnumerateComputeSystems", None)


@pytest.mark.parametrize("when", ["before", "after"])
def test_fault_kills_the_client(emulator: Emulator, when: str) -> None:
    assert runhcs(emulator, "fault", "add", "--call", "*", "--nth", "2", "--kill-client", when).returncode == 0
    calls = (
        "import sys; from pathlib import Path; from tests.support.wire_client import WireClient\n"
        "with WireClient(Path(sys.argv[1])) as client:\n"
        "    client.ok('NameToGuid', 'x'); client.ok('HcsEnumerateComputeSystems', None)\n"
        "    import time; time.sleep(60)\n"
    )
    client = subprocess.run([sys.executable, "-c", calls, emulator.directory], timeout=60, check=False)
    assert client.returncode == -9
    assert emulator.journal("HcsEnumerateComputeSystems")[0]["result"] == "0x00000000"  # it was carried out
    with WireClient(emulator.directory) as other:
        other.ok("HcsEnumerateComputeSystems", None)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ({"call": "HcsDance", "error": 0x80370109}, "HcsDance"),
        ({"call": "HcsStartComputeSystem"}, "does nothing"),
        ({"call": "HcsStartComputeSystem", "error": 5}, "HRESULT"),
        ({"call": "HcsStartComputeSystem", "error": 0x80370109, "nth": 0}, "counts from 1"),
        ({"call": "HcsStartComputeSystem", "delay": -1}, "delay"),
        ({"call": "*", "kill_client": "perhaps"}, "before or after"),
    ],
)
def test_fault_without_effect_is_refused(emulator: Emulator, fault: dict[str, object], problem: str) -> None:
    answer = emulator.request("fault-add", **fault)
    assert not answer["ok"] and problem in answer["error"]


def test_latency_profile_delays_calls(emulator: Emulator, tmp_path: Path) -> None:
    profile = tmp_path / "slow.toml"
    profile.write_text(
        'name = "slow"\n[calls]\nHcsEnumerateComputeSystems = 0.1\nNameToGuid = { median = 0.05, spread = 0.001 }\n'
    )
    assert runhcs(emulator, "profile", "set", str(profile)).returncode == 0
    with WireClient(emulator.directory) as client:
        client.ok("HcsEnumerateComputeSystems", None)
        client.ok("NameToGuid", "x")
        assert runhcs(emulator, "profile", "clear").returncode == 0
        client.ok("HcsEnumerateComputeSystems", None)
    slow, quick = (entry["duration_us"] for entry in emulator.journal("HcsEnumerateComputeSystems"))
    assert slow >= 100_000 > quick
    assert emulator.journal("NameToGuid")[0]["duration_us"] >= 40_000
    profile.write_text("[calls]\nHcsDance = 1\n")
    refused = runhcs(emulator, "profile", "set", str(profile))
    assert refused.returncode == 1 and "HcsDance" in refused.stderr


def test_sockets_are_accessible_to_their_owner_only(emulator: Emulator) -> None:
    assert stat.S_IMODE(emulator.directory.stat().st_mode) == 0o700
    for name in ("hcs.sock", "control.sock"):
        assert stat.S_IMODE((emulator.directory / name).stat().st_mode) == 0o600


def test_start_status_and_stop_commands(tmp_path: Path) -> None:
    directory = Path("/tmp") / f"hcs-cli-{os.getpid()}"
    env = os.environ | {"HCS_EMULATOR_DIR": str(directory)}

    def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "runhcs", "emulator", *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

    assert "runhcs emulator start" in cli("status").stderr
    try:
        started = cli("start", "--journal", str(tmp_path / "journal"), "--build", "26100")
        assert started.returncode == 0, started.stderr
        assert "already" in cli("start").stdout
        status = json.loads(cli("status", "--json").stdout)
        assert (status["build"], status["systems"]) == (26100, [])
        assert "26100" in cli("status").stdout
    finally:
        stopped = cli("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert cli("status").returncode == 1
    subprocess.run(["rm", "-r", str(directory)], check=True)


def test_second_service_of_a_directory_exits(emulator: Emulator) -> None:
    command = [sys.executable, "-m", "hcs_emulator.service", "--directory", str(emulator.directory)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert second.returncode == 3 and "stop it first" in second.stderr
    with WireClient(emulator.directory) as client:
        client.ok("HcsEnumerateComputeSystems", None)


def test_instances_are_independent(start_emulator: Callable[..., Emulator]) -> None:
    one, two = start_emulator(), start_emulator()
    with WireClient(one.directory) as first, WireClient(two.directory) as second:
        first.ok("HcsCreateComputeSystem", "same", documents.container())
        second.ok("HcsCreateComputeSystem", "same", documents.container())
        assert second.call("HcsOpenComputeSystem", "other", number=0x10000000).hresult == 0x8037010E


def test_service_starts_after_a_killed_one(start_emulator: Callable[..., Emulator]) -> None:
    emulator = start_emulator()
    with WireClient(emulator.directory) as client:
        handle = client.ok("HcsCreateComputeSystem", "one", documents.container()).handle
        client.ok("HcsStartComputeSystem", None, handle=handle)
        carried = emulator.descendants()
        assert carried
        emulator.process.kill()
        emulator.process.wait()
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in carried), "the end of its silos")
    command = [sys.executable, "-m", "hcs_emulator.service", "--directory", str(emulator.directory)]
    with subprocess.Popen(command) as again:
        deadline = time.monotonic() + 60
        while True:
            try:
                with WireClient(emulator.directory) as client:
                    assert client.ok("HcsEnumerateComputeSystems", None).document == []
                break
            except (OSError, AssertionError):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        again.terminate()
