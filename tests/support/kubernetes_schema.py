"""Kubernetes' own OpenAPI as a strict check of manifests: unknown fields, wrong types and missing fields are errors.

The file is api/openapi-spec/swagger.json of the module k8s.io/kubernetes (scripts/deploy-programs.sh).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,),
    "object": (dict,),
}  # fmt: skip


class Schema:
    def __init__(self, swagger: Path) -> None:
        self._definitions: dict[str, Any] = json.loads(swagger.read_text())["definitions"]
        self._kinds = {
            (kind["group"], kind["version"], kind["kind"]): definition
            for definition in self._definitions.values()
            for kind in definition.get("x-kubernetes-group-version-kind", ())
            if "metadata" in definition.get("properties", {})
        }

    def check(self, document: dict[str, Any]) -> None:
        """Raise AssertionError for a manifest that the API server refuses."""
        group, _, version = str(document["apiVersion"]).rpartition("/")
        key = (group, version, document["kind"])
        assert key in self._kinds, f"Kubernetes has no {key}"
        self._check(document, self._kinds[key], f"{document['kind']} {document['metadata'].get('name')}")

    def _check(self, value: Any, schema: dict[str, Any], where: str) -> None:
        if "$ref" in schema:
            schema = self._definitions[schema["$ref"].rpartition("/")[2]]
        if schema.get("format") == "int-or-string":
            assert isinstance(value, (int, str)), f"{where}: {value!r} is neither a number nor a string"
            return
        kind = schema.get("type")
        if kind is not None:
            is_boolean = isinstance(value, bool)
            is_right = isinstance(value, _TYPES[kind]) and (kind == "boolean") == is_boolean
            assert is_right, f"{where}: {value!r} is not of type {kind}"
        assert "enum" not in schema or value in schema["enum"], f"{where}: {value!r} is not one of {schema['enum']}"
        if isinstance(value, list):
            for at, one in enumerate(value):
                self._check(one, schema["items"], f"{where}[{at}]")
        elif isinstance(value, dict):
            self._check_object(value, schema, where)

    def _check_object(self, value: dict[str, Any], schema: dict[str, Any], where: str) -> None:
        missing = set(schema.get("required", ())) - set(value)
        assert not missing, f"{where} lacks {sorted(missing)}"
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, one in value.items():
            if name in properties:
                self._check(one, properties[name], f"{where}.{name}")
            elif others is not None:
                self._check(one, others, f"{where}.{name}")
            else:
                assert not properties, f"{where} has an unknown field {name}"
