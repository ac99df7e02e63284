"""`runhcs agent` without shims: reports, settings, the HTTP server, and the files of deploy/observability."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from runhcs.agent.http_server import HttpServer, HttpSettings, SettingsError, parse_address
from runhcs.agent.node_metrics import NodeMetrics
from runhcs.agent.report import ReportError, read_report
from runhcs.agent.report_metrics import ReportMetrics
from shim import telemetry
from shim.spans import Root
from tests.support.promtool import DEPLOY, promtool_program

IDENTITY = {"version": "1", "pid": 7, "namespace": "tests", "id": "c1", "is_sandbox": False, "start": "cold", "new": 1}


def root(name: str = "rpc Create", **fields: Any) -> Root:
    made = Root(name, "c1")
    made.begin, made.end = 1000, 3000
    for key, value in fields.items():
        setattr(made, key, value)
    return made


def encoded(*records: Any, dropped: int = 0) -> str:
    return telemetry.encode(IDENTITY, list(records), dropped)


def test_report_of_a_shim_is_read() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    made = root(
        metadata=[("TraceParent", trace), ("other", "x")], children=[("hcs HcsThing", 1100, 1200, (0x80370109, ""))]
    )
    report = read_report(encoded(made, (5, "/tasks/exit", {"id": "c1"}), dropped=3))
    (found,) = report.roots
    assert (found.kind, found.label, found.task, found.trace) == ("rpc", "Create", "c1", (trace,))
    assert found.end - found.begin == 2000 and found.begin > 10**18  # of the wall clock
    (child,) = found.children
    assert child.kind == "call" and child.failure is not None and child.failure.name == "HCS_E_CONNECTION_TIMEOUT"
    assert child.failure.next_step
    assert report.dropped == 3 and report.events[0].topic == "/tasks/exit" and report.shim.id == "c1"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", '{"version":2}', encoded().replace('"pid":7', '"pid":"x"'),
     encoded().replace('"dropped":0', '"dropped":-1'), encoded(root()).replace('"rpc Create"', "5"), "[" * 100_000],
    ids=["empty", "list", "null", "version", "pid", "dropped", "label", "nested"],
)  # fmt: skip
def test_hostile_report_is_refused(text: str) -> None:
    with pytest.raises(ReportError):
        read_report(text)


def test_metrics_of_reports() -> None:
    registry = CollectorRegistry()
    metrics = ReportMetrics(registry)
    failed = root("rpc Start", failure=(5, "StatusError"), children=[("guest Create", 1100, 1200, (0xC0370109, ""))])
    exits = [(5, "/tasks/exit", {"container_id": "c1", "id": one, "exit_status": 1}) for one in ("c1", "exec")]
    metrics.add(read_report(encoded(failed, root("start"), *exits, (6, "/tasks/oom", {}), dropped=2)))
    value = registry.get_sample_value
    assert value("runhcs_rpc_errors_total", {"method": "Start", "code": "NotFound"}) == 1
    labels = {"call": "Create", "code": "0xC0370109", "name": "HCS_E_CONNECTION_TIMEOUT"}
    assert value("runhcs_hcs_errors_total", labels) == 1
    assert value("runhcs_task_exits_total", {"result": "failure"}) == 1  # not that of the exec
    assert value("runhcs_oom_kills_total") == 1
    assert value("runhcs_shim_starts_total", {"kind": "cold"}) == 1
    assert value("runhcs_telemetry_dropped_total", {"where": "shim"}) == 2


@pytest.mark.parametrize(
    ("text", "result"), [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:9754", ("::1", 9754)), ("host:1", ("host", 1))]
)
def test_addresses(text: str, result: tuple[str, int]) -> None:
    assert parse_address(text) == result


@pytest.mark.parametrize("text", ["", "host", ":1", "host:", "host:x"])
def test_wrong_address_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"127\.0\.0\.1:9754"):
        parse_address(text)


def test_other_addresses_than_loopback_need_tls_and_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("short")
    with pytest.raises(SettingsError, match="--token-file"):
        HttpSettings("0.0.0.0", 0).check()
    with pytest.raises(SettingsError, match="--tls-key"):
        HttpSettings("127.0.0.1", 0, certificate="c").check()
    with pytest.raises(SettingsError, match="shorter"):
        HttpSettings("::", 0, "c", "k", str(token)).check()
    token.write_text("0123456789abcdef\n")
    HttpSettings("::", 0, "c", "k", str(token)).check()
    HttpSettings("localhost", 0).check()


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[tuple[HttpServer, Path]]:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=tmp_path, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    (tmp_path / "token").write_text("0123456789abcdef")
    settings = HttpSettings(
        "127.0.0.1", 0, str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"), str(tmp_path / "token")
    )
    registry = CollectorRegistry()
    ReportMetrics(registry)
    server = HttpServer(settings, registry)
    yield server, tmp_path
    server.close()


def get(server: HttpServer, directory: Path, path: str, token: str = "") -> tuple[int, bytes]:
    request = urllib.request.Request(f"https://127.0.0.1:{server.port}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    context = ssl.create_default_context(cafile=str(directory / "cert.pem"))
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""


def test_https_with_token(tls: tuple[HttpServer, Path]) -> None:
    server, directory = tls
    assert get(server, directory, "/metrics")[0] == 401
    assert get(server, directory, "/metrics", "0123456789abcdeX")[0] == 401
    code, body = get(server, directory, "/metrics", "0123456789abcdef")
    assert code == 200 and b"runhcs_oom_kills_total 0.0" in body
    assert get(server, directory, "/other", "0123456789abcdef")[0] == 404
    assert get(server, directory, "/healthz") == (200, b"200 OK\n")
    (directory / "token").write_text("rotated-0123456789")
    assert get(server, directory, "/metrics", "0123456789abcdef")[0] == 401
    assert get(server, directory, "/metrics", "rotated-0123456789")[0] == 200


def test_clients_that_send_nothing_or_garbage_do_not_stop_the_server(tls: tuple[HttpServer, Path]) -> None:
    server, directory = tls
    idle = [socket.create_connection(("127.0.0.1", server.port), 30) for _ in range(8)]
    with socket.create_connection(("127.0.0.1", server.port), 30) as garbage:
        garbage.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with suppress(ConnectionResetError):
            assert b"200" not in garbage.recv(1000)
    assert get(server, directory, "/healthz")[0] == 200
    for one in idle:
        one.close()


# The files of deploy/observability.


def exported() -> set[str]:
    """The names of all metrics of the agent."""
    import argparse

    registry = CollectorRegistry()
    ReportMetrics(registry)
    node = NodeMetrics(argparse.Namespace(socket_dir=["/nonexistent"], state=["/nonexistent"], namespace=""))
    registry.register(node)
    names = set()
    for family in registry.collect():
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        names |= {family.name + suffix for suffix in suffixes}
    return names


def expressions() -> list[str]:
    dashboard = json.loads((DEPLOY / "dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    alerts = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())
    return queries + [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]


def test_dashboard_and_alerts_use_metrics_that_the_agent_exports() -> None:
    import re

    used = {name for text in expressions() for name in re.findall(r"\brunhcs_\w+", text)}
    assert used and used <= exported(), used - exported()


def test_dashboard_has_the_form_that_grafana_imports() -> None:
    dashboard = json.loads((DEPLOY / "dashboard.json").read_text())
    assert dashboard["schemaVersion"] >= 39 and dashboard["uid"] and dashboard["title"] and "id" not in dashboard
    panels = dashboard["panels"]
    ids = [panel["id"] for panel in panels]
    assert len(ids) == len(set(ids))
    cells = set()
    for panel in panels:
        place = panel["gridPos"]
        covered = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in covered) < 24 and not covered & cells, panel["title"]
        cells |= covered
        if panel["type"] == "row":
            continue
        assert panel["type"] in ("timeseries", "stat") and panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"} and panel["description"]
        assert [target["refId"] for target in panel["targets"]] == ["A", "B", "C"][: len(panel["targets"])]
        assert all("$instance" in target["expr"] and target["legendFormat"] for target in panel["targets"])
    assert [one["name"] for one in dashboard["templating"]["list"]] == ["datasource", "instance"]


@pytest.fixture(scope="module")
def promtool() -> str:
    return promtool_program()


def check(promtool: str, *arguments: str) -> None:
    done = subprocess.run([promtool, *arguments], cwd=DEPLOY, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_alerts_and_their_tests_pass(promtool: str) -> None:
    check(promtool, "check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml")
    check(promtool, "test", "rules", "alerts.test.yaml")


def test_promtool_accepts_the_configuration(promtool: str) -> None:
    check(promtool, "check", "config", "--syntax-only", "prometheus.yaml")


def test_promtool_accepts_the_queries_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    """Each as a recording rule, with Grafana's variables replaced."""
    texts = [text.replace("$__rate_interval", "1m").replace("$instance", ".*") for text in expressions()]
    rules = [{"record": f"query:{at}", "expr": text} for at, text in enumerate(texts)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    check(promtool, "check", "rules", str(path))


def test_promtool_accepts_the_metrics(promtool: str) -> None:
    from prometheus_client import generate_latest

    registry = CollectorRegistry()
    ReportMetrics(registry)
    done = subprocess.run(
        [promtool, "check", "metrics"], input=generate_latest(registry), capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
