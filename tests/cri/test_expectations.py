"""The comparison with `exceptions.toml`, and the registry: a run must not pass by mistake."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request

import pytest

from tests.cri import critest, expectations
from tests.cri.critest import FAILED, PASSED, SKIPPED, Result
from tests.cri.expectations import Exemption
from tests.support.oci_registry import MANIFEST, Registry, Store

KNOWN = [
    Exemption(("Group *",), SKIPPED, "cannot", ("runc",)),
    Exemption(("One spec",), FAILED, "must not", ("runhcs-lcow",)),
]
GUEST = "runhcs-lcow-gcs-shim"


def result(name: str, state: str) -> Result:
    return Result(name, state, "its message", 1.0)


@pytest.mark.parametrize(
    ("run", "results"),
    [
        ("runc", [result("One spec", PASSED), result("Group a", SKIPPED), result("Group b", SKIPPED)]),
        (GUEST, [result("One spec", FAILED), result("Group a", PASSED)]),
    ],
)
def test_expected_results_are_no_difference(run: str, results: list[Result]) -> None:
    assert expectations.differences(run, results, KNOWN) == []


@pytest.mark.parametrize(
    ("run", "wrong"),
    [
        ("runc", result("One spec", FAILED)),
        ("runc", result("One spec", SKIPPED)),
        ("runc", result("Group a", PASSED)),  # an exception that is none any more
        ("runc", result("Group a", FAILED)),
        (GUEST, result("One spec", PASSED)),
        (GUEST, result("One spec", SKIPPED)),
    ],
)
def test_unexpected_result_is_a_difference(run: str, wrong: Result) -> None:
    (found,) = expectations.differences(run, [wrong], KNOWN, partial=True)
    assert wrong.name in found and wrong.state in found and "its message" in found


def test_exception_that_no_spec_has_is_a_difference() -> None:
    (found,) = expectations.differences(GUEST, [result("Another", PASSED)], KNOWN)
    assert found.startswith("One spec: no spec of this name ran")
    assert expectations.differences(GUEST, [result("Another", PASSED)], KNOWN, partial=True) == []


def test_every_exception_has_a_reason_and_known_runs() -> None:
    names = {expectations.ALL_GUESTS, *critest.RUNS}
    for exemption in expectations.load():
        assert exemption.reason and exemption.specs and exemption.result in (FAILED, SKIPPED)
        assert set(exemption.runs) <= names


def test_registry_serves_tags_digests_and_blobs_only() -> None:
    store = Store()
    layer = store.add("application/octet-stream", b"a layer")
    store.tag("dir/name", "1", {"layers": [layer]})
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}/v2/"
    with Registry(store, listener):

        def get(path: str, method: str = "GET") -> tuple[str, bytes]:
            request = urllib.request.Request(base + path, method=method)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return str(answer.headers["Content-Type"]), answer.read()

        assert get("") == ("application/json", b"{}")
        kind, manifest = get("dir/name/manifests/1?ns=example.test")
        assert kind == MANIFEST and json.loads(manifest) == {"layers": [layer]}
        assert get(f"dir/name/manifests/{store.tags['dir/name', '1']}") == (kind, manifest)
        assert get(f"dir/name/blobs/{layer['digest']}") == ("application/octet-stream", b"a layer")
        assert get("dir/name/manifests/1", "HEAD") == (kind, b"")
        for path, method in (("dir/name/manifests/2", "GET"), ("dir/name/blobs/sha256:00", "GET"), ("x", "PUT")):
            with pytest.raises(urllib.error.HTTPError):
                get(path, method)
