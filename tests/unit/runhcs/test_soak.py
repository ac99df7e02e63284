"""`runhcs soak`: what counts as growth, which events are accounted for, and the page."""

from __future__ import annotations

import random
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from runhcs.__main__ import build_parser
from runhcs.soak import report
from runhcs.soak.events import RESPONSE_SECONDS, AccountError, EventAccounts, exec_events, task_events
from runhcs.soak.run import Outcome, Plan
from runhcs.soak.samples import LEAST_SAMPLES, trend
from runhcs.task_events import KINDS, SERVICE, TASKS
from shim.api.events_ttrpc import Envelope, ForwardRequest
from shim.api.wellknown import Any as PackedAny
from shim.api.wellknown import Timestamp
from shim.platform import endpoint
from shim.ttrpc.client import Client

PLAN = Plan(3600.0, 10, 100, 2, 7, 10.0, 10.0, 300.0)


@pytest.mark.parametrize(
    ("limits", "counts", "leads"),
    [
        ((10, 100), (3, 10), (0.2, 0.0)),
        ((10, 100), (1, 40), (0.0, 0.3)),
        ((10, 100), (5, 50), (0.0, 0.0)),
        ((10, 0), (5, 50), (0.0, 0.0)),  # probes go on until the lifecycles are done
        ((0, 0), (5, 50), (0.0, 0.0)),
    ],
)
def test_lead_is_the_part_of_the_run_by_which_work_is_ahead(
    limits: tuple[int, int], counts: tuple[int, int], leads: tuple[float, float]
) -> None:
    plan = evolve(PLAN, lifecycles=limits[0], probes=limits[1])
    done = dict(zip(("lifecycles", "probes"), counts, strict=True))
    assert (plan.lead("lifecycles", done), plan.lead("probes", done)) == pytest.approx(leads)


def series(count: int, growth: float, noise: float = 0.0, base: float = 100.0) -> list[tuple[float, float]]:
    """Samples of one hour; `growth` is that of the whole hour."""
    chance = random.Random(1)
    return [(at / count, base + growth * at / count + chance.gauss(0, noise)) for at in range(count)]


@pytest.mark.parametrize("growth", [20.0, 3.0])
def test_steady_growth_is_significant(growth: float) -> None:
    found = trend("shim", "handles", series(360, growth, noise=1.0))
    assert found.is_significant and found.slope is not None
    assert found.slope.low <= growth <= found.slope.high
    assert "handles of shim grows by" in found.sentence() and "per hour" in found.sentence()


@pytest.mark.parametrize(
    "points",
    [
        series(360, 0.0),
        series(360, 0.0, noise=5.0),
        series(360, 0.5, noise=0.2),  # less than one handle during the run
        [(hours, 40.0 if hours < 0.2 else 90.0) for hours, _ in series(360, 0.0)],  # while caches fill
        [(hours, 100.0 + (at % 7)) for at, (hours, _) in enumerate(series(360, 0.0))],
    ],
    ids=["constant", "noise", "less than one", "warm-up", "periodic"],
)
def test_no_growth_is_not_significant(points: list[tuple[float, float]]) -> None:
    assert not trend("shim", "handles", points).is_significant


def test_few_samples_have_no_slope() -> None:
    found = trend("shim", "threads", series(LEAST_SAMPLES, 50.0))
    assert found.slope is None and not found.is_significant


def test_memory_must_grow_by_more_than_a_few_pages() -> None:
    assert not trend("shim", "memory", series(360, 100.0, noise=4.0, base=8000.0)).is_significant
    assert trend("shim", "memory", series(360, 1000.0, noise=50.0, base=8000.0)).is_significant


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[tuple[EventAccounts, Client]]:
    accounts = EventAccounts(str(tmp_path / "e"))
    client = Client(endpoint.connect(accounts.address, 10))
    yield accounts, client
    client.close()
    accounts.close()


def forward(client: Client, kind: str, at: float = 0.0, **fields: Any) -> None:
    """`at`: when it happened, in seconds; 0.0: not told."""
    event = KINDS[kind](container_id="c1", **fields)
    packed = PackedAny(type_url=event.FULL_NAME, value=event.encode())
    stamp = Timestamp(seconds=int(at), nanos=int(at % 1 * 1e9)) if at else None
    envelope = Envelope(timestamp=stamp, topic=TASKS + kind, event=packed)
    client.call(SERVICE, "Forward", ForwardRequest(envelope=envelope).encode(), timeout=10)


def test_complete_events_are_settled(accounts: tuple[EventAccounts, Client]) -> None:
    received, client = accounts
    forward(client, "create")
    forward(client, "start")
    for kind in ("exec-added", "exec-started"):
        forward(client, kind, exec_id="e1")
    forward(client, "exit", id="e1", exit_status=3)
    forward(client, "delete", id="e1", exit_status=3)
    received.settle("c1", exec_events(3), "e1")
    forward(client, "exit", id="c1", exit_status=7)
    forward(client, "delete", exit_status=7)
    received.settle("c1", task_events(7))
    assert received.unexpected() == [] and received.count == 8


def test_missing_and_wrong_events_are_reported(accounts: tuple[EventAccounts, Client]) -> None:
    received, client = accounts
    forward(client, "create")
    forward(client, "start")
    forward(client, "delete", exit_status=7)
    with pytest.raises(AccountError, match="the events of c1 are create, start, delete 7, not create, start, exit 7"):
        received.settle("c1", task_events(7), timeout=0.01)
    forward(client, "exit", id="e1", exit_status=4)
    with pytest.raises(AccountError, match="exec e1 of c1"):
        received.settle("c1", exec_events(3), "e1", timeout=0.01)


def test_repeated_event_is_unexpected(accounts: tuple[EventAccounts, Client]) -> None:
    received, client = accounts
    for kind, fields in (("create", {}), ("start", {}), ("exit", {"id": "c1"}), ("delete", {})):
        forward(client, kind, **fields)
    received.settle("c1", task_events(0))
    forward(client, "delete")
    assert received.unexpected() == ["c1: delete 0"]


def test_event_whose_response_was_late_may_come_again(accounts: tuple[EventAccounts, Client]) -> None:
    received, client = accounts
    happened = time.time() - 2 * RESPONSE_SECONDS
    forward(client, "create", happened)
    forward(client, "create", happened)
    forward(client, "start", happened)
    forward(client, "exit", happened, id="c1", exit_status=3)
    forward(client, "delete", happened, id="c1", exit_status=3)
    received.settle("c1", task_events(3))
    assert received.repeated == 1 and received.unexpected() == []


@pytest.mark.parametrize("times", [(0.0, 0.0), (10.0, 10.1)], ids=["in time", "published twice"])
def test_event_that_comes_twice_is_an_error(accounts: tuple[EventAccounts, Client], times: tuple[float, float]) -> None:
    received, client = accounts
    now = time.time()
    for ago in times:
        forward(client, "create", now - ago)
    with pytest.raises(AccountError, match="create, create"):
        received.settle("c1", task_events(3, is_started=False), timeout=0.1)
    assert received.repeated == 0


def test_last_event_before_a_restart_may_come_again(accounts: tuple[EventAccounts, Client]) -> None:
    received, client = accounts
    forward(client, "create")
    received.restart()
    client = Client(endpoint.connect(received.address, 10))
    for kind, fields in (("create", {}), ("start", {}), ("exit", {"id": "c1"}), ("delete", {})):
        forward(client, kind, **fields)
    received.settle("c1", task_events(0))
    client.close()
    received.restart()
    client = Client(endpoint.connect(received.address, 10))
    forward(client, "delete")
    assert received.unexpected() == [] and (received.count, received.repeated) == (4, 2)
    client.close()


def test_events_of_a_killed_shim_do_not_count_later(accounts: tuple[EventAccounts, Client]) -> None:
    received, client = accounts
    forward(client, "create")
    assert received.forget("c1") == [("create", None)]
    forward(client, "start")
    assert received.unexpected() == [] and received.count == 1


def outcome() -> Outcome:
    found = Outcome(seconds=3600.0)
    for hours, value in series(100, 0.0, noise=1.0):
        found.samples.add(hours, "shim of <pod>", {"memory": 8000.0, "handles": value, "threads": 4.0})
    return found


def test_page_is_one_well_formed_file_with_a_chart_for_each_metric() -> None:
    text = report.page(outcome(), PLAN)
    assert "<script" not in text and "http" not in text.replace("http-equiv", "") and "shim of &lt;pod&gt;" in text
    charts = text.split("<svg")[1:]
    assert len(charts) == 3
    for chart in charts:
        ElementTree.fromstring("<svg" + chart.partition("</svg>")[0] + "</svg>")


def test_conclusion_names_the_first_problem_and_the_growth() -> None:
    found = outcome()
    assert report.conclusion(found) == "every exit and event is accounted for, and no slope is significant"
    for hours, value in series(100, 500.0):
        found.samples.add(hours, "emulator", {"handles": value})
    assert report.conclusion(found).startswith("failed: handles of emulator grows by 500")
    found.problems.append("lifecycle pod: an event is missing")
    assert report.conclusion(found) == "failed: lifecycle pod: an event is missing; and 1 more"
    assert report.document(found, PLAN)["passed"] is False


@pytest.mark.parametrize("arguments", [["--hours", "0"], ["--probes", "0"], ["--lifecycles", "x"], ["--workers", "-1"]])
def test_bad_numbers_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser(("soak",)).parse_args(["soak", *arguments])
    assert arguments[0] in capsys.readouterr().err
