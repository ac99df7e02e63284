"""The admission policy of deploy/ that rejects pods with wrong values of annotations, from the shim's table of them.
`make docs` runs this.

The shim, as Microsoft's, ignores such a value with a warning in containerd's log, which users of a cluster do not see.
"""

from __future__ import annotations

from pathlib import Path

from shim.oci.annotations.schema import (
    APPLIED,
    FLAG,
    NUMBER,
    NUMBER_32,
    NUMBER_64,
    NUMBERS,
    NUMBERS_64,
    UINT64,
    Kind,
)
from shim.oci.annotations.table import rows

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "containerd-shim-runhcs" / "templates" / "podpolicy.yaml"
KUSTOMIZE = ROOT / "deploy" / "kustomize" / "base" / "podpolicy.yaml"

_VALUE = "variables.annotations[key]"
_LIST = f'{_VALUE}.matches("^[0-9]{{1,20}}(,[0-9]{{1,20}})*$")'


def _up_to(maximum: int) -> str:
    if maximum == UINT64:  # CEL compares texts of the same length as numbers
        return f'{_VALUE}.matches("^[0-9]{{1,20}}$") && (size({_VALUE}) < 20 || {_VALUE} <= "{maximum}")'
    return f'{_VALUE}.matches("^[0-9]{{1,18}}$") && int({_VALUE}) <= {maximum}'


# Name of the variable -> the kinds of the table, which values are right (CEL), and how to say that.
CHECKS: dict[str, tuple[tuple[Kind, ...], str, str]] = {
    "wrongFlags": (
        (FLAG,),
        f'{_VALUE} in ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"]',
        "true or false",
    ),
    "wrongNumbers": ((NUMBER,), _up_to(NUMBER.maximum), f"a whole number up to {NUMBER.maximum}, without a unit"),
    "wrongNumbers32": (
        (NUMBER_32,), _up_to(NUMBER_32.maximum), f"a whole number up to {NUMBER_32.maximum}, without a unit"
    ),
    "wrongNumbers64": (
        (NUMBER_64,), _up_to(NUMBER_64.maximum), f"a whole number up to {NUMBER_64.maximum}, without a unit"
    ),
    "wrongLists": ((NUMBERS, NUMBERS_64), _LIST, "whole numbers between commas, without spaces"),
}  # fmt: skip


def files() -> dict[Path, str]:
    head = "# Made by `make docs` from the tables in shim/oci: change those.\n"
    labels = '  labels:\n    {{- include "runhcs.labels" . | nindent 4 }}\n'
    chart = _policy('{{ include "runhcs.name" . }}-pods', labels)
    return {
        CHART: f"{head}{{{{- if .Values.validateAnnotations }}}}\n{chart}{{{{- end }}}}\n",
        KUSTOMIZE: head + _policy("containerd-shim-runhcs-pods", ""),
    }


def keys(kinds: tuple[Kind, ...]) -> list[str]:
    """Keys with a fixed name whose values have one of these kinds."""
    found = rows().values()
    return sorted(row for row in found if row.kind in kinds and row.outcome == APPLIED and not row.endswith("."))


def _policy(name: str, labels: str) -> str:
    variables, validations = [], []
    for variable, (kinds, is_right, words) in CHECKS.items():
        listed = ",\n".join(f'        "{key}"' for key in keys(kinds))
        variables.append(
            f"    - name: {variable}\n      expression: >-\n        variables.annotations.filter(key, key in [\n"
            f"{listed}\n        ] && !({is_right}))\n"
        )
        validations.append(
            f"    - expression: size(variables.{variable}) == 0\n      messageExpression: >-\n"
            f'        "annotation " + variables.{variable}.join(", ") + " has a wrong value: use {words}"\n'
        )
    return f"""\
# Rejects pods with a wrong value of an annotation, which the shim would ignore.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {name}
{labels}spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        operations: [CREATE]
        resources: [pods]
  matchConditions:
    - name: has-annotations-of-the-shim
      expression: >-
        has(object.metadata.annotations) && object.metadata.annotations.exists(key,
        key.startsWith("io.microsoft.") || key.startsWith("microsoft.com/"))
  variables:
    - name: annotations
      expression: object.metadata.annotations
{"".join(variables)}  validations:
{"".join(validations)}---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {name}
{labels}spec:
  policyName: {name}
  validationActions: [Deny]
"""
