"""node.k8s.io/v1 RuntimeClass, as Kubernetes documents and validates it: strict, unknown fields are errors."""

from __future__ import annotations

import re
from typing import Any

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
DNS_SUBDOMAIN = re.compile(rf"{DNS_LABEL.pattern}(\.{DNS_LABEL.pattern})*")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|[kMGTPE]|[KMGTPE]i)?")
OPERATORS = ("Equal", "Exists")
EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")


def check(document: Any) -> None:
    """Raise AssertionError for a document that the API server refuses."""
    fields(document, "RuntimeClass", required={"apiVersion", "kind", "metadata", "handler"},
           optional={"overhead", "scheduling"})  # fmt: skip
    assert document["apiVersion"] == "node.k8s.io/v1" and document["kind"] == "RuntimeClass"
    metadata = document["metadata"]
    fields(metadata, "metadata", required={"name"}, optional={"labels", "annotations"})
    assert len(metadata["name"]) <= 253
    assert DNS_SUBDOMAIN.fullmatch(metadata["name"]), metadata["name"]
    assert isinstance(document["handler"], str) and DNS_LABEL.fullmatch(document["handler"]), document["handler"]
    if "scheduling" in document:
        _scheduling(document["scheduling"])
    if "overhead" in document:
        fields(document["overhead"], "overhead", optional={"podFixed"})
        for name, quantity in document["overhead"].get("podFixed", {}).items():
            _label_key(name)
            assert QUANTITY.fullmatch(str(quantity)), f"{name}: {quantity} is not a quantity"


def fields(value: Any, where: str, *, required: set[str] = frozenset(), optional: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    assert isinstance(value, dict), f"{where} is not an object"
    assert required <= set(value), f"{where} lacks {required - set(value)}"
    assert set(value) <= required | optional, f"{where} has unknown fields {set(value) - required - optional}"


def _scheduling(scheduling: Any) -> None:
    fields(scheduling, "scheduling", optional={"nodeSelector", "tolerations"})
    for key, value in scheduling.get("nodeSelector", {}).items():
        _label_key(key)
        assert isinstance(value, str) and LABEL_VALUE.fullmatch(value), f"{key}: {value!r} is no label value"
    for toleration in scheduling.get("tolerations", ()):
        fields(toleration, "toleration", optional={"key", "operator", "value", "effect", "tolerationSeconds"})
        assert toleration.get("operator", "Equal") in OPERATORS
        assert toleration.get("effect", "") in EFFECTS
        if toleration.get("key"):
            _label_key(toleration["key"])
        else:
            assert toleration.get("operator") == "Exists", "a toleration without a key must be Exists"
        if toleration.get("operator") == "Exists":
            assert not toleration.get("value"), "Exists takes no value"
        assert isinstance(toleration.get("value", ""), str)
        if "tolerationSeconds" in toleration:
            assert toleration.get("effect") == "NoExecute"


def _label_key(key: Any) -> None:
    assert isinstance(key, str)
    prefix, slash, name = key.rpartition("/")
    assert not slash or DNS_SUBDOMAIN.fullmatch(prefix), key
    assert name and LABEL_VALUE.fullmatch(name), key
